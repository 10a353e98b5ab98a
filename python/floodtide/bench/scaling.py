# SPDX-License-Identifier: Apache-2.0
"""Training steps of one rank and of all ranks at once."""

from __future__ import annotations

from typing import Any

from floodtide.bench.ranks import start_ranks
from floodtide.bench.rows import Row, stamped, threads
from floodtide.bench.shapes import FfnShape, ScalingOptions, UNetShape

_ALGORITHM = "ring"


def scaling(options: ScalingOptions, shape: FfnShape | UNetShape | None = None) -> list[Row]:
    """Measure training steps of one rank and of all ranks, and return rows on rank 0. Starts the ranks. Collective.

    Rows have `fovs_per_s` or `images_per_s`: the throughput of all ranks together. The row of all ranks has `speedup`,
    that throughput divided by the throughput of one rank, `peak_speedup`, the same for the processor's peak
    multiply-add rate, and `share_of_peak_speedup`, the ratio of the two.

    Args:
        options: Ranks, threads, kind of network and time.
        shape: The network and the batch of a rank; None: the defaults of their class.

    Raises:
        UnsupportedError: If there is no mpiexec.
    """
    from floodtide import _core
    from floodtide.comm import world

    flooding = options.network == "ffn"
    shape = shape or (FfnShape() if flooding else UNetShape())
    fields = ("depth", "features", *(("fov",) if flooding else ("size", "batch")))
    settings = {name: getattr(shape, name) for name in fields}
    make: Any = _core.bench.ffn_workload if flooding else _core.bench.unet_workload
    start_ranks("bench scaling", options.ranks)
    with threads(options.threads):
        with world.agreed():
            workload = make(**settings, rank=world.rank())
        rows = _core.bench.scaling(world.current(), workload, options.seconds, _ALGORITHM)
    for row in rows:
        row["fovs_per_s" if flooding else "images_per_s"] = (
            row["ranks"] * settings.get("batch", 1) / row["median_s"]
        )
    return [stamped(row) for row in rows] if world.rank() == 0 else []
