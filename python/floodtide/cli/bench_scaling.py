# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench scaling`: training steps of one rank and of all ranks at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from floodtide.cli.bench import Numbers, row_options, seconds_option
from floodtide.cli.bench_ranks import start_ranks


@click.command()
@click.option(
    "--ranks", type=click.IntRange(min=2), default=2, show_default=True, help="Ranks to start."
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Threads of each rank.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=9,
    show_default=True,
    help="Modules of the network.",
)
@click.option(
    "--fov", type=Numbers(3), default="33", show_default=True, help="Field of view, z,y,x."
)
@click.option(
    "--features", type=click.IntRange(min=1), default=32, show_default=True, help="Feature maps."
)
@click.option(
    "--algorithm", default="ring", show_default=True, help="Allreduce, as `comm.algorithm`."
)
@seconds_option
@row_options
def command(
    ranks: int,
    threads: int,
    depth: int,
    fov: tuple[int, int, int],
    features: int,
    algorithm: str,
    seconds: float,
) -> Iterable[dict[str, Any]]:
    """Time training steps of one rank alone and of all ranks, beside the peak of one and of all.

    Starts its ranks with mpiexec unless it is itself started by mpiexec. A row of several ranks has
    `speedup` (throughput over one rank's), `peak_speedup` (the multiply-add loop's) and
    `share_of_peak_speedup` (the first over the second).

    Example: floodtide bench scaling --ranks 2 --json
    """
    from floodtide import _comm, _core, bench

    start_ranks("scaling", ranks)
    with bench.threads(threads):
        rows = _core.bench.scaling(_comm.current(), depth, list(fov), features, seconds, algorithm)
        return [bench.stamped(row) for row in rows] if _comm.rank() == 0 else []
