# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab simulate`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from floodtide.base.notes import count_of
from floodtide.cli.options import filled, of_fields, rows_as_json
from floodtide.lab.cli.columns import print_columns
from floodtide.lab.forecasting import Question, answers
from floodtide.lab.simulate.forecast import Options

_FORMATS = {
    "scenario": "36",
    "network": "",
    "ranks": "",
    "paid_ranks": "",
    "step_s": ".4f",
    "comm_s": ".5f",
    "fovs_per_s": ".4g",
    "efficiency": ".1%",
    "paid_efficiency": ".1%",
    "largest_loss": "",
}


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@of_fields(Question)
@of_fields(Options)
@rows_as_json
def command(run: Path | None, as_json: bool, **options: Any) -> None:
    """Forecast the throughput of synchronous training for given numbers of ranks.

    The forecast takes times from RUN, a run directory, and from options. Options override RUN.
    docs/lab/scaling_model.md describes the model. Efficiency is the throughput divided by the number of ranks
    times the throughput of one rank.

    \b
    Examples:
      floodtide lab simulate --paper --out figure3.png
      floodtide lab simulate runs/fib25 --network 10gbe --fovs-per-s 523
    """
    rows, targets = answers(run, filled(Question, options), filled(Options, options))
    print_columns(map(dataclasses.asdict, rows), as_json, _FORMATS)
    for target in targets:
        if as_json:
            click.echo(json.dumps({"scenario": "target", **dataclasses.asdict(target)}))
            continue
        answer = "not reached" if target.ranks is None else count_of(target.ranks, "rank")
        click.echo(f"{target.target_fovs_per_s:g} fields of view / s on {target.network}: {answer}")
