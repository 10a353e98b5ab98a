# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps, compared with the memory bandwidth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from floodtide import _core
from floodtide.bench.rows import Row, stamped, threads


def optimizers(
    names: Sequence[str] = ("adam",),
    *,
    parameters: int = 472_353,
    thread_counts: Sequence[int] = (1,),
    seconds: float = 1.0,
) -> Iterator[Row]:
    """Measure a step of each optimizer, with clipping, and yield rows.

    `sweep_s` is the median time to read and write the parameters and the state once, and to read the gradients, without
    any computation. `ratio` is the median of step time / sweep time of the same round. All data come from memory rather
    than from caches, as after the passes of a network.

    Args:
        names: Optimizers; empty: all.
        parameters: Number of parameters; the default is that of the paper's network.
        thread_counts: Numbers of threads; one set of rows for each.
        seconds: Minimum time of each row, with the emptying of caches. At least 20 rounds are made.

    Raises:
        InvalidArgumentError: If there is no such optimizer.
    """
    for count in thread_counts:
        with threads(count):
            for name in names or [row["name"] for row in _core.optimizer_rows()]:
                yield stamped(_row(name, parameters, count, seconds))


def _row(name: str, parameters: int, count: int, seconds: float) -> Row:
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
        "threads": count,
        "ranks": 1,
        "samples": len(steps),
        "median_s": float(np.median(steps)),
        "sweep_s": float(np.median(sweeps)),
        "min_s": min(steps),
        "ratio": float(np.median(np.array(steps) / np.array(sweeps))),
    }
