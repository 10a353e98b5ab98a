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

from floodtide.data import Vec3
from floodtide.data.boxes import as_vec3
from floodtide.errors import InvalidArgumentError

_GROWTH = 1.25  # ratio of consecutive window sizes that are considered along an axis


@dataclass(frozen=True)
class Window:
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

    @property
    def smallest(self) -> int:
        """Return the size of the smallest window that keeps at least one voxel."""
        start, stop = self.region
        return min(stop - start, 2 * self.context + self.pool)

    def windows(self, size: int) -> list[Window]:
        """Return windows of one size that together keep every wanted voxel exactly once.

        Args:
            size: A multiple of the pool, at least `smallest`.
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

    def count(self, size: int) -> int:
        """Return the number of windows of a given size."""
        start, stop = self.region
        step = size - 2 * self.context
        return 1 if size >= stop - start else 1 + math.ceil((stop - start - size) / step)

    def sizes(self) -> list[int]:
        """Return the window sizes to consider, in ascending order; the last is the whole region."""
        start, stop = self.region
        found = []
        size = self.smallest
        while size < stop - start:
            found.append(size)
            size = max(int(size * _GROWTH) // self.pool * self.pool, size + self.pool)
        return [*found, stop - start]


def choose_windows(axes: Sequence[Axis], voxels: int) -> Vec3:
    """Return the window size (z, y, x) for which the total number of computed voxels is smallest.

    Args:
        voxels: Maximum number of voxels of a window, including the border of one voxel that networks add.
    """
    fitting = [
        (math.prod(axis.count(n) * n for axis, n in zip(axes, sizes, strict=True)), sizes)
        for sizes in itertools.product(*(axis.sizes() for axis in axes))
        if math.prod(n + 2 for n in sizes) <= voxels
    ]
    if not fitting:
        smallest = [axis.smallest for axis in axes]
        raise InvalidArgumentError(
            f"predict: the memory holds a block of {voxels:,} voxels, but the smallest one with its context is"
            f" {smallest} (z, y, x) and a border of 1; expected more memory or less context"
        )
    return as_vec3(min(fitting)[1])
