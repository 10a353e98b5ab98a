# SPDX-License-Identifier: Apache-2.0
"""Scores against the ground truth: adapted Rand error, variation of information, coverage, and Dice of classes.

For segmentations, voxels whose truth is 0 are ignored. Every score is computed twice: over the segmented voxels
(id > 0); and, with the prefix `all_`, over all voxels, with all unsegmented voxels as one segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.data import Box, Vec3, Volume
from floodtide.errors import OutOfRangeError, ShapeError

ContingencyTable = _core.evaluate.ContingencyTable
DiceCounts = _core.evaluate.DiceCounts

Labels = NDArray[np.integer[Any]]

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
    table = ContingencyTable()
    total, done = int(np.prod(region[1])), 0
    for block in _blocks(region, segmentation.chunks):
        table.add(
            segmentation.read((_minus(block[0], start), block[1])),
            truth.read((_minus(block[0], truth_start), block[1])),
        )
        done += int(np.prod(block[1]))
        if progress is not None:
            progress(done, total)
    return table


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
