# SPDX-License-Identifier: Apache-2.0
"""Which compared voxels the network of a segmentation has seen in its training, as far as the files say it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from floodtide import config
from floodtide.base.data_options import TrainingVolume, volume_name
from floodtide.base.network_files import DECODING
from floodtide.base.reading import exists
from floodtide.config.stored import stored
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3, box_text, difference, intersection, parse_boxes, total
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.table import format_of
from floodtide.data.patches import boxes_of
from floodtide.data.resampling import original_of
from floodtide.data.volumes import volume_exists
from floodtide.errors import Error
from floodtide.evaluate.voxels import Pair


def note_of(pair: Pair) -> str:
    """Return a sentence if the network of a segmentation has seen compared voxels in its training; "" if not.

    Also "" if the segmentation does not name its checkpoint, or a file that is needed to know cannot be read.
    """
    try:
        checkpoint = pair.segmentation.text("checkpoint")
        settings = stored(checkpoint) if checkpoint else None
        kept = Path(checkpoint).absolute().parent.parent / DECODING
        if settings is None or settings.validation.share > 0:  # else any section may be held out
            return ""
        return _note(pair, settings, chose=exists(kept))
    except (Error, OSError, ValueError):
        return ""


def _note(pair: Pair, settings: config.Config, *, chose: bool) -> str:
    section, region = settings.validation, pair.places[0]
    learnt, chosen, test = list[Box](), list[Box](), list[Box]()
    named = section.volume or next((one.name for one in settings.data.volumes), "")
    for volume in settings.data.volumes:
        if (place := _place(pair, volume)) is not None:
            learnt += place.boxes(volume)
            if volume.name == named:
                chosen += place.moved(parse_boxes(section.box))
                test += place.moved(parse_boxes(section.test_box))
    for volume in section.volumes:
        if (place := _place(pair, volume)) is not None:
            chosen += place.boxes(volume)
    if not chose:  # no threshold was chosen on the validation box
        chosen, test = [], test or chosen
    of_choice = "are in the validation box, on which thresholds were chosen"
    what = ((learnt, "were trained on"), (chosen, of_choice))
    said = [f"{share} % {text}" for boxes, text in what if (share := _share(region, boxes))]
    if not said:
        return ""
    text = ", and ".join(said).replace(" % ", " % of these voxels ", 1)
    return f"note: {text}: this score is too good{_advice(pair, test)}"


def _advice(pair: Pair, test: Sequence[Box]) -> str:
    """Return where the voxels are that the training has not seen, if there are any."""
    _, *starts = pair.places
    volumes = zip(starts, (pair.segmentation.shape, pair.truth.shape), strict=True)
    covered = intersection(*volumes)
    for box in test:
        if covered is not None and intersection(box, covered) == box:
            return f"; the test part is --box {box_text(box)}"
    return "".join(f"; segment the test part, {box_text(box)}" for box in test[:1])


class _Place:
    """Where the voxels of a training volume are in the whole volume that is compared.

    Args:
        first: The place of the first voxel of the image.
        ratio: Voxel size of the training volume, divided by that of the image.
    """

    def __init__(self, first: Vec3, ratio: Sequence[float] = (1.0, 1.0, 1.0)) -> None:
        self._first, self._ratio = first, ratio

    def moved(self, boxes: Iterable[Box]) -> list[Box]:
        """Return boxes of the training volume in voxels of the whole volume."""
        return [
            (total(self._scaled(start), self._first), difference(end, self._scaled(start)))
            for start, size in boxes
            for end in [self._scaled(total(start, size))]
        ]

    def boxes(self, volume: TrainingVolume) -> list[Box]:
        """Return the boxes of the training volume whose labels are used."""
        return self.moved(parse_boxes(volume.box) or boxes_of(volume))

    def _scaled(self, voxel: Vec3) -> Vec3:
        return as_vec3([round(n * r) for n, r in zip(voxel, self._ratio, strict=True)])


def _place(pair: Pair, volume: TrainingVolume) -> _Place | None:
    """Return where a training volume is; None: it has neither the image nor the labels that are compared."""
    image, name = pair.segmentation.text("image"), volume_name(volume.image)
    if image and _same(name, image):
        return _Place(pair.start_of(Volume(image)))
    if volume.labels and _same(volume_name(volume.labels), pair.truth.name):
        return _Place(difference(pair.places[2], volume.labels_box_start))
    original = original_of(Volume(name)) if image and volume_exists(name) else None
    size: SizeNm | None = Volume(name).geometry.voxel_size_nm if original else None
    if original is None or size is None or not _same(original[0], image):
        return None
    ratio = [new / old for new, old in zip(size, original[1], strict=True)]
    return _Place(pair.start_of(Volume(image)), ratio)


def _same(a: str, b: str) -> bool:
    try:
        return format_of(a).place(a) == format_of(b).place(b)
    except Error:
        return a == b


def _share(region: Box, boxes: Sequence[Box]) -> int:
    """Return the share of a box that boxes cover, in whole percent: 0 only for no voxel."""
    parts = [part for box in boxes if (part := intersection(region, box))]
    ends = [
        sorted({n for start, size in parts for n in (start[axis], start[axis] + size[axis])})
        for axis in range(3)
    ]
    covered = np.zeros([max(0, len(one) - 1) for one in ends], bool)
    for start, size in parts:
        covered[
            tuple(
                slice(one.index(a), one.index(a + n))
                for one, a, n in zip(ends, start, size, strict=True)
            )
        ] = True
    dz, dy, dx = (np.diff(one) for one in ends)
    voxels = int((covered * dz[:, None, None] * dy[:, None] * dx).sum())
    return max(1, round(100 * voxels / math.prod(region[1]))) if voxels else 0
