# SPDX-License-Identifier: Apache-2.0
"""The segmentation that a report shows of a run: that of the run directory, or a small one made here.

If the run directory holds no `segmentation.h5`, the newest checkpoint segments the middle of the held-out box: by flood
filling, or from affinities. This takes up to a minute, is not stored, and works for a run that still trains.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from floodtide import _core, evaluate
from floodtide.base.data_options import TrainingVolume
from floodtide.base.progress import bar
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import as_vec3, box_text
from floodtide.errors import (
    InvalidArgumentError,
    InvalidFileError,
    OutOfRangeError,
    UnsupportedError,
)
from floodtide.evaluate import trivial
from floodtide.report import growth, planes
from floodtide.train.recorded_run import PATCHES, SEGMENTATION, Run

if TYPE_CHECKING:
    from pathlib import Path

    from floodtide import config
    from floodtide.report.growth import Snapshots

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
        image, truth: Names of the volumes of the whole, "" if there is none.
        note: Where the segmentation comes from.
        grown: Snapshots of a growing object, if the segmentation was made for the report.
        objects: Ids of the truth in the same box; None without truth, or for a very large box.
        answers: {name: scores} of the segmentation (the first row) and of trivial answers; empty without `objects`.
        pairs: Rows (segment, object, voxels) of the whole box; None without `objects`.
    """

    segmentation: Volume
    start: Vec3
    image: str
    truth: str
    note: str
    grown: Snapshots | None = None
    objects: Volume | None = None
    answers: dict[str, dict[str, float]] = field(default_factory=dict)
    pairs: npt.NDArray[np.int64] | None = None


def of_run(run: Run, *, alone: bool) -> tuple[Segmented | None, list[str]]:
    """Return the segmentation of a run; or None and texts that say why there is none.

    Args:
        run: The run.
        alone: The report is about this run only. Runs that are compared are not segmented for the report.

    Raises:
        InvalidFileError: If a file of the run directory is damaged.
        NumericalError: If an output of the network is not finite.
    """
    image, truth = run.sources
    if os.path.lexists(run.folder / SEGMENTATION):
        volume = Volume(run.folder / SEGMENTATION, "segmentation")
        start = as_vec3(_core.segment.placement(volume.core) or [0, 0, 0])
        found = Segmented(
            segmentation=volume,
            start=start,
            image=image,
            truth=truth,
            note=f"The segmentation is {SEGMENTATION} of the run directory.",
        )
        return _compared(found), []
    if not alone:
        return None, [f"{_WHAT}: `floodtide report` of this run alone makes them"]
    try:
        made = _from_affinities(run) if run.unit == PATCHES else _flooded(run)
    except CANNOT as error:
        return None, [f"{_WHAT}: {error}"]
    return _compared(made), []


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What a report segments: the newest checkpoint, and the held-out box of a volume."""

    settings: config.Config
    checkpoint: Path
    source: TrainingVolume
    box: Box


def newest(run: Run) -> tuple[config.Config, Path]:
    """Return the configuration and the newest checkpoint of a run.

    Raises:
        InvalidFileError: If there is none yet, or a file is damaged.
    """
    from floodtide import config
    from floodtide.train.run_directory import RunDirectory

    checkpoints = RunDirectory(run.folder, writer=False).checkpoints()
    if not checkpoints or not run.config_text:
        raise InvalidFileError("no checkpoint with a configuration yet; training writes one")
    return config.load(run.folder / "config.toml"), checkpoints[-1]


def held_out(run: Run) -> HeldOut:
    """Return the newest checkpoint of a run, and the box that it holds out.

    Raises:
        InvalidFileError: As `newest` raises.
        InvalidArgumentError: If the run holds nothing out.
    """
    settings, checkpoint = newest(run)
    box = parse_box(settings.validation.box)
    if box is None:
        raise InvalidArgumentError(
            "the run holds nothing out; validation.box names a box to hold out"
        )
    name = settings.validation.volume
    source = next((v for v in settings.data.volumes if name in ("", v.name)), None)
    if source is None:
        raise InvalidArgumentError(f"the configuration has no [[data.volumes]] table '{name}'")
    return HeldOut(settings=settings, checkpoint=checkpoint, source=source, box=box)


def _from_affinities(run: Run) -> Segmented:
    """Predict the middle of the held-out box with the newest checkpoint, and agglomerate it by mean affinity."""
    from floodtide.segment import predict, trained
    from floodtide.segment.affinities import AffinityOptions, segments_of

    found = held_out(run)
    source = found.source
    predictor = predict.Predictor(trained.load(found.checkpoint), mean=source.mean, std=source.std)
    offsets = trained.offsets(found.checkpoint)
    if offsets is None:
        raise InvalidArgumentError(
            f"{found.checkpoint.name} does not state the offsets of its affinities"
        )
    part = small_part(found.box, (1, 1, 1))
    with bar("voxels", f"{run.name}: segment held-out voxels for the report") as progress:
        affinities = predictor.probabilities(Volume(source.image), part, progress)
    labels = segments_of(affinities, offsets, AffinityOptions())
    return Segmented(
        segmentation=Volume(labels.astype(np.uint32)),
        start=part[0],
        image=source.image,
        truth=source.labels,
        note=f"Held-out voxels {box_text(part)} (z, y, x), segmented for this report from the affinities of"
        f" {found.checkpoint.name}, by `floodtide agglomerate`.",
    )


def _flooded(run: Run) -> Segmented:
    """Segment the middle of the held-out box with the newest checkpoint of the run."""
    from floodtide.segment import Segmenter

    found = held_out(run)
    settings, source, box = found.settings, found.source, found.box
    options = dataclasses.replace(
        settings.segment.alone(),
        checkpoint=str(found.checkpoint),
        mean=source.mean,
        std=source.std,
        fov=None,
        deltas=None,
        consensus="none",
        reflect=False,  # only voxels that a field of view can have in its middle are shown
    )
    segmenter = Segmenter.load(options, compute=settings.run.compute)
    part = small_part(box, segmenter.model.fov)
    volume = Volume(source.image)
    with bar("voxels", f"{run.name}: segment held-out voxels for the report") as progress:
        result = segmenter.segment(volume, part, progress)
    margin = [n // 2 for n in segmenter.model.fov]
    inner = tuple(slice(m, n - m) for m, n in zip(margin, part[1], strict=True))
    labels = np.ascontiguousarray(result.segmentation[inner])
    start = as_vec3([a + m for a, m in zip(part[0], margin, strict=True)])
    shown = box_text((start, as_vec3(labels.shape)))
    # Of a young network, the largest object may have taken a single move.
    largest = max(result.origins, key=lambda o: (o.iterations > 1, o.voxels), default=None)
    grown = None
    if largest is not None:
        seed = [a - b for a, b in zip(largest.start_zyx, result.start_zyx, strict=True)]
        grown = growth.grow(segmenter, volume.read(part), seed)
    return Segmented(
        segmentation=Volume(labels),
        start=start,
        image=source.image,
        truth=source.labels,
        note=f"Held-out voxels {shown} (z, y, x), segmented for this report by {found.checkpoint.name}.",
        grown=grown,
    )


def small_part(box: Box, fov: Sequence[int]) -> Box:
    """Return the middle part (start, size) of a box with about half a million voxels, and at least a field of view.

    Voxels nearer to the faces than half a field of view are segmented and then left out: no field of view has its
    centre there.

    Raises:
        OutOfRangeError: If nothing is left.
    """
    start, size = box
    factor = min(1.0, (_SMALL / float(np.prod(size, dtype=np.float64))) ** (1 / 3))
    wanted = [min(n, max(int(n * factor), 2 * f)) for n, f in zip(size, fov, strict=True)]
    if any(n < f + 1 for n, f in zip(wanted, fov, strict=True)):
        raise OutOfRangeError(
            f"validation.box has {size[0]} x {size[1]} x {size[2]} voxels, expected more than the field of view"
        )
    first = [a + (n - w) // 2 for a, n, w in zip(start, size, wanted, strict=True)]
    return as_vec3(first), as_vec3(wanted)


def _compared(found: Segmented) -> Segmented:
    """Return the segmentation with its truth and scores, if there is a truth."""
    shape = found.segmentation.shape
    truth, image = (
        planes.covering(planes.opened(name), found.segmentation, found.start)
        for name in (found.truth, found.image)
    )
    if truth is None or truth[0].dtype.kind not in "iu" or math.prod(shape) > _MOST:
        return found
    objects = truth[0].read((found.start, shape))
    labels = found.segmentation.read()
    if labels.dtype.kind not in "iu":
        raise InvalidFileError(
            f"report: {found.segmentation.name}: has {labels.dtype} voxels, expected integers"
        )
    table = evaluate.ContingencyTable()
    table.add(labels, objects)
    answers = {"segmentation": table.scores(), trivial.ONE_OBJECT: trivial.one_object(table)}
    if image is not None:
        answers |= trivial.answers(image[0].read((found.start, shape)), objects)
    pairs = table.rows().astype(np.int64)
    return dataclasses.replace(found, objects=Volume(objects), answers=answers, pairs=pairs)
