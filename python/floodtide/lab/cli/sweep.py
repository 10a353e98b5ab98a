# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from floodtide.cli.options import filled, of_fields
from floodtide.lab.sweep.running import Options


@click.command()
@click.argument("file", metavar="SWEEP.toml", type=click.Path(path_type=Path))
@of_fields(Options)
@click.option(
    "--list", "only_list", is_flag=True, help="List the trainings and their state; run nothing."
)
def command(file: Path, only_list: bool, **options: Any) -> int:
    """Run the trainings of SWEEP.toml: one configuration with every combination of some values.

    Each training has its own run directory. A finished training is not repeated, nor is one that has diverged
    or was given up (validation.give_up_after). A stopped training resumes. Walkers emulate ranks: with
    comm.exactness = "workers", N walkers make the training steps of N ranks, bit for bit.

    \b
    Example of a file:
      config = "base.toml"
      directory = "runs/rates"
      [grid]
      optimizer.lr = [1e-4, 3e-4, 1e-3]
      training.walkers = [1, 4, 16]
      run.seed = [0, 1, 2]
    """
    from floodtide.base.progress import bar
    from floodtide.lab import sweep

    plan, chosen = sweep.load(file), filled(Options, options)
    part = chosen.numbers()
    if only_list:
        for cell in plan.cells[part[0] :: part[1]]:
            click.echo(f"{cell.name}: {cell.state()}")
        return 0
    with bar("examples", "sweep") as progress:
        outcomes = sweep.run(plan, parallel=chosen.at_a_time(plan), part=part, progress=progress)
    for outcome in outcomes:
        click.echo(f"{outcome.cell.name}: {outcome.status}")
    status = 0
    for kind in ("failed", "in use"):
        found = [outcome for outcome in outcomes if outcome.status == kind]
        if found:
            status = 1
            reason = found[0].reason.removeprefix("floodtide train: ")
            click.echo(
                f"floodtide lab: sweep: {len(found)} of {len(outcomes)} trainings {kind};"
                f" {found[0].cell.name}: {reason}",
                err=True,
            )
    return status
