# SPDX-License-Identifier: Apache-2.0
"""Scores against the ground truth: adapted Rand error, variation of information, coverage, and Dice of classes.

For segmentations, voxels whose truth is 0 are ignored. Every score is computed twice: over the segmented voxels
(id > 0); and, with the prefix `all_`, over all voxels, with all unsegmented voxels as one segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3, part_of
from floodtide.errors import InvalidFileError, OutOfRangeError, ShapeError

ContingencyTable = _core.evaluate.ContingencyTable
DiceCounts = _core.evaluate.DiceCounts

Labels = NDArray[np.integer[Any]]

_WORST = Arguments(count=limits.COUNT, parts=limits.COUNT)

_BLOCK_VOXELS = 1 << 24  # maximum number of voxels that are read at a time from each volume


def scores(segmentation: Labels, truth: Labels) -> dict[str, float]:
    """Return scores that compare a segmentation with the ground truth.

    Args:
        segmentation: Integer array (z, y, x) of segment ids; values <= 0 are unsegmented voxels.
        truth: Integer array of the same shape with object ids; voxels with values <= 0 are ignored.

    Returns:
        {name: score}, for segmented voxels, and with the prefix `all_` for all voxels:
        `adapted_rand_error` (0 is perfect), `rand_precision` (mergers lower it), `rand_recall`
        (splits lower it), `voi_split` = H(segmentation | truth) and `voi_merge` =
        H(truth | segmentation) in bits, `voxels`, `segments` and `objects`. Also `coverage`, the
        share of voxels that are segmented. A score is NaN if no voxel can be compared.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If an array does not hold integers.
    """
    table = ContingencyTable()
    table.add(np.ascontiguousarray(segmentation), np.ascontiguousarray(truth))
    return table.scores()


def rand_error(segmentation: Labels, truth: Labels, *, segmented_only: bool = True) -> float:
    """Return the adapted Rand error: 1 - F-score of voxel pairs; 0 is perfect. See `scores`."""
    prefix = "" if segmented_only else "all_"
    return scores(segmentation, truth)[prefix + "adapted_rand_error"]


def variation_of_information(
    segmentation: Labels, truth: Labels, *, segmented_only: bool = True
) -> tuple[float, float]:
    """Return the variation of information in bits as (split, merge); (0, 0) is perfect. See `scores`."""
    prefix = "" if segmented_only else "all_"
    result = scores(segmentation, truth)
    return result[prefix + "voi_split"], result[prefix + "voi_merge"]


def matching(segmentation: Labels, truth: Labels) -> dict[str, int]:
    """Return how much two segmentations have in common if their ids are matched one to one.

    Pairs of ids with more common voxels are matched first. Unlike in `scores`, voxels with truth 0 count.

    Args:
        segmentation: As for `scores`.
        truth: As for `scores`; here another segmentation, such as a published one.

    Returns:
        `voxels`; `same_voxels`, which are unsegmented in both, or have ids that are matched; `segments` and `objects`,
        the numbers of ids; and `identical`, the number of objects that are equal in every voxel.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If an array does not hold integers.
    """
    table = ContingencyTable()
    table.add(np.ascontiguousarray(segmentation), np.ascontiguousarray(truth))
    return table.matching()


def dice(
    predicted: Labels,
    truth: Labels,
    *,
    patients: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    classes: int = 2,
) -> dict[str, Any]:
    """Return Dice scores of class masks, 2 |P and T| / (|P| + |T|), from exact counts of pixels.

    Args:
        predicted: Predicted classes, uint8 (n, y, x), below `classes`.
        truth: True classes, uint8, of the same shape.
        patients: Patient number of each slice; None: all slices are of one patient.
        classes: Number of classes.

    Returns:
        `pooled`: the score of each class over all pixels. `patients`: {patient: scores of all classes}.
        `patient_mean`: the mean of each class over the patients that have a score. A score is None if
        the class is neither predicted nor true.

    Raises:
        ShapeError: If the shapes differ, or the number of patients is not the number of slices.
        InvalidArgumentError: If an array is not uint8, or contains a value that is not a class.
    """
    owners = [0] * len(truth) if patients is None else [int(patient) for patient in patients]
    if len(owners) != len(truth) or predicted.shape != truth.shape:
        raise ShapeError(
            f"dice: predicted classes have shape {predicted.shape}, the true ones {truth.shape},"
            f" for {len(owners)} patients; expected equal shapes and a patient for each slice"
        )
    names = sorted(set(owners))
    counts = DiceCounts(len(names), classes)
    for owner, a, b in zip(owners, predicted, truth, strict=True):
        counts.add(names.index(owner), np.ascontiguousarray(a[None]), np.ascontiguousarray(b[None]))
    return {
        "pooled": [counts.pooled(c) for c in range(classes)],
        "patient_mean": [counts.mean_over_groups(c) for c in range(classes)],
        "patients": {
            name: [counts.group(i, c) for c in range(classes)] for i, name in enumerate(names)
        },
    }


def score_volumes(
    segmentation: Volume,
    truth: Volume,
    box: Box | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """Return scores that compare two volumes. They are read in blocks and may be larger than memory.

    The attribute `box_start` of a segmentation of a box is the position of the box in the whole volume. If a truth has
    the shape of the segmentation and no such attribute, it is assumed to cover the same box.

    Args:
        segmentation: Volume of segment ids.
        truth: Volume of object ids that covers the box of the segmentation.
        box: Part to compare, (start, size) in voxels of the whole volume; None: the whole segmentation.
        progress: Called as progress(voxels done, voxels).

    Returns:
        The scores, as for `scores`.

    Raises:
        ShapeError: If the truth does not cover the segmentation.
        OutOfRangeError: If the box is not inside the segmentation.
    """
    return count_volumes(segmentation, truth, box, progress).scores()


def count_volumes(
    segmentation: Volume,
    truth: Volume,
    box: Box | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> _core.evaluate.ContingencyTable:
    """Return the table of the voxels of each pair of ids in two volumes, read in blocks. See `score_volumes`."""
    table = ContingencyTable()
    for _, labels, objects in _common_blocks(segmentation, truth, box, progress):
        table.add(labels, objects)
    return table


def _common_blocks(
    segmentation: Volume,
    truth: Volume,
    box: Box | None,
    progress: Callable[[int, int], None] | None,
) -> Iterator[tuple[Vec3, NDArray[Any], NDArray[Any]]]:
    """Yield first voxel (in the whole volume), segments and objects of the blocks of a box that two volumes cover."""
    start = _placement(segmentation) or (0, 0, 0)
    truth_start = _placement(truth)
    if truth_start is None:
        truth_start = start if truth.shape == segmentation.shape else (0, 0, 0)
    if not _inside((start, segmentation.shape), (truth_start, truth.shape)):
        raise ShapeError(
            f"segmentation {segmentation.name} covers {_show(start, segmentation.shape)},"
            f" truth {truth.name} covers {_show(truth_start, truth.shape)},"
            " expected a truth that covers the segmentation"
        )
    region = (start, segmentation.shape) if box is None else box
    if not _inside(region, (start, segmentation.shape)):
        raise OutOfRangeError(
            f"box {_show(*region)} is not inside the segmentation,"
            f" {_show(start, segmentation.shape)}"
        )
    total, done = int(np.prod(region[1])), 0
    for block in _blocks(region, segmentation.chunks):
        yield (
            block[0],
            segmentation.read((_minus(block[0], start), block[1])),
            truth.read((_minus(block[0], truth_start), block[1])),
        )
        done += int(np.prod(block[1]))
        if progress is not None:
            progress(done, total)


@dataclass(frozen=True)
class Part:
    """What a segment and an object have in common."""

    segment: int
    object: int
    voxels: int
    zyx: Vec3  # one of the voxels, in voxels of the whole volume


@dataclass(frozen=True)
class Mistake:
    """An object that is split over several segments, or a segment that merges several objects.

    Attributes:
        kind: "split" or "merge".
        id: The object that is split, or the segment that merges.
        voxels: Voxels outside the largest part.
        parts: The largest parts, largest first.
    """

    kind: str
    id: int
    voxels: int
    parts: tuple[Part, ...]


def worst_mistakes(
    segmentation: Volume,
    truth: Volume,
    box: Box | None = None,
    *,
    count: int = 20,
    parts: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> list[Mistake]:
    """Return the worst splits and mergers of a segmentation: those with most voxels outside the largest part.

    Unsegmented voxels and voxels without object do not count.

    Args:
        segmentation: As for `score_volumes`.
        truth: As for `score_volumes`.
        box: As for `score_volumes`.
        count: Most splits, and most mergers, to return.
        parts: Most parts of each.
        progress: Called as progress(voxels done, voxels); each voxel counts twice.

    Returns:
        The splits, then the mergers, each from the worst on.

    Raises:
        ShapeError: As `score_volumes`.
        OutOfRangeError: As `score_volumes`.
        InvalidFileError: If a volume is damaged, or changes meanwhile.
    """
    _WORST.check("worst_mistakes", count=count, parts=parts)
    first = None if progress is None else part_of(progress, 0, 2)
    second = None if progress is None else part_of(progress, 1, 2)
    rows = count_volumes(segmentation, truth, box, first).rows()
    rows = rows[(rows[:, :2] > 0).all(axis=1)]
    found = [
        (kind, chosen)
        for kind, column in (("split", 1), ("merge", 0))
        for chosen in _largest_losses(rows, column, count)
    ]
    shown = [chosen[:parts] for _, chosen in found]
    places = _core.evaluate.PairPlaces(
        np.ascontiguousarray(np.concatenate([np.zeros((0, 3), np.uint64), *shown]))
    )
    for start, labels, objects in _common_blocks(segmentation, truth, box, second):
        places.add(labels, objects, start)
    at = iter(places.places())
    return [
        Mistake(
            kind=kind,
            id=int(chosen[0, 1 if kind == "split" else 0]),
            voxels=int(chosen[1:, 2].sum()),
            parts=tuple(Part(int(s), int(o), int(n), _found(next(at))) for s, o, n in few),
        )
        for (kind, chosen), few in zip(found, shown, strict=True)
    ]


def _largest_losses(rows: NDArray[np.uint64], column: int, count: int) -> list[NDArray[np.uint64]]:
    """Return the rows (segment, object, voxels) of the ids of a column that lose most voxels, largest part first."""
    order = np.lexsort((rows[:, 1 - column], -rows[:, 2].astype(np.int64), rows[:, column]))
    rows = rows[order]
    groups = np.split(rows, np.flatnonzero(np.diff(rows[:, column])) + 1) if len(rows) else []
    several = [group for group in groups if len(group) > 1]
    several.sort(key=lambda group: -int(group[1:, 2].sum()))
    return several[:count]


def _found(voxel: Sequence[int] | None) -> Vec3:
    if voxel is None:
        raise InvalidFileError("evaluate: the volumes changed while they were read")
    return as_vec3(voxel)


def _placement(volume: Volume) -> Vec3 | None:
    start = _core.segment.placement(volume.core)
    return None if start is None else (start[0], start[1], start[2])


def _minus(a: Vec3, b: Vec3) -> Vec3:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _inside(inner: Box, outer: Box) -> bool:
    return all(
        a >= b and a + size <= b + whole for a, size, b, whole in zip(*inner, *outer, strict=True)
    )


def _show(start: Vec3, size: Vec3) -> str:
    return ",".join(f"{a}:{a + n}" for a, n in zip(start, size, strict=True))


def _blocks(region: Box, chunks: Vec3) -> Iterator[Box]:
    """Yield blocks of whole planes with at most _BLOCK_VOXELS voxels; planes that are too large are split along y."""
    (z0, y0, x0), (nz, ny, nx) = region
    rows = max(1, min(ny, _BLOCK_VOXELS // (nx * min(chunks[0], nz))))
    depth = max(1, min(nz, _BLOCK_VOXELS // (nx * rows)))
    for z in range(z0, z0 + nz, depth):
        for y in range(y0, y0 + ny, rows):
            yield (z, y, x0), (min(depth, z0 + nz - z), min(rows, y0 + ny - y), nx)
