# SPDX-License-Identifier: Apache-2.0
"""`floodtide sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from floodtide import _core
from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.errors import InvalidArgumentError

if TYPE_CHECKING:
    from floodtide.sweep import Cell, Sweep


@click.command()
@click.argument("file", metavar="SWEEP.toml", type=click.Path(path_type=Path))
@click.option(
    "--parallel",
    type=shared.Number(limits.TRAININGS),
    help="Number of trainings at a time.  [default: all cores, with the threads and ranks of a training]",
)
@click.option(
    "--part",
    default="0/1",
    metavar="K/N",
    show_default=True,
    help="Run every N-th training, from the K-th one on (K is 0 to N - 1), for job arrays.",
)
@click.option(
    "--list", "only_list", is_flag=True, help="List the trainings and their state; run nothing."
)
def command(file: Path, parallel: int | None, part: str, only_list: bool) -> int:
    """Run the trainings of SWEEP.toml: one configuration with every combination of some values.

    Each training has its own run directory. A finished training is not repeated, nor is one that has diverged
    or was given up (validation.give_up_after). A stopped training resumes. Walkers emulate workers: with
    comm.exactness = "workers", N walkers make the updates of N ranks, bit for bit.

    \b
    Example of a file:
      config = "base.toml"
      directory = "runs/rates"
      [grid]
      optimizer.lr = [1e-4, 3e-4, 1e-3]
      training.walkers = [1, 4, 16]
      run.seed = [0, 1, 2]
    """
    from floodtide import sweep
    from floodtide.base.progress import bar

    plan = sweep.load(file)
    numbers = _part(part)
    if only_list:
        for cell in plan.cells[numbers[0] :: numbers[1]]:
            click.echo(f"{cell.name}: {_state(cell)}")
        return 0
    with bar("examples", "sweep") as progress:
        outcomes = sweep.run(
            plan,
            parallel=parallel or _at_a_time(plan),
            part=numbers,
            progress=progress,
        )
    for outcome in outcomes:
        click.echo(f"{outcome.cell.name}: {outcome.status}")
    status = 0
    for kind in ("failed", "in use"):
        found = [outcome for outcome in outcomes if outcome.status == kind]
        if found:
            status = 1
            click.echo(
                f"floodtide sweep: {len(found)} of {len(outcomes)} trainings {kind}; {found[0].cell.name}:"
                f" {found[0].reason.removeprefix('floodtide train: ')}",
                err=True,
            )
    return status


def _state(cell: Cell) -> str:
    if cell.divergence():
        return "diverged"
    if cell.given_up():
        return "given up"
    steps = cell.config.training.steps
    return "finished" if cell.finished() else f"{cell.steps_done()} of {steps} steps"


def _at_a_time(plan: Sweep) -> int:
    threads = max(cell.config.run.threads or 1 for cell in plan.cells)
    return max(1, _core.available_cores() // (threads * plan.ranks))


def _part(text: str) -> tuple[int, int]:
    first, slash, count = text.partition("/")
    if not (slash and first.isdecimal() and count.isdecimal() and int(first) < int(count)):
        raise InvalidArgumentError(f"--part {text}: expected K/N with K from 0 to N - 1")
    return int(first), int(count)
