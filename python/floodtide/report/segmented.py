# SPDX-License-Identifier: Apache-2.0
"""The segmentation that a report shows of a run: that of the run directory, or a small one made here.

If the run directory holds no `segmentation.h5`, the newest checkpoint segments the middle of a held-out box: by flood
filling, or from what a U-Net predicts. This takes up to a minute, is not stored, and works for a run that still trains.
A damaged file of the run directory is an InvalidFileError.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from floodtide import _core, config, evaluate
from floodtide.base.data_options import TrainingVolume, volume_name
from floodtide.base.network_files import checkpoints
from floodtide.base.progress import bar
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, as_vec3, box_text, difference, middle, total
from floodtide.data.patches import boxes_of
from floodtide.errors import (
    InvalidArgumentError,
    InvalidFileError,
    NumericalError,
    OutOfRangeError,
    UnsupportedError,
)
from floodtide.evaluate import trivial
from floodtide.evaluate.intervals import intervals
from floodtide.report import growth, planes
from floodtide.report.growth import Snapshots
from floodtide.segment import Segmenter, trained
from floodtide.segment.decoding import Decoding, kept_decoding
from floodtide.segment.linking import objects_of
from floodtide.segment.predict import predictor_of
from floodtide.train.learners import learner_of
from floodtide.train.learners.learner import held_out_volume
from floodtide.train.recorded_run import SEGMENTATION, Run

_SMALL = 1 << 19  # voxels that the report segments itself
_MOST = 1 << 26  # voxels of a segmentation that is compared with the truth
_WHAT = "pictures of a segmentation"

CANNOT = (InvalidFileError, InvalidArgumentError, OutOfRangeError, UnsupportedError)
"""Errors that say why a report cannot show a part."""


@dataclass(frozen=True, kw_only=True)
class Segmented:
    """A segmentation and what it is compared with.

    Attributes:
        segmentation: Segment ids (z, y, x).
        start: Its first voxel, in voxels of the whole volume.
        image: Name of the image of the whole, "" if there is none.
        truth: Ids of the truth in the same box; the name of the labels of the whole for a very large box; "": none.
        note: Where the segmentation comes from.
        grown: Snapshots of a growing object; None: not of flood filling, there is no checkpoint, or several runs are
            compared.
        answers: {name: scores} of the segmentation (the first row) and of trivial answers; empty if not compared.
        interval: 95 % interval of the segmentation's adapted Rand error; None: not compared, or few objects.
        pairs: Rows (segment, object, voxels) of the whole box; None if not compared.
    """

    segmentation: Volume
    start: Vec3
    image: str
    note: str
    truth: str | Volume = ""
    grown: Snapshots | None = None
    answers: dict[str, dict[str, float]] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    pairs: npt.NDArray[np.int64] | None = None

    def planes(
        self, voxel_size_nm: Sequence[float] | None, around: Vec3 | None = None
    ) -> list[planes.Plane]:
        """Return three planes of the segmentation, see `read_segmentation`."""
        return planes.read_segmentation(
            self.segmentation,
            self.image,
            self.truth,
            voxel_size_nm,
            around,
            pairs=self.pairs,
            placed=self.start,
        )


def of_run(run: Run, *, alone: bool) -> tuple[Segmented | None, list[str]]:
    """Return the segmentation of a run; or None and texts that say why there is none.

    Args:
        alone: The report is about this run only. Runs that are compared are not segmented for the report.
    """
    if os.path.lexists(run.folder / SEGMENTATION):
        volume = Volume(run.folder / SEGMENTATION, "segmentation")
        found = Segmented(
            segmentation=volume,
            start=as_vec3(_core.segment.placement(volume.core) or [0, 0, 0]),
            image=run.source.get("image", ""),
            note=f"The segmentation is {SEGMENTATION} of the run directory.",
        )
        grown, missing = _growing(run) if alone else (None, [])
        return dataclasses.replace(_compared(run, found, run.source), grown=grown), missing
    if run.source.get("groups"):
        return None, []  # sections of several volumes make no objects
    if not alone:
        return None, [f"{_WHAT}: `floodtide report` of this run alone makes them"]
    try:
        return _compared(run, *_made(run)), []
    except CANNOT as error:
        return None, [f"{_WHAT}: {error}"]


def _growing(run: Run) -> tuple[Snapshots | None, list[str]]:
    """Return snapshots of an object that the newest checkpoint of a run grows; or None, and why there are none."""
    try:
        return (None if run.task.predicts else _made(run)[0].grown), []
    except (*CANNOT, NumericalError) as error:
        return None, [f"a mask growing over its moves: {error}"]


def newest(run: Run) -> tuple[config.Config, Path]:
    """Return the configuration and the newest checkpoint of a run. A run without any is an InvalidFileError."""
    found = checkpoints(run.folder)
    if not found or not run.config_text:
        raise InvalidFileError("no checkpoint with a configuration yet; training writes one")
    return config.load(run.folder / "config.toml"), found[-1]


def held_out_box(settings: config.Config) -> tuple[TrainingVolume, Box]:
    """Return a volume of which a run holds out a box, or all, and the first such box: of the test part, if any.

    A run that holds nothing out is an InvalidArgumentError.
    """
    volume = held_out_volume(settings)
    if volume is not None and settings.validation.test_box:
        volume = dataclasses.replace(volume, box=settings.validation.test_box)
    if volume is None:
        held_out = learner_of(settings.model).held_out_of(settings)
        if held_out is None:
            raise InvalidArgumentError("the run holds nothing out; [validation] names what")
        volumes = held_out.options.volumes
        volume = next((one for one in volumes if one.name in held_out.groups), volumes[0])
    return volume, boxes_of(volume)[0]


def _made(run: Run) -> tuple[Segmented, dict[str, Any]]:
    """Segment the middle of a held-out box with the newest checkpoint of the run.

    Return the segmentation, and the names and places of its labels, for `_compared`.
    """
    settings, checkpoint = newest(run)
    source, box = held_out_box(settings)
    make = _predicted if settings.task.predicts else _flooded
    with bar("voxels", f"{run.name}: segment held-out voxels for the report") as progress:
        labels, start, grown, decoding = make(settings, checkpoint, source, box, progress)
    shown = box_text((start, as_vec3(labels.shape)))
    found = Segmented(
        segmentation=Volume(labels),
        start=start,
        image=volume_name(source.image),
        note=f"Held-out voxels {shown} (z, y, x), segmented for this report by {checkpoint.name}.{decoding}",
        grown=grown,
    )
    return found, {"labels": volume_name(source.labels), "labels_start": source.labels_box_start}


_Made = tuple[npt.NDArray[np.uint32], Vec3, Snapshots | None, str]
"""Labels, their place, a growing object, and a sentence about the decoding."""


def _predicted(
    settings: config.Config, checkpoint: Path, source: TrainingVolume, box: Box, progress: Progress
) -> _Made:
    """Predict the middle of the held-out box, and make objects of the prediction as `floodtide segment` does."""
    task: Any = settings.task
    decoding = Decoding()
    if task.affinity_offsets:
        decoding = kept_decoding(checkpoint, settings.segment)
    predictor = predictor_of(source, trained.load(checkpoint), task, decoding.mirror)
    part = small_part(box, (1, 1, 1))
    images = [Volume(volume_name(one.image)) for one in source.inputs]
    predicted = predictor.predicted(images, part, progress)
    labels = objects_of(task, predicted, sections=predictor.model.flat, options=decoding.options)
    said = f" Decoding: {decoding.source_for(part)}." if decoding.source else ""
    return labels.astype(np.uint32), part[0], None, said


def _flooded(
    settings: config.Config, checkpoint: Path, source: TrainingVolume, box: Box, progress: Progress
) -> _Made:
    options = dataclasses.replace(
        settings.segment.alone(),
        checkpoint=str(checkpoint),
        mean=source.mean,
        std=source.std,
        fov=None,
        deltas=None,
        consensus="none",
        reflect=False,  # only voxels that a field of view can have in its middle are shown
    )
    segmenter = Segmenter.load(options, compute=settings.run.compute)
    part = small_part(box, segmenter.model.fov)
    volume = Volume(volume_name(source.image))
    result = segmenter.segment(volume, part, progress)
    margin = [n // 2 for n in segmenter.model.fov]
    inner = tuple(slice(m, n - m) for m, n in zip(margin, part[1], strict=True))
    # Of a young network, the largest object may have taken a single move.
    largest = max(result.origins, key=lambda o: (o.iterations > 1, o.voxels), default=None)
    grown = None
    if largest is not None:
        seed = difference(largest.start_zyx, result.start_zyx)
        grown = growth.grow(segmenter, volume.read(part), seed)
    return np.ascontiguousarray(result.segmentation[inner]), total(part[0], margin), grown, ""


def small_part(box: Box, fov: Sequence[int]) -> Box:
    """Return the middle part (start, size) of a box with about half a million voxels, and at least a field of view.

    Voxels nearer to the faces than half a field of view are segmented and then left out: no field of view has its
    centre there.
    """
    size = box[1]
    factor = min(1.0, (_SMALL / float(np.prod(size, dtype=np.float64))) ** (1 / 3))
    wanted = [min(n, max(int(n * factor), 2 * f)) for n, f in zip(size, fov, strict=True)]
    if any(n < f + 1 for n, f in zip(wanted, fov, strict=True)):
        raise OutOfRangeError(
            f"validation.box has {size[0]} x {size[1]} x {size[2]} voxels, expected more than the field of view"
        )
    return middle(box, wanted)


def _compared(run: Run, found: Segmented, volume: Mapping[str, Any]) -> Segmented:
    """Return the segmentation with the truth of a volume's table and scores, if the labels are objects."""
    shape = found.segmentation.shape
    labels, first = str(volume.get("labels", "")), volume.get("labels_start", (0, 0, 0))
    inside = difference(found.start, first)
    truth = planes.covering(planes.opened(labels), found.segmentation, inside)
    volumes = [found.segmentation, *(truth or ())[:1]]
    if truth is None or not run.task.of_objects or any(v.dtype.kind not in "iu" for v in volumes):
        return found
    if math.prod(shape) > _MOST:
        return dataclasses.replace(found, truth="" if any(first) else labels)
    objects = truth[0].read((inside, shape))
    objects[objects == run.config.get("data", {}).get("unlabelled", 0)] = 0
    table = evaluate.ContingencyTable()
    table.add(found.segmentation.read(), objects)
    answers = {"segmentation": table.scores(), trivial.ONE_OBJECT: trivial.one_object(table)}
    image = planes.covering(planes.opened(found.image), found.segmentation, found.start)
    if image is not None:
        grey = image[0].read((found.start, shape))
        answers[trivial.GREY_LEVEL] = trivial.of_grey_level(grey, objects)[1]
    pairs = table.rows().astype(np.int64)
    interval = (intervals(table) or {}).get(trivial.ERROR)
    return dataclasses.replace(
        found, truth=Volume(objects), answers=answers, interval=interval, pairs=pairs
    )
