# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench scaling`: training steps of one rank and of all ranks at once."""

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
    help="Ranks to start.",
)
@click.option(
    "--threads",
    type=shared.Number(limits.SOME_THREADS),
    default=1,
    show_default=True,
    help="Threads of each rank.",
)
@click.option(
    "--network",
    type=click.Choice(list(DEFAULTS)),
    default="ffn",
    show_default=True,
    help="What is trained.",
)
@click.option(
    "--depth",
    type=shared.Number(limits.FFN_DEPTH),
    help="Modules (default 9) or, of a U-Net, levels (5).",
)
@click.option(
    "--fov",
    type=shared.Numbers(limits.FIELD_OF_VIEW, 3),
    help="ffn: field of view, z,y,x (default 33).",
)
@click.option(
    "--size",
    type=shared.Numbers(limits.PATCH, 2),
    help="unet2d: of a slice, y,x in pixels (default 240).",
)
@click.option(
    "--features", type=shared.Number(limits.FFN_FEATURES), help="Feature maps (default 32; 16)."
)
@click.option(
    "--batch", type=shared.Number(limits.BATCH), help="unet2d: slices of a rank (default 8)."
)
@click.option(
    "--algorithm", default="ring", show_default=True, help="Allreduce, as `comm.algorithm`."
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
    """Time training steps of one rank alone and of all ranks, beside the peak of one and of all.

    Starts its ranks with mpiexec unless it is itself started by mpiexec. `fovs_per_s` and `images_per_s`
    are of all ranks. A row of several ranks has `speedup` (throughput over one rank's), `peak_speedup`
    (the multiply-add loop's) and `share_of_peak_speedup` (the first over the second).

    Example: floodtide bench scaling --network unet2d --ranks 2 --json
    """
    from floodtide import _core, bench
    from floodtide.comm import world

    given = {name: value for name, value in options.items() if value}
    for name in given.keys() - DEFAULTS[network].keys():
        raise click.UsageError(f"--{name} is not of --network {network}")
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
