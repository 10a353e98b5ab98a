# SPDX-License-Identifier: Apache-2.0
"""The kernels of this machine, timed: multiply-add peak and convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from floodtide import _core
from floodtide.bench.rows import Row, stamped, threads


def peak(*, thread_counts: Sequence[int] = (1,), seconds: float = 1.0) -> Iterator[Row]:
    """Time the multiply-add loops of every level that the processor has.

    Args:
        thread_counts: Numbers of threads, one row a level for each.
        seconds: Least time to spend on a row.
    """
    levels = ["generic", "avx2", "avx512"]
    for level in levels[: levels.index(_core.processor_isa()) + 1]:
        for count in thread_counts:
            with threads(count):
                yield stamped(_core.bench.peak(level, seconds))


def conv(
    *,
    size: tuple[int, int, int] = (33, 33, 33),
    channels: tuple[int, int] = (32, 32),
    kernel: tuple[int, int, int] = (3, 3, 3),
    relu: bool = True,
    thread_counts: Sequence[int] = (1,),
    seconds: float = 1.0,
    against: str = "",
) -> Iterator[Row]:
    """Time forward, backward-data and backward-weights of one convolution, after checking them.

    Args:
        size: Volume in voxels, (z, y, x).
        channels: Input and output channels.
        kernel: Kernel extents, 1 or 3, (z, y, x).
        relu: Rectify the input of forward and backward-weights, and mask backward-data.
        thread_counts: Numbers of threads, one set of rows for each.
        seconds: Least time to spend on a row; at least 20 samples are taken, or 3 if
            all take 2 s together.
        against: Name of a second kernel to time in turn with the one in use (see `kernels`).

    Raises:
        floodtide.errors.InvalidArgumentError: If a size is out of range or `against` unknown.
        floodtide.errors.UnsupportedError: If `against` cannot serve this shape or machine.
    """
    for count in thread_counts:
        with threads(count):
            yield from map(
                stamped, _core.bench.conv(size, *channels, kernel, relu, seconds, against)
            )


def kernels() -> list[tuple[str, str]]:
    """Names and levels of the convolution kernels, best first."""
    return list(_core.bench.conv_kernels())
