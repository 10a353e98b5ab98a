# SPDX-License-Identifier: Apache-2.0
"""Training steps of one rank and of all ranks at once."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, config
from floodtide.bench.passes import Passes, passes_of
from floodtide.bench.rows import Row, enough, rated, stamped, threads
from floodtide.bench.shapes import NETWORKS, ScalingOptions
from floodtide.comm import world
from floodtide.comm.notebook import start_ranks


def scaling(options: ScalingOptions) -> list[Row]:
    """Measure training steps of one rank and of all ranks, and return rows on rank 0. Starts the ranks. Collective.

    Rows have `fovs_per_s` or `images_per_s`: the throughput of all ranks together. The row of all ranks has `speedup`,
    that throughput divided by the throughput of one rank, `peak_speedup`, the same for the processor's peak
    multiply-add rate, and `share_of_peak_speedup`, the ratio of the two.

    Args:
        options: Ranks, threads, kind of network (of NETWORKS) and time.
    """
    settings = config.from_dict(NETWORKS[options.network], "bench scaling")
    start_ranks("bench scaling", options.ranks)
    with threads(options.threads):
        with world.agreed():
            passes = passes_of(settings)
        times = _measured(passes, options.seconds)
    rows: list[Row] = []
    for ranks, (peaks, steps) in ((1, times[::2]), (world.size(), times[1::2])):
        row: Row = {"name": "scaling", "kernel": "step", "shape": "", "ranks": ranks}
        row["threads"] = options.threads
        row |= rated(steps, ranks * passes.flops["step"], ranks / peaks)
        row[passes.rate] = ranks * passes.batch / row["median_s"]
        rows.append(row)
    one, every = rows
    every["speedup"] = world.size() * one["median_s"] / every["median_s"]
    every["peak_speedup"] = every["peak_gflops"] / one["peak_gflops"]
    every["share_of_peak_speedup"] = every["speedup"] / every["peak_speedup"]
    return [stamped(row) for row in rows] if world.rank() == 0 else []


def _measured(passes: Passes, seconds: float) -> NDArray[np.float64]:
    """Measure rank 0 while the others wait, and all ranks, for the slowest one. Collective.

    The four measurements alternate, so that all see the same state of the machine.

    Returns:
        Rows of times in seconds: of 1e9 operations at the peak of a rank, alone and together; of a step, alone and
        together.
    """
    comm = world.current()
    peak = _core.bench.Peak(_core.active_isa())

    def step(together: bool) -> float:
        start = time.perf_counter()
        passes.train()
        if together:
            comm.start_allreduce(passes.gradients, "sum", "ring").wait()
        passes.update()
        return time.perf_counter() - start

    step(False)  # warm-up, which plans the memory
    step(True)
    rounds: list[NDArray[np.float64]] = []
    spent_s = alone_s = 0.0
    while not enough(len(rounds), spent_s) or alone_s < seconds:
        times = np.zeros(4)
        for number in range(4):
            together = number % 2 == 1
            comm.barrier()
            if together or comm.rank == 0:
                times[number] = step(together) if number >= 2 else 1 / peak.sample()
        comm.start_allreduce(times, "max", "recursive_doubling").wait()
        rounds.append(times)  # equal on all ranks, which therefore decide alike
        spent_s += times[2] + times[3]
        alone_s += times[2]
    return np.array(rounds).T
