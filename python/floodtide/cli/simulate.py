# SPDX-License-Identifier: Apache-2.0
"""`floodtide simulate`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.base.outputs import PICTURES, files_in, reserved
from floodtide.cli import options as shared
from floodtide.comm.reductions import allreduce_algorithms

COLUMNS = (
    ("scenario", 36, "{}"),
    ("network", 11, "{}"),
    ("ranks", 6, "{}"),
    ("paid_ranks", 11, "{}"),
    ("step_s", 9, "{:.4f}"),
    ("comm_s", 9, "{:.5f}"),
    ("fovs_per_s", 11, "{:.4g}"),
    ("efficiency", 11, "{:.1%}"),
    ("paid_efficiency", 16, "{:.1%}"),
    ("largest_loss", 13, "{}"),
)
_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("run", required=False, type=_FILE)
@click.option(
    "--paper",
    is_flag=True,
    help="Simulate the paper's machine under two explanations of its lost efficiency.",
)
@click.option(
    "--compute-s",
    type=shared.Number(limits.SOME_SECONDS),
    help="Seconds that the forward and backward pass of one field of view take.",
)
@click.option(
    "--sigma",
    type=shared.Number(limits.SPREAD),
    help="Sigma of a random lognormal factor (mean 1) on the compute time.  [default: 0]",
)
@click.option(
    "--samples", type=_FILE, help="File of measured compute times in seconds, one per line."
)
@click.option(
    "--update-s",
    type=shared.Number(limits.SECONDS),
    help="Seconds of a parameter update.  [default: 0]",
)
@click.option(
    "--depth",
    type=shared.Number(limits.FFN_DEPTH),
    help="Number of modules of the network.  [default: 9]",
)
@click.option(
    "--features",
    type=shared.Number(limits.FFN_FEATURES),
    help="Number of feature maps of the network.  [default: 32]",
)
@click.option(
    "--walkers-per-rank",
    type=shared.Number(limits.WALKERS),
    help="Number of fields of view that each rank computes in a step.  [default: 1]",
)
@click.option("--load-s", type=shared.Number(limits.SECONDS), help="Seconds to load a patch.")
@click.option(
    "--moves",
    type=shared.Number(limits.MOVES),
    help="Mean number of fields of view on a patch.",
)
@click.option(
    "--prefetch",
    type=shared.Number(limits.PREFETCH),
    default=0,
    show_default=True,
    help="Number of patches that each walker loads in advance.",
)
@click.option(
    "--readers",
    type=shared.Number(limits.READERS),
    default=1,
    show_default=True,
    help="Number of patches that each rank loads at the same time.",
)
@click.option(
    "--backup",
    type=shared.Number(limits.BACKUP),
    default=0.0,
    help="Number of backup ranks, as a share of the ranks that count.  [default: 0]",
)
@click.option(
    "--late",
    type=click.Choice(["abandon", "drop", "carry"]),
    default="drop",
    show_default=True,
    help="What a rank does if its gradient is late: abandon it at once, or finish it and then drop it or "
    "carry it over. floodtide's training offers drop and carry.",
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    help="Network to simulate: 10gbe, 100gbe or dragonfly. Can be given several times.  [default: all]",
)
@click.option(
    "--alpha-us",
    type=shared.Number(limits.LATENCY),
    help="Latency in microseconds of a custom network; needs --gb-per-s.",
)
@click.option(
    "--gb-per-s",
    type=shared.Number(limits.BANDWIDTH),
    help="Bandwidth of the custom network in 1e9 bytes per second; needs --alpha-us.",
)
@click.option(
    "--cpu-ns-per-byte",
    type=shared.Number(limits.CPU_PER_BYTE),
    help="Processor time, in nanoseconds, to send one byte and receive one byte on the custom network.  [default: 0]",
)
@click.option(
    "--ranks-per-node",
    type=shared.Number(limits.RANKS),
    default=1,
    show_default=True,
    help="Number of ranks on a node; they share its network adapter.",
)
@click.option(
    "--cores",
    type=shared.Number(limits.COUNT),
    help="Number of cores that the ranks of a node share.  [default: enough for all threads]",
)
@click.option(
    "--algorithm",
    default="best",
    show_default=True,
    help=f"Allreduce algorithm: {', '.join(allreduce_algorithms(own=True))}, or best (the fastest of them).",
)
@click.option(
    "--allreduce", type=_FILE, help="File of measured allreduce times to use instead of a network."
)
@click.option(
    "--bucket-mib",
    type=shared.Number(limits.BUCKET),
    help="Minimum size (MiB) of a bucket; buckets are summed during the backward pass.  "
    "[default: that of RUN, or 0.25]",
)
@click.option(
    "--asynchronous",
    is_flag=True,
    help="Also simulate asynchronous training with one parameter server.",
)
@click.option(
    "--fovs-per-s",
    type=shared.Number(limits.THROUGHPUT),
    help="Also find the smallest number of ranks with this throughput, in fields of view per second.",
)
@click.option(
    "--ranks",
    type=shared.Numbers(limits.RANKS),
    default="1,2,4,8,16,32,64,128,256,512,1024",
    show_default=True,
    help="Numbers of ranks to simulate.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.SIMULATED_STEPS),
    default=2000,
    show_default=True,
    help="Number of training steps to simulate for each row.",
)
@click.option(
    "--seed",
    type=shared.Number(limits.FILE_SEED),
    default=0,
    show_default=True,
    help="Seed of the random numbers.",
)
@click.option("--out", type=_FILE, help="Also draw the rows to this .png, .svg or .pdf file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
def command(
    run: Path | None,
    paper: bool,
    asynchronous: bool,
    fovs_per_s: float | None,
    ranks: tuple[int, ...],
    steps: int,
    seed: int,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Forecast the throughput of synchronous training for given numbers of ranks.

    The forecast takes times from RUN, a run directory, and from options. Options override RUN.
    docs/scaling_model.md describes the model. Efficiency is the throughput divided by the number of ranks
    times the throughput of one rank.

    \b
    Examples:
      floodtide simulate --paper --out figure3.png
      floodtide simulate runs/fib25 --network 10gbe --fovs-per-s 523
    """
    from floodtide.simulate import figure

    if out is None:
        _simulate(run, paper, asynchronous, fovs_per_s, ranks, steps, seed, as_json, options)
        return
    figure.check_name(out)
    inputs = [name for name in (options["samples"], options["allreduce"]) if name is not None]
    if run is not None:
        inputs += files_in(run)
    with reserved("simulate", out, PICTURES[out.suffix], inputs):
        rows = _simulate(run, paper, asynchronous, fovs_per_s, ranks, steps, seed, as_json, options)
        figure.save(rows, out)


def _simulate(
    run: Path | None,
    paper: bool,
    asynchronous: bool,
    fovs_per_s: float | None,
    ranks: tuple[int, ...],
    steps: int,
    seed: int,
    as_json: bool,
    options: dict[str, Any],
) -> list[Any]:
    """Print the rows and return them."""
    from floodtide.simulate import calibration, forecast, model, scenarios
    from floodtide.simulate.rows import Row

    limits.SIMULATED_DRAWS.check(max(ranks) * steps, "--ranks times --steps")
    settings = forecast.Options(**options)
    measured = calibration.calibrate(run) if run else None
    own = measured is not None or settings.compute_s is not None or settings.samples is not None
    if not own:
        _refuse_without_forecast(settings, paper, asynchronous or fovs_per_s is not None)
    jobs = forecast.forecast_jobs(settings, measured) if own else []

    unsynchronised = forecast.asynchronous_rows(settings, jobs, ranks) if asynchronous else []
    rows: list[Row] = []
    for named in (scenarios.paper_jobs() if paper else []) + jobs:
        rows += scenarios.sweep(named, ranks, steps=steps, seed=seed)
    if measured:
        rows.append(forecast.measured_row(measured))
    rows += unsynchronised
    targets: list[tuple[str, int | None]] = []
    if fovs_per_s is not None:
        for named in jobs:
            found = model.least_ranks(named.job, fovs_per_s, steps=steps, seed=seed)
            targets.append((named.network, found))
    _print_rows(rows, as_json)
    for network, found in targets:
        _print_target(network, fovs_per_s, found, as_json)
    return rows


def _refuse_without_forecast(settings: Any, paper: bool, wants_forecast: bool) -> None:
    """Raise UsageError if nothing is to be simulated, or if forecast options have no forecast to act on."""
    from floodtide.simulate.forecast import Options

    if not paper:
        raise click.UsageError(
            "nothing to simulate: expected RUN, --compute-s, --samples or --paper"
        )
    if wants_forecast or settings != Options():
        raise click.UsageError(
            "forecast options are given, expected RUN, --compute-s or --samples too"
        )


def _print_rows(rows: list[Any], as_json: bool) -> None:
    if as_json:
        for row in rows:
            click.echo(json.dumps(dataclasses.asdict(row)))
        return
    click.echo("".join(name.ljust(width) for name, width, _ in COLUMNS).rstrip())
    for row in rows:
        cells = [(getattr(row, name), width, form) for name, width, form in COLUMNS]
        click.echo(
            "".join(
                ("-" if v is None else form.format(v)).ljust(w) for v, w, form in cells
            ).rstrip()
        )


def _print_target(network: str, fovs_per_s: float | None, ranks: int | None, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {
                    "scenario": "target",
                    "network": network,
                    "target_fovs_per_s": fovs_per_s,
                    "ranks": ranks,
                }
            )
        )
        return
    answer = "not reached" if ranks is None else count_of(ranks, "rank")
    click.echo(f"{fovs_per_s:g} fields of view / s on {network}: {answer}")
