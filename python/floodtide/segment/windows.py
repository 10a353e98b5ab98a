# SPDX-License-Identifier: Apache-2.0
"""Windows in which a U-Net predicts a large volume without seams.

A U-Net's output depends on the input within a bounded distance, the context, and on where its pools begin. Windows
give the same values as a single pass over the whole volume under three conditions. They begin at multiples of the
pools. They overlap. Each keeps only voxels that are at least the context away from its faces, except at the border of
the volume.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from floodtide.data import Box, Vec3
from floodtide.data.boxes import as_vec3, difference
from floodtide.errors import InvalidArgumentError

_GROWTH = 1.25  # ratio of consecutive window sizes that are considered along an axis


class Window(NamedTuple):
    """Range [start, stop) of computed voxels along an axis, and range [keep_start, keep_stop) of kept voxels."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int


@dataclass(frozen=True)
class Axis:
    """One axis of a prediction: the wanted voxels [begin, end) of [0, extent), and the network's context and pool."""

    extent: int
    begin: int
    end: int
    context: int
    pool: int

    @property
    def region(self) -> tuple[int, int]:
        """Return the range [start, stop) that the wanted voxels depend on.

        Both are multiples of the pool. stop may be larger than the extent.
        """
        pool, padded = self.pool, -(-self.extent // self.pool) * self.pool
        start = max(0, self.begin // pool * pool - self.context)
        return start, min(padded, -(-self.end // pool) * pool + self.context)

    def windows(self, size: int) -> list[Window]:
        """Return windows of one size that together keep every wanted voxel exactly once.

        Args:
            size: One of `sizes`.
        """
        start, stop = self.region
        if size >= stop - start:
            return [Window(start, stop, self.begin, self.end)]
        found = []
        kept = self.begin
        while start + size < stop:
            found.append(Window(start, start + size, kept, start + size - self.context))
            kept = start + size - self.context
            start += size - 2 * self.context
        # All have one size, so the network needs only one memory plan.
        return [*found, Window(stop - size, stop, kept, self.end)]

    def sizes(self) -> list[int]:
        """Return the window sizes to consider, in ascending order; all keep a voxel, and the last is the region."""
        start, stop = self.region
        found = []
        size = 2 * self.context + self.pool
        while size < stop - start:
            found.append(size)
            size = max(int(size * _GROWTH) // self.pool * self.pool, size + self.pool)
        return [*found, stop - start]


def choose_windows(axes: Sequence[Axis], voxels: int) -> Vec3:
    """Return the window size (z, y, x) for which the total number of computed voxels is smallest.

    Args:
        voxels: Maximum number of voxels of a window, including the border of one voxel that networks add.
    """
    costs = [[(len(axis.windows(n)) * n, n) for n in axis.sizes()] for axis in axes]
    fitting = [
        (math.prod(cost for cost, _ in chosen), [n for _, n in chosen])
        for chosen in itertools.product(*costs)
        if math.prod(n + 2 for _, n in chosen) <= voxels
    ]
    if not fitting:
        smallest = [axis.sizes()[0] for axis in axes]
        raise InvalidArgumentError(
            f"predict: the memory holds a block of {voxels:,} voxels, but the smallest one with its context is"
            f" {smallest} (z, y, x) and a border of 1; expected more memory or less context"
        )
    return as_vec3(min(fitting)[1])


def blocks_of(
    shape: Sequence[int], box: Box, context: Vec3, pool: Vec3, voxels: int
) -> tuple[Vec3, list[tuple[Box, Box]]]:
    """Return the size (z, y, x) of the windows of a box, and (voxels to read, voxels to keep) of each block.

    Args:
        shape: That of the volume; other arguments as of `Axis` and `choose_windows`.
    """
    rows = zip(shape, *box, context, pool, strict=True)
    axes = [Axis(extent, a, a + n, near, cell) for extent, a, n, near, cell in rows]
    lengths = choose_windows(axes, voxels)
    found = []
    along = [axis.windows(length) for axis, length in zip(axes, lengths, strict=True)]
    for block in itertools.product(*along):
        first, stop, keep_first, keep_stop = map(as_vec3, zip(*block, strict=True))
        stop = as_vec3([*map(min, stop, shape)])
        kept = keep_first, difference(keep_stop, keep_first)
        found.append(((first, difference(stop, first)), kept))
    return lengths, found
