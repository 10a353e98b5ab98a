# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of kernels: the peak multiply-add rate, bandwidth of caches and memory, convolutions, optimizers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.bench.rows import Row, stamped, threads
from floodtide.bench.shapes import ConvShape, Timing

MIB = (0.5, 4.0, 256.0)
"""Sizes of buffers that, on most processors, lie in the second cache, in the third one, and in memory."""


def peak(*, thread_counts: Sequence[int] = (1,), seconds: float = 1.0) -> Iterator[Row]:
    """Measure the peak multiply-add rate of every instruction set of the processor, and yield rows.

    Args:
        thread_counts: Numbers of threads; one row for each number and instruction set.
        seconds: Minimum time to measure each row.
    """
    levels = ["generic", "avx2", "avx512"]
    for level in levels[: levels.index(_core.processor_isa()) + 1]:
        for count in thread_counts:
            with threads(count):
                yield stamped(_core.bench.peak(level, seconds))


def bandwidth(
    *, thread_counts: Sequence[int] = (1,), mib: Sequence[float] = MIB, seconds: float = 1.0
) -> Iterator[Row]:
    """Measure how fast threads read from caches and memory, and yield rows.

    Rows have `gb_per_s`, the bytes that all threads read in 1e-9 s, from the median time.

    Args:
        thread_counts: Numbers of threads; one set of rows for each.
        mib: Sizes in MiB of the buffer that each thread reads again and again.
        seconds: Minimum time to measure each row.

    Raises:
        floodtide.errors.InvalidArgumentError: If the buffers do not fit into memory.
    """
    largest = max(mib) * max(thread_counts)
    limits.require_memory("bench bandwidth: the buffers need", largest * 2**20, "fewer MiB")
    for count in thread_counts:
        with threads(count):
            for size in mib:
                row = {
                    "name": "bandwidth",
                    "kernel": "read",
                    "level": _core.active_isa(),
                    "shape": f"{size:g} MiB for each thread",
                    "ranks": 1,
                    "mib": size,
                }
                yield stamped(row | _core.bench.bandwidth(int(size * 2**20), seconds))


def conv(shape: ConvShape, timing: Timing, against: str = "") -> Iterator[Row]:
    """Measure forward, backward-data and backward-weights of one convolution, and yield rows. Checks results first.

    The input of forward and backward-weights passes a ReLU. Its mask is applied to the result of backward-data.

    Args:
        shape: The convolution.
        timing: One set of rows for each number of threads. At least 20 samples are taken, or 3 if all samples together
            take 2 s.
        against: Name of a second kernel to compare with, from `_core.bench.conv_kernels`. Samples of the two alternate.

    Raises:
        floodtide.errors.InvalidArgumentError: If a size is out of range or `against` is unknown.
        floodtide.errors.UnsupportedError: If the kernel `against` does not support this shape or machine.
    """
    for count in timing.counts:
        with threads(count):
            rows = _core.bench.conv(
                shape.size,
                *shape.channels,
                shape.kernel,
                True,  # a ReLU
                shape.compute,
                timing.seconds,
                against,
            )
            yield from map(stamped, rows)


def optimizer(name: str, parameters: int, seconds: float) -> Row:
    """Measure steps of an optimizer with clipping, on the threads of the moment, and return a row.

    `sweep_s` is the median time to read and write the parameters and the state once, and to read the gradients, without
    any computation. `ratio` is the median of step time / sweep time of the same round. All data come from memory rather
    than from caches, as after the passes of a network.

    Args:
        name: The optimizer.
        parameters: Number of parameters.
        seconds: Minimum time, with the emptying of caches. At least 20 rounds are made.

    Raises:
        floodtide.errors.InvalidArgumentError: If there is no such optimizer.
    """
    passes = _core.bench.OptimizerPasses(name, parameters)
    passes.step()
    steps: list[float] = []
    sweeps: list[float] = []
    # Caches are emptied before each pass. This takes longer than the pass, so elapsed time counts.
    end_s = time.monotonic() + seconds
    while len(steps) < 20 or time.monotonic() < end_s:
        sweeps.append(passes.sweep())
        steps.append(passes.step())
    return {
        "name": f"optimizer {name}",
        "kernel": _core.active_isa(),
        "level": _core.active_isa(),
        "shape": f"{parameters} parameters",
        "threads": _core.num_threads(),
        "ranks": 1,
        "samples": len(steps),
        "median_s": float(np.median(steps)),
        "sweep_s": float(np.median(sweeps)),
        "min_s": min(steps),
        "ratio": float(np.median(np.array(steps) / np.array(sweeps))),
    }
