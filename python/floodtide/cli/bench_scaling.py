# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench scaling`: measure training steps of one rank and of all ranks at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench import row_options, seconds_option
from floodtide.cli.bench_ranks import start_ranks

DEFAULTS: dict[str, dict[str, Any]] = {
    "ffn": {"depth": 9, "fov": (33, 33, 33), "features": 32},
    "unet2d": {"depth": 5, "size": (240, 240), "features": 16, "batch": 8},
}


@click.command()
@click.option(
    "--ranks",
    type=shared.Number(limits.SEVERAL_RANKS),
    default=2,
    show_default=True,
    help="Number of ranks to start, unless mpiexec started this command.",
)
@click.option(
    "--threads",
    type=shared.Number(limits.SOME_THREADS),
    default=1,
    show_default=True,
    help="Number of threads of each rank.",
)
@click.option(
    "--network",
    type=click.Choice(list(DEFAULTS)),
    default="ffn",
    show_default=True,
    help="Kind of network to train.",
)
@click.option(
    "--depth",
    type=shared.Number(limits.FFN_DEPTH),
    help="ffn: number of modules (default 9); unet2d: number of levels (default 5).",
)
@click.option(
    "--fov",
    type=shared.Numbers(limits.FIELD_OF_VIEW, 3),
    help="ffn: size z,y,x of the field of view in voxels (default 33).",
)
@click.option(
    "--size",
    type=shared.Numbers(limits.PATCH, 2),
    help="unet2d: size y,x of a slice in pixels (default 240).",
)
@click.option(
    "--features",
    type=shared.Number(limits.FFN_FEATURES),
    help="Number of feature maps (default for ffn 32; for unet2d 16, in the first level).",
)
@click.option(
    "--batch",
    type=shared.Number(limits.BATCH),
    help="unet2d: number of slices of each rank (default 8).",
)
@click.option(
    "--algorithm",
    default="ring",
    show_default=True,
    help="Allreduce algorithm, as `comm.algorithm`.",
)
@seconds_option
@row_options
def command(
    ranks: int,
    threads: int,
    network: str,
    algorithm: str,
    seconds: float,
    **options: Any,
) -> Iterable[dict[str, Any]]:
    """Measure the speed-up of training steps from one rank to all ranks, and the speed-up of the processor's peak.

    Starts its ranks with mpiexec, unless mpiexec started this command.

    \b
    Columns:
      fovs_per_s, images_per_s  throughput of all ranks together
      speedup                   throughput of all ranks / throughput of one rank
      peak_speedup              the same for the processor's peak multiply-add rate
      share_of_peak_speedup     speedup / peak_speedup

    Example: floodtide bench scaling --network unet2d --ranks 2 --json
    """
    from floodtide import _core, bench
    from floodtide.comm import world

    given = {name: value for name, value in options.items() if value}
    for name in given.keys() - DEFAULTS[network].keys():
        raise click.UsageError(f"--{name} has no meaning for --network {network}")
    settings = DEFAULTS[network] | given
    rate = "images_per_s" if network == "unet2d" else "fovs_per_s"
    start_ranks("scaling", ranks)
    make = _core.bench.unet_workload if network == "unet2d" else _core.bench.ffn_workload
    with bench.threads(threads):
        with world.agreed():
            workload = make(**settings, rank=world.rank())
        rows = _core.bench.scaling(world.current(), workload, seconds, algorithm)
    for row in rows:
        row[rate] = row["ranks"] * settings.get("batch", 1) / row["median_s"]
    return [bench.stamped(row) for row in rows] if world.rank() == 0 else []
