# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of kernels: the peak multiply-add rate, the bandwidth of caches and memory, and convolutions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.bench.rows import Row, compared, enough, spread, stamped, threads
from floodtide.bench.shapes import ConvShape, Timing

T = TypeVar("T")
MIB = (0.5, 4.0, 256.0)
"""Sizes of buffers that, on most processors, lie in the second cache, in the third one, and in memory."""


def peak(timing: Timing) -> Iterator[Row]:
    """Measure the peak multiply-add rate of every instruction set, and yield a row for each and number of threads."""
    levels = ["generic", "avx2", "avx512"]
    for level in levels[: levels.index(_core.processor_isa()) + 1]:
        for count in timing.counts:
            with threads(count):
                times, rates = _sampled(_core.bench.Peak(level).sample, timing.seconds)
                rate = float(np.median(rates))
                row = {
                    "name": "peak",
                    "kernel": f"fma_{level}",
                    "level": level,
                    "shape": "registers",
                    "threads": count,
                    "ranks": 1,
                }
                row |= {"gflops": rate, "peak_gflops": rate, "ratio": 1.0, "best_ratio": 1.0}
                yield stamped(row | spread(times))


def _sampled(run: Callable[[], T], seconds: float) -> tuple[list[float], list[T]]:
    """Return the times of calls of `run` in seconds, and what it returned."""
    times: list[float] = []
    results: list[T] = []
    start = time.perf_counter()
    while not enough(len(times), time.perf_counter() - start) or sum(times) < seconds:
        before = time.perf_counter()
        results.append(run())
        times.append(time.perf_counter() - before)
    return times, results


def bandwidth(timing: Timing, mib: Sequence[float] = MIB) -> Iterator[Row]:
    """Measure how fast threads read from caches and memory, and yield rows.

    Rows have `gb_per_s`, the bytes that all threads read in 1e-9 s, from the median time.

    Args:
        timing: One set of rows for each number of threads.
        mib: Sizes in MiB of the buffer that each thread reads again and again.
    """
    largest = max(mib) * max(timing.counts)
    limits.require_memory("bench bandwidth: the buffers need", largest * 2**20, "fewer MiB")
    for count in timing.counts:
        with threads(count):
            for size in mib:
                reading = _core.bench.Reading(int(size * 2**20))
                row = spread(_sampled(reading.run, timing.seconds)[0])
                row |= {
                    "name": "bandwidth",
                    "kernel": "read",
                    "level": _core.active_isa(),
                    "shape": f"{size:g} MiB for each thread",
                    "threads": count,
                    "ranks": 1,
                    "mib": size,
                    "gb_per_s": reading.bytes() / row["median_s"] * 1e-9,
                }
                yield stamped(row)


def conv(shape: ConvShape, timing: Timing, against: str = "") -> Iterator[Row]:
    """Measure forward, backward-data and backward-weights of one convolution, and yield rows. Checks results first.

    The input of forward and backward-weights passes a ReLU. Its mask is applied to the result of backward-data.

    Args:
        timing: One set of rows for each number of threads. At least 20 samples are taken, or 3 if all samples together
            take 2 s.
        against: Name of a second kernel to compare with, from `_core.bench.conv_kernels`. Samples of the two alternate.
    """
    for count in timing.counts:
        with threads(count):
            convolution = (shape.size, *shape.channels, (3, 3, 3), "fp32")
            ours = _core.bench.ConvPasses(*convolution, "")
            both = {"floodtide": ours}
            if against:
                both[against] = _core.bench.ConvPasses(*convolution, against)
            size, channels = "x".join(map(str, shape.size)), "{} to {}".format(*shape.channels)
            conditions = {
                "kernel": ours.kernel(),
                "shape": f"{size}, kernel 3x3x3, {channels} channels",
                "threads": count,
            }
            for name in ("forward", "backward_data", "backward_weights"):
                yield from compared(
                    f"conv {name}",
                    {key: getattr(passes, name) for key, passes in both.items()},
                    conditions,
                    flops=ours.flops(),
                    examples={},
                    seconds=timing.seconds,
                )
