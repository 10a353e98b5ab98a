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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.progress import bar
from floodtide.base.tasks import Classes
from floodtide.base.typed import typed
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, as_vec3, tiles
from floodtide.data.no_label import missing
from floodtide.data.volumes import volume_exists
from floodtide.errors import Error, InvalidArgumentError, InvalidFileError, ShapeError
from floodtide.evaluate.reporting import plain
from floodtide.evaluate.trained_voxels import note_of
from floodtide.evaluate.voxels import BLOCK_VOXELS, ContingencyTable, Pair, own_parts

Array = NDArray[Any]
Counts = NDArray[np.int64]

BACKGROUND = 0
PROBABILITIES = "_probabilities"
"""What the name of a volume of probabilities has behind the name of the volume of classes."""

_MOST_VALUES = 256
_EXACT = 2**53  # larger whole numbers are not exact as floating-point numbers
_THRESHOLDS = range(10, 20)  # of the IoU, in twentieths: 0.5 to 0.95
# Per voxel: those of the core, and components, places and masks of both volumes.
_COMPONENT_BYTES = 16 + 2 * (4 + 2 + 1)
_MEANS = ("dice", "iou", "precision", "recall", "average_precision")


@dataclasses.dataclass(kw_only=True)
class ClassReport:
    """The scores of a volume of classes.

    Attributes:
        names: Name of each class, "" if unknown. The classes are in ascending order.
        confusion: Voxels of each pair, int64 (true class, predicted class), in this order.
        of_truth: The class of each value of the truth.
        unlabelled: Number of voxels that do not count, because one of the volumes has no label there.
        worst: The section with the most wrong voxels: (start, size) in voxels of the whole volume.
        worst_voxels: Number of its wrong voxels.
        average_precision: Of the voxels of each class, from the predicted probabilities; empty: there are none.
        objects: Scores of the objects of each class but the background; empty: not asked for.
        sections: True if each section has its own objects.
        first: Sentences to read before the scores: about voxels of the training, and about places.
        notes: Sentences about the scores.
    """

    names: dict[int, str]
    confusion: Counts
    of_truth: dict[int, int]
    unlabelled: int = 0
    worst: Box = ((0, 0, 0), (0, 0, 0))
    worst_voxels: int = 0
    average_precision: dict[int, float] = dataclasses.field(default_factory=dict)
    objects: dict[int, dict[str, float]] = dataclasses.field(default_factory=dict)
    sections: bool = False
    first: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def scores(self) -> dict[int, dict[str, float]]:
        """Return the scores of each class: `dice`, `iou`, `precision`, `recall`, and numbers of voxels.

        With probabilities also `average_precision`. A score without voxels to compute it from is NaN.
        """
        found = {}
        for place, number in enumerate(self.names):
            true, predicted = self.confusion[place].sum(), self.confusion[:, place].sum()
            found[number] = _overlap(self.confusion[place, place], true, predicted)
            found[number] |= {"true_voxels": int(true), "predicted_voxels": int(predicted)}
            if self.average_precision:
                found[number]["average_precision"] = self.average_precision[number]
        return found

    def everything(self) -> dict[int, dict[str, float]]:
        """Return the scores of each class for the trivial prediction that every voxel has this class."""
        voxels, true = self.confusion.sum(), self.confusion.sum(1)
        return {k: _overlap(n, n, voxels) for k, n in zip(self.names, true, strict=True)}

    def mean(self) -> dict[str, float]:
        """Return the mean of each score over the classes but the background that have this score."""
        rows = [row for number, row in self.scores().items() if number != BACKGROUND]
        found = {}
        for name in _MEANS:
            values = [row[name] for row in rows if not math.isnan(row.get(name, math.nan))]
            if values or name in _MEANS[:4]:
                found[name] = float(np.mean(values)) if values else math.nan
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it, with None for undefined scores."""
        everything, classes = self.everything(), []
        for number, row in self.scores().items():
            known: dict[str, Any] = {"class": number, "name": self.names[number], **plain(row)}
            known["everything"] = plain(everything[number])
            if number in self.objects:
                known["objects"] = plain(self.objects[number])
            classes.append(known)
        return {
            "classes": classes,
            "mean": plain(self.mean()),
            "confusion": self.confusion.tolist(),
            "class_of_truth": {str(value): number for value, number in self.of_truth.items()},
            "voxels": int(self.confusion.sum()),
            "unlabelled": self.unlabelled,
            "worst_section": self.worst[0][0],
            "worst_voxels": self.worst_voxels,
            "objects_of_sections": self.sections if self.objects else None,
            "notes": [*self.first, *self.notes],
        }


@typed(world.agreed)
def class_report(
    segmentation: Volume,
    truth: Volume,
    box: Box | None = None,
    *,
    match: Mapping[int, int] | None = None,
    unlabelled: int | None = None,
    objects: bool = False,
    sections: bool | None = None,
    min_voxels: int = 1,
) -> ClassReport | None:
    """Compare classes with the truth, as `floodtide evaluate --classes` does. Collective: ranks share the reading.

    Args:
        segmentation: Predicted classes (z, y, x): whole numbers. A prediction of floodtide names them.
        truth: True classes. Negative values and the largest ones of 32 and 64 bits are no label.
        box: (start, size) in voxels of the whole volume; None: what both volumes cover.
        match: {value of the truth: class that it stands for}; other values stand for themselves.
        unlabelled: Another value of the truth that is no label; None: there is none.
        objects: True: also score the connected components of each class. In a volume, rank 0 does this in memory.
        sections: True: each section has its own objects; None: True if floodtide predicted each section alone.
        min_voxels: Components with fewer voxels do not count.

    Returns:
        The report on rank 0, None on the other ranks.

    Raises:
        InvalidArgumentError: If values of the truth are no classes of the prediction, or memory is short.
        InvalidFileError: If a volume holds numbers that are not whole, or more than 256 values.
        floodtide.errors.Error: If a volume cannot be read, or the volumes do not fit.
    """
    noted, pair = noted_classes(segmentation), Pair(segmentation, truth, box)
    with bar("voxels", "evaluate") as progress:
        tables, hidden, ignored = _counted(pair, unlabelled, progress)
    with world.agreed():
        rows = [row for table in tables.values() for row in table.tolist()]
        found = _resolved(segmentation, truth, rows, noted, match or {})
        found.unlabelled = hidden
        if ignored:
            found.notes.append(
                f"{ignored} voxels have a label in {truth.name} and none in {segmentation.name}: they do not count"
            )
        _find_worst(found, tables, pair.places[0])
        found.first += [text for text in (note_of(pair), pair.assumed_place) if text]
    if noted is not None:
        found.average_precision = _precisions(pair, found, noted)
    if objects:
        # One section, or a prediction of a network that sees one section at a time.
        alone = segmentation.shape[0] == 1 or segmentation.text("context").startswith("[0,")
        found.sections = alone if sections is None else sections
        _add_objects(found, pair, min_voxels)
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
    ((_, *stored),) = pair.stored_blocks(cut=lambda box, _: [box])
    numbers = [0 if k == BACKGROUND else at for at, k in enumerate(report.names, start=1)]
    predicted, true = (np.array([*numbers, -1])[p[0]] for p in _both_places(report, *stored))
    return predicted, true


def _overlap(both: int, true: int, predicted: int) -> dict[str, float]:
    """Return the scores of two sets of voxels."""

    def share(part: float, whole: float) -> float:
        return float(part / whole) if whole else math.nan

    return {
        "dice": share(2 * both, true + predicted),
        "iou": share(both, true + predicted - both),
        "precision": share(both, predicted),
        "recall": share(both, true),
    }


def _without_label(
    labels: Array, values: Array, unlabelled: int | None
) -> tuple[NDArray[np.bool_], int]:
    """Return where prediction or truth has no label, and for how many voxels only the prediction has none."""
    of_truth, own = missing(values), missing(labels)
    none = np.zeros(values.shape, bool) if of_truth is None else of_truth
    if unlabelled is not None:
        none |= values == unlabelled
    if own is None:
        return none, 0
    return none | own, int(np.count_nonzero(own & ~none))


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
) -> tuple[dict[int, Array], int, int]:
    """Return rows (predicted value, true value, voxels) of each section z, and how many voxels do not count.

    The last number is that of the voxels which only the prediction leaves without a label. Collective.
    """
    tables: dict[int, ContingencyTable] = {}
    hidden = ignored = 0
    with world.agreed():
        for (z, _, _), *stored in pair.stored_blocks(progress, own_parts()):
            volumes = pair.segmentation, pair.truth
            labels, values = map(_whole, stored, (volume.name for volume in volumes))
            none, only = _without_label(labels, values, unlabelled)
            hidden, ignored = hidden + int(np.count_nonzero(none)), ignored + only
            for row, plane in enumerate(none):
                table = tables.setdefault(z + row, ContingencyTable())
                there = ~plane
                table.add(labels[row][there], values[row][there])
                for column, volume in enumerate(volumes):
                    _require_few(volume, np.unique(table.rows()[:, column]).tolist())
    whole: dict[int, ContingencyTable] = {}
    gathered = allgather_object(({z: t.rows() for z, t in tables.items()}, hidden, ignored))
    for rows, _, _ in gathered:
        for z, counts in rows.items():
            whole.setdefault(z, ContingencyTable()).add_rows(counts)
    hidden, ignored = (sum(part[i] for part in gathered) for i in (1, 2))
    return {z: whole[z].rows() for z in sorted(whole)}, hidden, ignored


def _require_few(volume: Volume, values: Iterable[int]) -> None:
    found = set(values)
    if len(found) > _MOST_VALUES:
        raise InvalidFileError(
            f"{volume.name}: holds {_listed(found)}, expected classes, at most {_MOST_VALUES} values"
        )


def _resolved(
    segmentation: Volume,
    truth: Volume,
    pairs: Sequence[tuple[int, int, int]],
    table: Classes | None,
    match: Mapping[int, int],
) -> ClassReport:
    """Return a report with classes and confusion; it says which class each value of the truth stands for."""
    noted = None if table is None else dict(zip(table.written, table.channels, strict=True))
    predicted, true = {row[0] for row in pairs}, {row[1] for row in pairs}
    if not pairs:
        raise InvalidArgumentError(
            f"no voxel has a label in both {segmentation.name} and {truth.name}: nothing to compare"
        )
    _require_few(segmentation, predicted)
    _require_few(truth, true)
    if noted is not None and not predicted <= noted.keys():
        raise InvalidFileError(
            f"{segmentation.name}: holds {_listed(predicted - noted.keys())}, and its attribute classes has"
            f" {_listed(noted)}"
        )
    known = set(noted if noted is not None else predicted)
    _require_matches(match, (segmentation.name, noted), (truth.name, true))
    of_truth = {value: match.get(value, value) for value in sorted(true)}
    if table is not None and not match:
        stated = {value: table.written_for(value) for value in of_truth}
        of_truth = {value: value if own is None else own for value, own in stated.items()}
    notes = []
    stood_for = set(of_truth.values())
    other, lacking = stood_for - known, known - stood_for
    objects = known - {BACKGROUND}, stood_for - {BACKGROUND}  # without one in common: other classes
    if other and not match and _pair(known) and _pair(true):
        of_truth = dict(zip(sorted(true), sorted(known), strict=True))
        notes.append(
            f"the value {max(true)} of {truth.name} is compared with the class {max(known)} of {segmentation.name}"
        )
    elif other and (noted is not None or (all(objects) and not objects[0] & objects[1])):
        stands = ",".join(f"{value}=CLASS" for value in sorted(other)[:8])
        raise InvalidArgumentError(
            f"{truth.name}: holds {_listed(other)}, expected only classes of {segmentation.name}:"
            f" {_listed(known, noted)}; say which class each value stands for by --match {stands},"
            " or by --unlabelled VALUE which value is no label"
        )
    elif noted is None:
        for values, name in ((other, segmentation.name), (lacking, truth.name)):
            if values:
                notes.append(f"no voxel of {name} has the class {_listed(values)}")
    classes = sorted(known | set(of_truth.values()))
    place = {number: at for at, number in enumerate(classes)}
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    for label, value, voxels in pairs:
        confusion[place[of_truth[value]], place[label]] += voxels
    names = {number: (noted or {}).get(number, "") for number in classes}
    return ClassReport(names=names, confusion=confusion, of_truth=of_truth, notes=notes)


def _require_matches(
    match: Mapping[int, int],
    segmentation: tuple[str, Mapping[int, str] | None],
    truth: tuple[str, set[int]],
) -> None:
    """Check --match against the classes that a segmentation notes (None: it notes none) and the values of the truth."""
    (name, noted), (of, values) = segmentation, truth
    for value, number in match.items():
        if value not in values:
            raise InvalidArgumentError(
                f"--match {value}={number}: no voxel of {of} has the value {value}, expected one of its values:"
                f" {_listed(values)}"
            )
        if noted is not None and number not in noted:
            raise InvalidArgumentError(
                f"--match {value}={number}: {name} has no class {number}, expected one of its classes:"
                f" {_listed(noted, noted)}"
            )


def _pair(values: set[int]) -> bool:
    return len(values) == 2 and BACKGROUND in values


def _listed(values: Iterable[int], names: Mapping[int, str] | None = None) -> str:
    """Return values as a text, with the names that some have; of more than eight only the first ones."""
    found = sorted(values)
    texts = [f"{v} ({name})" if (name := (names or {}).get(v)) else str(v) for v in found[:8]]
    return ", ".join(texts) + (f", ... ({len(found)} values)" if len(found) > 8 else "")


def _find_worst(report: ClassReport, tables: Mapping[int, Array], region: Box) -> None:
    """Find the section with the most wrong voxels; of equal ones, the one with the most voxels of objects."""
    (_, *corner), (_, *size) = region
    best = (-1, -1)
    for z, rows in tables.items():
        wrong = objects = 0
        for label, value, voxels in rows.tolist():
            number = report.of_truth[value]
            wrong += voxels * (number != label)
            objects += voxels * (number != BACKGROUND)
        if (wrong, objects) > best:
            best = (wrong, objects)
            report.worst = as_vec3([z, *corner]), as_vec3([1, *size])
    report.worst_voxels = best[0]


def _precisions(pair: Pair, report: ClassReport, noted: Classes) -> dict[int, float]:
    """Return the average precision of each class over voxels, from probabilities of classes beside them. Collective.

    Channel k has the probabilities of the k-th class that the prediction notes. {}: there are no probabilities.
    """
    name = f"{pair.segmentation.name}{PROBABILITIES}"
    with world.agreed():
        volumes = []
        if volume_exists(name):
            volumes = [Volume(name, channel=channel) for channel in range(len(noted.channels))]
        if volumes and volumes[0].shape != pair.segmentation.shape:
            raise ShapeError(
                f"{name}: has shape {volumes[0].shape}, expected that of the classes, {pair.segmentation.shape}"
            )
    found, classes = {}, list(report.names)
    for number, volume in zip(noted.written, volumes, strict=False):
        counts = _core.evaluate.VoxelCounts()
        with bar("voxels", "probabilities") as progress, world.agreed():
            probabilities = Pair(volume, pair.truth, pair.box)
            for _, *stored in probabilities.stored_blocks(progress, own_parts()):
                true = _places(report, stored[1], report.of_truth)
                arrays = (stored[0], true == classes.index(number), true >= 0)
                p, y, w = (np.ascontiguousarray(a[..., None], np.float32) for a in arrays)
                counts.add_probabilities(p, y, w, 0)
        counts.assign(sum(allgather_object(counts.values())))
        found[number] = counts.average_precision() if counts.object_voxels() else math.nan
    return found


def _places(report: ClassReport, voxels: Array, classes: Mapping[int, int]) -> NDArray[np.int16]:
    """Return which class of a report each voxel has; -1: no label. `classes` is the class of each value."""
    place = {number: at for at, number in enumerate(report.names)}
    found = np.full(voxels.shape, -1, np.int16)
    for value, number in classes.items():
        found[voxels == value] = place[number]
    return found


def _both_places(
    report: ClassReport, labels: Array, values: Array
) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return which class of a report each voxel has in prediction and truth; -1: no label in one of them."""
    predicted = _places(report, labels, dict(zip(report.names, report.names, strict=True)))
    true = _places(report, values, report.of_truth)
    predicted[true < 0] = -1
    true[predicted < 0] = -1
    return predicted, true


def _add_objects(report: ClassReport, pair: Pair, min_voxels: int) -> None:
    """Add the scores of the objects of each class. Collective: ranks share sections, rank 0 reads a volume."""
    places = [at for at, number in enumerate(report.names) if number != BACKGROUND]
    counts = np.zeros((len(places), 2 + len(_THRESHOLDS)), np.int64)

    def slabs(region: Box, chunks: Vec3) -> list[Box]:
        nz, ny, nx = region[1]
        depth = max(1, BLOCK_VOXELS // (ny * nx)) if report.sections else nz
        voxel = pair.segmentation.dtype.itemsize + pair.truth.dtype.itemsize
        limits.require_memory(
            f"evaluate: the objects of {min(depth, nz)} x {ny} x {nx} voxels need",
            math.prod((min(depth, nz), ny, nx)) * (voxel + _COMPONENT_BYTES),
            "a smaller box (--box)" + ("" if report.sections else ", or objects by section"),
        )
        return list(tiles(region, (depth, ny, nx)))

    with bar("voxels", "objects") as progress, world.agreed():
        for _, *stored in pair.stored_blocks(progress, own_parts(), slabs):
            both = _both_places(report, *stored)
            step = 1 if report.sections else len(both[0])
            for z, (row, at) in itertools.product(range(0, len(both[0]), step), enumerate(places)):
                predicted, true = (places_of[z : z + step] == at for places_of in both)
                counts[row] += _object_counts(predicted, true, min_voxels)
    counts = sum(allgather_object(counts))
    numbers = list(report.names)
    report.objects = {
        numbers[at]: _detection(*row) for at, row in zip(places, counts.tolist(), strict=True)
    }


def _object_counts(
    predicted: NDArray[np.bool_], true: NDArray[np.bool_], min_voxels: int
) -> Counts:
    """Return the numbers of predicted and true objects, and of matched ones at each threshold."""
    components = [
        _core.segment.connected_components(mask.view(np.uint8), min_voxels)
        for mask in (predicted, true)
    ]
    table = ContingencyTable()
    table.add(*components)
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
