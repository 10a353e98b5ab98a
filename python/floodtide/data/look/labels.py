# SPDX-License-Identifier: Apache-2.0
"""Statistics of a label volume: objects, their sizes, unlabelled voxels, boundaries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import Box, Progress
from floodtide.data.look.sampling import (
    FULL,
    QUICK,
    Array,
    Sample,
    cubes_within,
    sample,
    slabs,
    whole_of,
)
from floodtide.data.no_label import cleared
from floodtide.data.volumes import Volume
from floodtide.errors import InvalidFileError

LIMITS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Sizes in voxels for which `LabelStatistics.at_least` counts objects."""

_CUBES = 1 << 23  # voxels in which changes between neighbours are counted
_TABLES = 64  # tables of sizes that are merged at a time


@dataclass(frozen=True, kw_only=True)
class LabelStatistics(Sample):
    """Statistics of a box of a label volume. 0 is no object.

    Attributes:
        objects: Number of ids other than 0.
        lowest: Lowest id that occurs, 0 included.
        highest: Highest id that occurs.
        unlabelled: Share of the voxels labelled 0.
        sections: Number of sections (z) with sampled voxels.
        empty_sections: Number of these whose sampled voxels are all labelled 0.
        at_least: Number of objects of at least LIMITS voxels.
        median_size: Median size of the objects in voxels.
        largest: The ten largest objects, as (id, voxels).
        changes: Along z, y and x: share of neighbouring voxels that differ.
        boundary: Share of voxels that differ from a neighbour along some axis.
        boundary_zero: Share of these voxels that are labelled 0. Planes without any label do not count.
    """

    objects: int
    lowest: int
    highest: int
    unlabelled: float
    sections: int
    empty_sections: int
    at_least: tuple[int, ...]
    median_size: float
    largest: tuple[tuple[int, int], ...]
    changes: tuple[float, float, float]
    boundary: float
    boundary_zero: float

    @property
    def largest_share(self) -> float:
        """Share of the voxels that the largest object has."""
        return self.largest[0][1] / self.sampled if self.largest else 0.0

    @property
    def flat_axis(self) -> int | None:
        """The axis along which labels are those of single sections: nearly every voxel differs from the next one."""
        most = max(self.changes)
        axis = self.changes.index(most)
        others = [share for index, share in enumerate(self.changes) if index != axis]
        return axis if most > 0.6 and max(others) < 0.3 else None

    @property
    def like_image(self) -> bool:
        """True if many neighbouring voxels differ along all axes, as grey levels do and objects do not."""
        return min(self.changes) > 0.3


def label_statistics(
    volume: Volume,
    *,
    box: Box | None = None,
    budget: int = FULL,
    sections: bool = True,
    progress: Progress | None = None,
) -> LabelStatistics:
    """Return the statistics of labels. A box of more than `budget` voxels is sampled.

    Args:
        volume: Labels: integers, or floating-point numbers that are whole.
        box: The part (start, size) to look at; None: the whole volume.
        budget: Voxels to read.
        sections: Sample in columns through all sections (z). Else in a grid of cubes, which needs fewer files.
        progress: Called as progress(voxels read, voxels to read).

    Raises:
        InvalidFileError: If the volume cannot be read, or does not hold whole numbers.
    """
    require_labels(volume)
    whole = box or whole_of(volume.shape)
    boxes = sample(whole, budget, sections)
    total = sum(math.prod(size) for _, size in boxes)
    tables: list[Array] = []
    seen = np.zeros((2, whole[1][0]), bool)  # sections that were read, and those with labels
    for section, stored in slabs(volume, boxes, progress):
        labels = cleared(stored, volume.name)
        tables.append(_table(labels))
        first = section - whole[0][0]
        seen[0, first : first + len(labels)] = True
        seen[1, first : first + len(labels)] |= labels.any(axis=(1, 2))
        if len(tables) == _TABLES:
            tables = [_merged(tables)]
    ids, sizes = _merged(tables)
    sizes = sizes.astype(np.int64)
    order = np.argsort(-sizes[ids != 0], kind="stable")
    objects, voxels = ids[ids != 0][order], sizes[ids != 0][order]
    changes, boundary, zero = _changes(volume, whole, budget)
    return LabelStatistics(
        name=volume.name,
        shape=whole[1],
        dtype=volume.dtype.name,
        sampled=total,
        objects=len(objects),
        lowest=int(ids.min()),
        highest=int(ids.max()),
        unlabelled=float(sizes[ids == 0].sum()) / total,
        sections=int(np.count_nonzero(seen[0])),
        empty_sections=int(np.count_nonzero(seen[0] & ~seen[1])),
        at_least=tuple(int(np.count_nonzero(voxels >= limit)) for limit in LIMITS),
        median_size=float(np.median(voxels)) if len(voxels) else 0.0,
        largest=tuple(
            (int(one), int(size)) for one, size in zip(objects[:10], voxels[:10], strict=True)
        ),
        changes=changes,
        boundary=boundary,
        boundary_zero=zero,
    )


def require_labels(volume: Volume) -> None:
    """Raise unless a volume holds integers, or floating-point numbers that are whole in a sample.

    Raises:
        InvalidFileError: If it does not. The message says what to do.
    """
    if volume.dtype.kind in "iu":
        return
    largest = 2 ** (np.finfo(volume.dtype).nmant + 1)  # integers above are rounded
    small = math.prod(volume.shape) <= QUICK  # and read whole
    for box in sample(whole_of(volume.shape), QUICK, sections=small):
        values = volume.read(box)
        wrong = np.argwhere(~((np.floor(values) == values) & (np.abs(values) <= largest)))
        if len(wrong):
            place = ", ".join(map(str, wrong[0] + box[0]))
            raise InvalidFileError(
                f"{volume.name}: labels are {volume.dtype}, and {values[tuple(wrong[0])]:g} at {place} (z, y, x);"
                f" expected whole numbers up to {largest}, one id for each object: segment probabilities first"
            )


def changed(labels: Array) -> tuple[NDArray[np.bool_], tuple[float, float, float]]:
    """Return which voxels differ from a neighbour along some axis, and the share of differing pairs along z, y, x."""
    boundary = np.zeros(labels.shape, bool)
    shares = []
    for axis in range(3):
        along, marked = np.moveaxis(labels, axis, 0), np.moveaxis(boundary, axis, 0)
        differ = along[1:] != along[:-1]
        marked[1:] |= differ
        marked[:-1] |= differ
        shares.append(float(differ.mean()) if differ.size else 0.0)
    return boundary, (shares[0], shares[1], shares[2])


def _changes(
    volume: Volume, whole: Box, budget: int
) -> tuple[tuple[float, float, float], float, float]:
    """Return the shares of differing pairs and of boundary voxels in cubes, and of boundary voxels labelled 0."""
    rows, voxels, at_boundary, kept, zeros = [], 0, 0, 0, 0
    for cube in cubes_within(whole, min(budget, _CUBES)):
        labels = cleared(volume.read(cube))
        boundary, shares = changed(labels)
        rows.append(shares)
        voxels += labels.size
        at_boundary += int(np.count_nonzero(boundary))
        inner = _without_empty_planes(labels)
        between, _ = changed(inner)
        kept += int(np.count_nonzero(between))
        zeros += int(np.count_nonzero(between & (inner == 0)))
    z, y, x = (float(share) for share in np.mean(rows, axis=0))
    return (z, y, x), at_boundary / voxels, zeros / max(1, kept)


def _without_empty_planes(labels: Array) -> Array:
    """Return labels without the planes along z, y and x that hold 0 only: these are not labelled, and no boundaries."""
    for axis in range(3):
        others = tuple(i for i in range(3) if i != axis)
        labels = labels.compress((labels != 0).any(axis=others), axis=axis)
    return labels


def _table(labels: Array) -> Array:
    """Return the ids of a block and how many voxels each has, as two rows. Runs of equal voxels are counted at once."""
    flat = labels.reshape(-1)
    first = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))
    lengths = np.diff(np.append(first, flat.size))
    ids, inverse = np.unique(flat[first].astype(np.uint64), return_inverse=True)
    return np.stack([ids, np.bincount(inverse, lengths).astype(np.uint64)])


def _merged(tables: list[Array]) -> Array:
    """Return one table for several."""
    ids, counts = np.concatenate(tables, axis=1)
    known, inverse = np.unique(ids, return_inverse=True)
    return np.stack([known, np.bincount(inverse, counts).astype(np.uint64)])
