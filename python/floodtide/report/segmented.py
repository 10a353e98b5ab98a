# SPDX-License-Identifier: Apache-2.0
"""The segmentation that a report shows of a run, with its worst mistakes: of the run directory, or a small one of here.

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
from floodtide.base import style
from floodtide.base.data_options import TrainingVolume, volume_name
from floodtide.base.progress import bar
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, as_vec3, box_text, difference, middle, total
from floodtide.data.formats.geometry import size_text
from floodtide.data.patches import boxes_of
from floodtide.errors import Error, InvalidArgumentError, OutOfRangeError
from floodtide.evaluate import trivial
from floodtide.evaluate.mistakes import Mistake
from floodtide.evaluate.voxels import intervals
from floodtide.report import drawing, growth, planes
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
_COUNT = 10  # of the worst mistakes
_COLUMNS = 5  # of their pictures
_PANEL = 2.1  # width of a picture in inches
_WINDOW = 80  # voxels along each side of a picture


@dataclass(frozen=True, kw_only=True)
class Segmented:
    """A segmentation and what it is compared with.

    Attributes:
        segmentation: Segment ids (z, y, x).
        start: Its first voxel, in voxels of the whole volume.
        note: Where the segmentation comes from.
        image: The image of the whole, and the place of the segmentation in it; None: there is none.
        truth: Ids of the truth in the same box; None: unknown, or too large.
        grown: Snapshots of a growing object; None: not of flood filling, there is no checkpoint, or several runs are
            compared.
        answers: {name: scores} of the segmentation (the first row) and of trivial answers; empty without truth.
        interval: 95 % interval of the segmentation's adapted Rand error; None: without truth, or few objects.
        pairs: Rows (segment, object, voxels) of the whole box; None without truth.
    """

    segmentation: Volume
    start: Vec3
    note: str
    image: planes.Layer | None = None
    truth: Volume | None = None
    grown: Snapshots | None = None
    answers: dict[str, dict[str, float]] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    pairs: npt.NDArray[np.int64] | None = None

    def planes(
        self, voxel_size_nm: Sequence[float] | None, around: Vec3 | None = None, width: int = 160
    ) -> list[planes.Plane]:
        """Return three planes of the segmentation, see `planes.cut`."""
        inside = (0, 0, 0)
        layers = {
            "segmentation": (self.segmentation, inside),
            "image": self.image,
            "truth": None if self.truth is None else (self.truth, inside),
        }
        return planes.cut(
            layers, voxel_size_nm, around=around, width=width, start=self.start, pairs=self.pairs
        )


def of_run(run: Run, *, alone: bool) -> tuple[Segmented | None, list[str]]:
    """Return the segmentation of a run; or None and texts that say why there is none.

    Args:
        alone: The report is about this run only. Runs that are compared are not segmented for the report.
    """
    if os.path.lexists(run.folder / SEGMENTATION):
        volume = Volume(run.folder / SEGMENTATION, "segmentation")
        start = as_vec3(_core.segment.placement(volume.core) or [0, 0, 0])
        note = f"The segmentation is {SEGMENTATION} of the run directory."
        grown, missing = _growing(run) if alone else (None, [])
        found = _compared(run, volume, start, run.source, note)
        return dataclasses.replace(found, grown=grown), missing
    if run.source.get("groups"):
        return None, []  # sections of several volumes make no objects
    if not alone:
        return None, [f"{_WHAT}: `floodtide report` of this run alone makes them"]
    try:
        return _made(run), []
    except Error as error:
        return None, [f"{_WHAT}: {error}"]


def _growing(run: Run) -> tuple[Snapshots | None, list[str]]:
    """Return snapshots of an object that the newest checkpoint of a run grows; or None, and why there are none."""
    try:
        return (None if run.task.predicts else _made(run).grown), []
    except Error as error:
        return None, [f"a mask growing over its moves: {error}"]


def held_out_box(settings: config.Config) -> tuple[TrainingVolume, Box]:
    """Return a volume of which a run holds out a box, or all, and the first such box: of the test part, if any.

    A run that holds nothing out is an InvalidArgumentError.
    """
    if volume := held_out_volume(settings):
        volume = dataclasses.replace(volume, box=settings.validation.test_box or volume.box)
    else:
        held_out = learner_of(settings.model).held_out_of(settings)
        if held_out is None:
            raise InvalidArgumentError("the run holds nothing out; [validation] names what")
        volumes = held_out.options.volumes
        volume = next((one for one in volumes if one.name in held_out.groups), volumes[0])
    return volume, boxes_of(volume)[0]


def _made(run: Run) -> Segmented:
    """Segment the middle of a held-out box with the newest checkpoint of the run."""
    settings = config.load(run.folder / "config.toml")
    checkpoint = trained.newest_checkpoint(run.folder)
    source, box = held_out_box(settings)
    make = _predicted if settings.task.predicts else _flooded
    with bar("voxels", f"{run.name}: segment held-out voxels for the report") as progress:
        labels, start, grown, decoding = make(settings, checkpoint, source, box, progress)
    shown = box_text((start, as_vec3(labels.shape)))
    note = f"Held-out voxels {shown} (z, y, x), segmented for this report by {checkpoint.name}.{decoding}"
    image, labels_name = volume_name(source.image), volume_name(source.labels)
    volume = {"image": image, "labels": labels_name, "labels_start": source.labels_box_start}
    return dataclasses.replace(_compared(run, Volume(labels), start, volume, note), grown=grown)


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
    said = f" Decoding: {decoding.source}." if decoding.source else ""
    return labels.astype(np.uint32), part[0], None, said


def _flooded(
    settings: config.Config, checkpoint: Path, source: TrainingVolume, box: Box, progress: Progress
) -> _Made:
    # Only voxels that a field of view can have in its middle are shown.
    plain: dict[str, Any] = {"fov": None, "deltas": None, "consensus": "none", "reflect": False}
    plain |= {"checkpoint": str(checkpoint), "mean": source.mean, "std": source.std}
    options = dataclasses.replace(settings.segment.alone(), **plain)
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
    factor = min(1.0, (_SMALL / math.prod(size)) ** (1 / 3))
    wanted = [min(n, max(int(n * factor), 2 * f)) for n, f in zip(size, fov, strict=True)]
    if any(n < f + 1 for n, f in zip(wanted, fov, strict=True)):
        raise OutOfRangeError(
            f"validation.box has {size_text(size)} voxels, expected more than the field of view"
        )
    return middle(box, wanted)


def _compared(
    run: Run, segmentation: Volume, start: Vec3, volume: Mapping[str, Any], note: str
) -> Segmented:
    """Return a segmentation with image and truth of a volume's table, and with scores if the labels are objects."""
    shape = segmentation.shape
    image = planes.placed(planes.opened(str(volume.get("image", ""))), start, shape)
    found = Segmented(segmentation=segmentation, start=start, note=note, image=image)
    labels = planes.opened(str(volume.get("labels", "")))
    inside = difference(start, volume.get("labels_start", (0, 0, 0)))
    truth = planes.placed(labels, inside, shape)
    if truth is None or not run.task.of_objects or math.prod(shape) > _MOST:
        return found
    if any(one.dtype.kind not in "iu" for one in (segmentation, truth[0])):
        return found
    objects = truth[0].read((inside, shape))
    objects[objects == run.config.get("data", {}).get("unlabelled", 0)] = 0
    table = evaluate.ContingencyTable()
    table.add(segmentation.read(), objects)
    answers = {"segmentation": table.scores(), trivial.ONE_OBJECT: trivial.one_object(table)}
    if image is not None:
        grey = image[0].read((start, shape))
        answers[trivial.GREY_LEVEL] = trivial.of_grey_level(grey, objects)[1]
    return dataclasses.replace(
        found,
        truth=Volume(objects),
        answers=answers,
        interval=(intervals(table) or {}).get(trivial.ERROR),
        pairs=table.rows().astype(np.int64),
    )


def worst_of(found: Segmented) -> list[Mistake]:
    """Return the ten mistakes that cost most voxels, splits and mergers together; empty without truth."""
    if found.truth is None:
        return []
    labels = Volume(found.segmentation.read())  # as an array: without a position, like the truth
    mistakes = evaluate.worst_mistakes(evaluate.Pair(labels, found.truth), count=_COUNT)
    mistakes.sort(key=lambda mistake: -mistake.voxels)
    first: dict[tuple[int, int], Mistake] = {}
    # If a segment takes a part of another object, this part is in a merger and in a split.
    for mistake in mistakes:
        first.setdefault((mistake.parts[1].segment, mistake.parts[1].object), mistake)
    result = []
    for mistake in list(first.values())[:_COUNT]:  # in voxels of the whole volume
        parts = (
            dataclasses.replace(part, zyx=total(part.zyx, found.start)) for part in mistake.parts
        )
        result.append(dataclasses.replace(mistake, parts=tuple(parts)))
    return result


def worst_figure(
    found: Segmented, mistakes: Sequence[Mistake], voxel_size_nm: Sequence[float] | None
) -> str:
    """Return a figure with the plane z through each mistake, in the colours of the mistakes. PNG as data URI."""
    rows = -(-len(mistakes) // _COLUMNS)
    places = [mistake.parts[1].zyx for mistake in mistakes]
    cuts = [found.planes(voxel_size_nm, place, _WINDOW)[0] for place in places]
    height, width = cuts[0].shape
    ratio = style.bounded_ratio(cuts[0].aspect * height / width)
    size = (_PANEL * _COLUMNS, (_PANEL * ratio + 0.5) * rows + 0.35)
    with drawing.grid(rows, _COLUMNS, *size) as (drawn, axes):
        shown = zip(axes.flat, mistakes, places, cuts, strict=False)
        for number, (axis, mistake, (z, y, x), plane) in enumerate(shown, start=1):
            picture = plane.mistakes()
            assert picture is not None
            assert plane.truth is not None
            picture[style.boundaries(plane.truth)] *= 0.55
            drawing.show(axis, picture, plane.aspect)
            row, column = plane.marked
            for colour, line in (("black", 2.6), ("white", 1.2)):
                axis.plot(column, row, "o", mfc="none", mec=colour, ms=11, mew=line)
            right = row > plane.shape[0] / 2 and column < plane.shape[1] / 2  # beside the circle
            pixel_nm = plane.pixel[1] if plane.in_nm else None
            style.scale_bar(axis, *plane.shape[::-1], pixel_nm, right=right)
            kind = "merger" if mistake.kind == "merge" else mistake.kind
            axis.set_title(f"{number}: {kind}, z = {z}", fontsize=8.5)
            axis.set_xlabel(f"y = {y}, x = {x}", fontsize=8)
        drawing.mistakes_legend(drawn, "outside lower center")
        return style.data_uri(drawn, "png", dpi=130)
