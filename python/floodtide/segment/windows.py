# SPDX-License-Identifier: Apache-2.0
"""How a U-Net's prediction of a large volume is cut into windows without leaving a seam.

A U-Net's output depends on the input within a bounded distance, its context, and on where its pools begin. Windows that
begin at multiples of the pools, keep only what lies at least the context inside of them (or at the volume's own
border), and reach into one another accordingly, therefore give the values of a single pass over the whole volume.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError

Vec3 = tuple[int, int, int]

_GROWTH = 1.25  # between the sizes of windows that are considered along an axis


@dataclass(frozen=True)
class Window:
    """Voxels [start, stop) that are computed along an axis, and [keep_start, keep_stop) of them that are kept."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int


@dataclass(frozen=True)
class Axis:
    """One axis of a prediction: voxels [begin, end) of 0 to extent, a network's context and pools along it."""

    extent: int
    begin: int
    end: int
    context: int
    pool: int

    @property
    def region(self) -> tuple[int, int]:
        """What the wanted voxels depend on, [start, stop): multiples of the pool; stop may lie beyond the extent."""
        pool, padded = self.pool, -(-self.extent // self.pool) * self.pool
        start = max(0, self.begin // pool * pool - self.context)
        return start, min(padded, -(-self.end // pool) * pool + self.context)

    @property
    def smallest(self) -> int:
        """The smallest window that keeps anything."""
        start, stop = self.region
        return min(stop - start, 2 * self.context + self.pool)

    def windows(self, size: int) -> list[Window]:
        """Windows of one size, a multiple of the pool from `smallest` on, that keep every wanted voxel once."""
        start, stop = self.region
        if size >= stop - start:
            return [Window(start, stop, self.begin, self.end)]
        found = []
        kept = self.begin
        while start + size < stop:
            found.append(Window(start, start + size, kept, start + size - self.context))
            kept = start + size - self.context
            start += size - 2 * self.context
        return [
            *found,
            Window(stop - size, stop, kept, self.end),
        ]  # all of one size: one memory plan

    def count(self, size: int) -> int:
        """The number of windows of a size."""
        start, stop = self.region
        step = size - 2 * self.context
        return 1 if size >= stop - start else 1 + math.ceil((stop - start - size) / step)

    def sizes(self) -> list[int]:
        """Window sizes worth considering, ascending up to the whole region."""
        start, stop = self.region
        found = []
        size = self.smallest
        while size < stop - start:
            found.append(size)
            larger = int(size * _GROWTH) // self.pool * self.pool
            size = max(larger, size + self.pool)
        return [*found, stop - start]


def choose_windows(axes: Sequence[Axis], voxels: int) -> Vec3:
    """The window sizes (z, y, x) for which the fewest voxels are computed in all.

    Args:
        axes: z, y, x.
        voxels: What a window may have at most, with the border of one voxel that networks put around it.

    Raises:
        InvalidArgumentError: If the smallest window has more.
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
    z, y, x = min(fitting)[1]
    return z, y, x


def context_of(
    depth: int, kernels: Sequence[Sequence[int]], pools: Sequence[Sequence[int]]
) -> Vec3:
    """How far (z, y, x) a U-Net's output depends on its input, as a multiple of its pools.

    Args:
        depth: Levels of resolution.
        kernels: (z, y, x) of each level's convolutions (two before and two after the levels below); one for all, or
            depth.
        pools: (z, y, x) from level to level; one for all, or depth - 1.
    """
    z, y, x = (
        _context(
            [kernel[axis] for kernel in _each(kernels, depth)],
            [pool[axis] for pool in _each(pools, depth - 1)],
        )
        for axis in range(3)
    )
    return z, y, x


def _each(values: Sequence[Sequence[int]], count: int) -> Sequence[Sequence[int]]:
    return [values[0]] * count if len(values) == 1 else values[:count]


def _context(kernels: Sequence[int], pools: Sequence[int]) -> int:
    total = math.prod(pools)
    low, high = _reach(kernels, pools, 0, total)
    return math.ceil(max(-low, high - total) / total) * total


def _reach(kernels: Sequence[int], pools: Sequence[int], begin: int, end: int) -> tuple[int, int]:
    """The input [low, high) of a level that its output [begin, end) depends on, all in that level's voxels."""
    two = 2 * (kernels[0] // 2)  # convolutions
    if not pools:
        return begin - two, end + two
    begin, end = begin - two, end + two
    low, high = _reach(kernels[1:], pools[1:], begin // pools[0], -(-end // pools[0]))
    return min(begin, low * pools[0]) - two, max(end, high * pools[0]) + two
