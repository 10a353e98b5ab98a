# SPDX-License-Identifier: Apache-2.0
"""Scores of class masks: of the voxels and of the objects of each class, and the confusion of classes.

The classes are the values that the volumes hold. Class 0 is the background: it has scores, but means leave it out, and
it has no objects. Voxels without a label in one of the volumes count nowhere.

The objects of a class are its connected components. Voxels are connected if they share a face: objects that touch along
an edge or at a corner only stay apart, as in the other components of floodtide. A true and a predicted object match
if the intersection over union (IoU) of their voxels is above a threshold of at least 0.5. Each object then has at most
one match, so nothing has to be assigned. A mask has no confidence by which objects could be ranked. Their average
precision is therefore matched / (matched + missed + invented), as in the 2018 Data Science Bowl (Caicedo et al., Nature
Methods 16, 1247-1253, 2019).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import typed
from floodtide.base.progress import bar
from floodtide.base.tasks import Classes
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Box, Volume
from floodtide.data.boxes import Progress
from floodtide.data.no_label import missing
from floodtide.data.volumes import volume_exists
from floodtide.errors import Error, InvalidArgumentError, InvalidFileError, ShapeError
from floodtide.evaluate.reporting import note_of, plain
from floodtide.evaluate.voxels import BLOCK_VOXELS, ContingencyTable, Pair

Array = NDArray[Any]
Counts = NDArray[np.int64]

BACKGROUND = 0
_MOST_VALUES = 256
_EXACT = 2**53  # larger whole numbers are not exact as floating-point numbers
_THRESHOLDS = range(10, 20)  # of the IoU, in twentieths: 0.5 to 0.95
_COMPONENT_BYTES = 30  # per voxel, besides the voxels of both volumes
_MEANS = ("dice", "iou", "precision", "recall", "average_precision")


@dataclasses.dataclass(kw_only=True)
class ClassReport:
    """The scores of a volume of classes.

    Attributes:
        classes: {class: scores}, ascending: `name`, "" if unknown; `dice`, `iou`, `precision`, `recall`; numbers of
            `true_voxels` and `predicted_voxels`; `everything`, scores of the trivial prediction that every voxel has
            this class. With probabilities also `average_precision`, over voxels; if asked for, `objects`, scores of the
            objects of a class but the background. A score without voxels to compute it from is NaN.
        confusion: Voxels of each pair, int64 (true class, predicted class), in this order.
        of_truth: The class of each value of the truth.
        unlabelled: Number of voxels that do not count, because one of the volumes has no label there.
        worst: The first of the sections with the most wrong voxels: (start, size) in voxels of the whole volume.
        worst_voxels: Number of its wrong voxels.
        sections: True if each section has its own objects; None: objects are not asked for.
        first: Sentences to read before the scores: about voxels of the training, and about the compared part.
        notes: Sentences about the scores.
    """

    classes: dict[int, dict[str, Any]]
    confusion: Counts
    of_truth: dict[int, int]
    unlabelled: int
    worst: Box
    worst_voxels: int
    sections: bool | None = None
    first: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def mean(self) -> dict[str, float]:
        """Return the mean of each score over the classes but the background that have this score; NaN without any."""
        rows = [row for number, row in self.classes.items() if number != BACKGROUND]
        found = {}
        for name in (name for name in _MEANS if name in next(iter(self.classes.values()))):
            values = [row[name] for row in rows if not math.isnan(row[name])]
            found[name] = float(np.mean(values)) if values else math.nan
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it, with None for undefined scores."""
        found: dict[str, Any] = plain(
            {
                "classes": [{"class": number, **row} for number, row in self.classes.items()],
                "mean": self.mean(),
                "confusion": self.confusion.tolist(),
                "class_of_truth": {str(value): number for value, number in self.of_truth.items()},
                "voxels": int(self.confusion.sum()),
                "unlabelled": self.unlabelled,
                "worst_section": self.worst[0][0],
                "worst_voxels": self.worst_voxels,
                "objects_of_sections": self.sections,
                "notes": [*self.first, *self.notes],
            }
        )
        return found


@typed(world.agreed)
def class_report(
    segmentation: Volume,
    truth: Volume,
    box: Box | None = None,
    *,
    unlabelled: int | None = None,
    objects: bool = False,
) -> ClassReport | None:
    """Compare classes with the truth, as `floodtide evaluate --classes` does. Collective: ranks share the reading.

    Args:
        segmentation: Predicted classes (z, y, x): whole numbers. A prediction of floodtide names them.
        truth: True classes. Negative values and the largest ones of 32 and 64 bits are no label.
        box: (start, size) in voxels of the whole volume; None: what both volumes cover.
        unlabelled: Another value of the truth that is no label; None: there is none.
        objects: True: also score the connected components of each class: of each section, if there is only one or
            floodtide predicted each section alone; else of the volume, in the memory of rank 0.

    Returns:
        The report on rank 0, None on the other ranks.

    Raises:
        InvalidArgumentError: If values of the truth are no classes of the prediction, or memory is short.
        InvalidFileError: If a volume holds numbers that are not whole, or more than 256 values.
        floodtide.errors.Error: If a volume cannot be read, or the volumes do not fit.
    """
    noted, pair = noted_classes(segmentation), Pair(segmentation, truth, box)
    with bar("voxels", "evaluate") as progress:
        rows, hidden = _counted(pair, unlabelled, progress)
    with world.agreed():
        found = _resolved(pair, rows, hidden, noted)
        found.first = [text for text in (note_of(pair), pair.compared_part) if text]
    if noted is not None:
        _add_precisions(found, pair, noted)
    if objects:
        alone = segmentation.text("context").startswith("[0,")  # the network sees one section
        found.sections = alone or segmentation.shape[0] == 1
        _add_objects(found, pair)
    return found if world.rank() == 0 else None


def noted_classes(volume: Volume) -> Classes | None:
    """Return the table of classes that `floodtide predict` has noted; None if it noted none."""
    try:
        noted = json.loads(volume.text("classes") or "null")
        return Classes(classes=noted) if isinstance(noted, dict) and noted else None
    except (ValueError, RecursionError, Error):  # a text of another program
        return None


def read_worst(report: ClassReport, segmentation: Volume, truth: Volume) -> tuple[Counts, Counts]:
    """Return predicted and true classes (y, x) of the section with the most wrong voxels.

    They count from 1, in the order of the report; 0 is the background, -1 no label.
    """
    pair = Pair(segmentation, truth, report.worst)
    ((_, *stored),) = pair.stored_blocks(boxes=[report.worst])
    first = int(BACKGROUND not in report.classes)
    predicted, true = (
        np.where(one[0] < 0, -1, one[0] + first).astype(np.int64)
        for one in _both_places(report, *stored)
    )
    return predicted, true


def _overlap(both: int, true: int, predicted: int) -> dict[str, float]:
    """Return the scores of two sets from their sizes and that of what they share."""

    def share(part: float, whole: float) -> float:
        return float(part / whole) if whole else math.nan

    return {
        "dice": share(2 * both, true + predicted),
        "iou": share(both, true + predicted - both),
        "precision": share(both, predicted),
        "recall": share(both, true),
    }


def _whole(voxels: Array, name: str) -> Array:
    if voxels.dtype.kind != "f":
        return voxels
    with np.errstate(invalid="ignore"):
        wrong = ~((voxels == np.rint(voxels)) & (np.abs(voxels) < _EXACT))
    if wrong.any():
        raise InvalidFileError(
            f"{name}: holds {voxels[wrong][0]:g}, expected classes, which are whole numbers"
        )
    return voxels.astype(np.int64)


def _counted(
    pair: Pair, unlabelled: int | None, progress: Progress
) -> tuple[NDArray[np.uint64], int]:
    """Return rows (section, predicted value, true value, voxels), and how many voxels do not count. Collective.

    The first section of the box is 0.
    """
    volumes, first = (pair.segmentation, pair.truth), pair.places[0][0][0]
    rows, hidden = [np.empty((0, 4), np.uint64)], 0
    with world.agreed():
        for (start, _, _), *stored in pair.stored_blocks(progress, pair.own_boxes()):
            labels, values = map(_whole, stored, (volume.name for volume in volumes))
            known = np.ones(values.shape, bool) if unlabelled is None else values != unlabelled
            for voxels in (labels, values):
                if (none := missing(voxels)) is not None:
                    known &= ~none
            hidden += int(np.count_nonzero(~known))
            planes = zip(known, labels, values, strict=True)
            for section, (plane, *both) in enumerate(planes, start - first):
                table = ContingencyTable()
                table.add(*(voxels[plane] for voxels in both))
                found = table.rows()
                for volume, column in zip(volumes, found.T, strict=False):
                    _require_few(volume, column.tolist())
                rows.append(np.insert(found, 0, section, axis=1))
    gathered = allgather_object((np.concatenate(rows), hidden))
    return np.concatenate([part for part, _ in gathered]), sum(count for _, count in gathered)


def _require_few(volume: Volume, values: Iterable[int]) -> None:
    found = set(values)
    if len(found) > _MOST_VALUES:
        raise InvalidFileError(
            f"{volume.name}: holds {_listed(found)}, expected classes, at most {_MOST_VALUES} values"
        )


def _resolved(
    pair: Pair, counted: NDArray[np.uint64], unlabelled: int, table: Classes | None
) -> ClassReport:
    """Return a report without average precision and objects, from what `_counted` returns."""
    segmentation, truth, rows = pair.segmentation, pair.truth, counted.tolist()
    if not rows:
        raise InvalidArgumentError(
            f"no voxel has a label in both {segmentation.name} and {truth.name}: nothing to compare"
        )
    predicted, true = ({row[column] for row in rows} for column in (1, 2))
    _require_few(segmentation, predicted)
    _require_few(truth, true)
    names = {} if table is None else dict(zip(table.written, table.channels, strict=True))
    if table is not None and not predicted <= names.keys():
        raise InvalidFileError(
            f"{segmentation.name}: holds {_listed(predicted - names.keys())}, and its attribute classes has"
            f" {_listed(names)}"
        )
    known = set(names or predicted)
    of_truth, notes = _classes_of(pair, true, known, table, names)
    classes = sorted(known | set(of_truth.values()))
    place = {number: at for at, number in enumerate(classes)}
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    wrong: Counter[int] = Counter()
    for section, label, value, voxels in sorted(rows):
        confusion[place[of_truth[value]], place[label]] += voxels
        wrong[section] += voxels * (of_truth[value] != label)
    ((section, worst_voxels),) = wrong.most_common(1)
    (z, y, x), (_, ny, nx) = pair.places[0]
    found = {}
    for number, both, t, p in zip(
        classes, confusion.diagonal(), confusion.sum(1), confusion.sum(0), strict=True
    ):
        found[number] = {
            "name": names.get(number, ""),
            **_overlap(both, t, p),
            "true_voxels": int(t),
            "predicted_voxels": int(p),
            "everything": _overlap(t, t, confusion.sum()),
        }
    return ClassReport(
        classes=found,
        confusion=confusion,
        of_truth=of_truth,
        unlabelled=unlabelled,
        worst=((z + section, y, x), (1, ny, nx)),
        worst_voxels=worst_voxels,
        notes=notes,
    )


def _classes_of(
    pair: Pair, true: set[int], known: set[int], table: Classes | None, names: Mapping[int, str]
) -> tuple[dict[int, int], list[str]]:
    """Return which class each value of the truth stands for, and sentences about it.

    Args:
        true: The values of the truth.
        known: The classes of the segmentation: those that it notes, else those that it holds.
        table, names: What the segmentation notes, and the names of its classes; None and empty: nothing.
    """
    segmentation, truth = pair.segmentation.name, pair.truth.name
    of_truth = {value: value for value in sorted(true)}
    if table is not None:
        stated = {value: table.written_for(value) for value in of_truth}
        of_truth |= {value: number for value, number in stated.items() if number is not None}
    other = set(of_truth.values()) - known
    mine, theirs = known - {BACKGROUND}, set(of_truth.values()) - {BACKGROUND}
    if other and _pair(known) and _pair(true):
        said = f"the value {max(true)} of {truth} is compared with the class {max(known)} of {segmentation}"
        return dict(zip(sorted(true), sorted(known), strict=True)), [said]
    if other and (table is not None or (mine and theirs and mine.isdisjoint(theirs))):
        raise InvalidArgumentError(
            f"{truth}: holds {_listed(other)}, expected only classes of {segmentation}: {_listed(known, names)}; give"
            " both volumes the same values, or say by --unlabelled VALUE which value is no label"
        )
    return of_truth, []


def _pair(values: set[int]) -> bool:
    return len(values) == 2 and BACKGROUND in values


def _listed(values: Iterable[int], names: Mapping[int, str] = {}) -> str:
    """Return values as a text, with the names that some have; of more than eight only the first ones."""
    found = sorted(values)
    texts = [f"{value} ({names[value]})" if value in names else str(value) for value in found[:8]]
    return ", ".join(texts) + (f", ... ({len(found)} values)" if len(found) > 8 else "")


def _add_precisions(report: ClassReport, pair: Pair, noted: Classes) -> None:
    """Add the average precision of each class over voxels, if there are probabilities beside the classes. Collective.

    Channel k has the probabilities of the k-th class that the prediction notes.
    """
    name = f"{pair.segmentation.name}_probabilities"
    with world.agreed():
        volumes = []
        if volume_exists(name):
            volumes = [Volume(name, channel=channel) for channel in range(len(noted.channels))]
        if volumes and volumes[0].shape != pair.segmentation.shape:
            raise ShapeError(
                f"{name}: has shape {volumes[0].shape}, expected that of the classes, {pair.segmentation.shape}"
            )
    classes = list(report.classes)
    for number, volume in zip(noted.written, volumes, strict=False):
        counts = _core.evaluate.VoxelCounts()
        with bar("voxels", "probabilities") as progress, world.agreed():
            probabilities = Pair(volume, pair.truth, pair.box)
            for _, *stored in probabilities.stored_blocks(progress, probabilities.own_boxes()):
                true = _places(report, stored[1], report.of_truth)
                arrays = (stored[0], true == classes.index(number), true >= 0)
                p, y, w = (np.ascontiguousarray(a[..., None], np.float32) for a in arrays)
                counts.add_probabilities(p, y, w, 0)
        counts.assign(sum(allgather_object(counts.values())))
        precision = counts.average_precision() if counts.object_voxels() else math.nan
        report.classes[number]["average_precision"] = precision


def _places(report: ClassReport, voxels: Array, classes: Mapping[int, int]) -> NDArray[np.int16]:
    """Return which class of a report each voxel has; -1: no label. `classes` is the class of each value."""
    place = {number: at for at, number in enumerate(report.classes)}
    found = np.full(voxels.shape, -1, np.int16)
    for value, number in classes.items():
        found[voxels == value] = place[number]
    return found


def _both_places(
    report: ClassReport, labels: Array, values: Array
) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return which class of a report each voxel has in prediction and truth; -1: no label in one of them."""
    predicted = _places(report, labels, {number: number for number in report.classes})
    true = _places(report, values, report.of_truth)
    predicted[true < 0] = -1
    true[predicted < 0] = -1
    return predicted, true


def _add_objects(report: ClassReport, pair: Pair) -> None:
    """Add the scores of the objects of each class. Collective: ranks share sections, rank 0 reads a volume."""
    numbers = list(report.classes)
    places = [at for at, number in enumerate(numbers) if number != BACKGROUND]
    counts = np.zeros((len(places), 2 + len(_THRESHOLDS)), np.int64)
    nz, ny, nx = pair.places[0][1]
    depth = min(nz, max(1, BLOCK_VOXELS // (ny * nx))) if report.sections else nz
    step = 1 if report.sections else depth
    with bar("voxels", "objects") as progress, world.agreed():
        voxel_bytes = pair.segmentation.dtype.itemsize + pair.truth.dtype.itemsize
        limits.require_memory(
            f"evaluate: the objects of {depth} x {ny} x {nx} voxels need",
            depth * ny * nx * (voxel_bytes + _COMPONENT_BYTES),
            "a smaller box (--box)",
        )
        for _, *stored in pair.stored_blocks(progress, pair.own_boxes((depth, ny, nx))):
            both = _both_places(report, *stored)
            for z, (row, at) in itertools.product(range(0, len(both[0]), step), enumerate(places)):
                counts[row] += _object_counts(*(there[z : z + step] == at for there in both))
    for at, row in zip(places, sum(allgather_object(counts)).tolist(), strict=True):
        report.classes[numbers[at]]["objects"] = _detection(*row)


def _object_counts(predicted: NDArray[np.bool_], true: NDArray[np.bool_]) -> Counts:
    """Return the numbers of predicted and true objects, and of matched ones at each threshold."""
    masks = (mask.view(np.uint8) for mask in (predicted, true))
    table = ContingencyTable()
    table.add(*(_core.segment.connected_components(mask, 1) for mask in masks))
    segments, objects, both = table.rows().astype(np.int64).T
    sizes = [np.bincount(ids, both, minlength=1).astype(np.int64) for ids in (segments, objects)]
    inside = (segments > 0) & (objects > 0)
    union = sizes[0][segments] + sizes[1][objects] - both
    matched = [np.count_nonzero(inside & (20 * both > k * union)) for k in _THRESHOLDS]
    return np.array([len(sizes[0]) - 1, len(sizes[1]) - 1, *matched], np.int64)


def _detection(predicted: int, true: int, *matched: int) -> dict[str, float]:
    """Return the scores of objects from their numbers, and from the numbers of matched ones at each threshold."""
    pairs = matched[0]
    scores = _overlap(pairs, true, predicted)
    precisions = [_overlap(n, true, predicted)["iou"] for n in matched]
    return {
        "true": true,
        "predicted": predicted,
        "matched": pairs,
        "precision": scores["precision"],
        "recall": scores["recall"],
        "f1": scores["dice"],
        "average_precision_50": precisions[0],
        "average_precision": float(np.mean(precisions)),
    }
