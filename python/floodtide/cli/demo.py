# SPDX-License-Identifier: Apache-2.0
"""`floodtide demo`: the whole of floodtide on a synthetic volume, in a few minutes."""

from __future__ import annotations

from pathlib import Path

import click

from floodtide import limits
from floodtide.cli import options as shared


@click.command()
@click.option("--out", default="runs/demo", show_default=True, help="Run directory.")
@click.option(
    "--steps",
    default=7200,
    type=shared.Number(limits.UPDATES),
    show_default=True,
    help="Optimizer updates.",
)
@click.option(
    "--seed",
    default=1,
    type=shared.Number(limits.FILE_SEED),
    show_default=True,
    help="Seed of volume, weights and examples.",
)
def command(out: str, steps: int, seed: int) -> None:
    """Make a synthetic EM volume, train a small network on it, segment held-out voxels, score and report.

    \b
    Example:
      mpiexec -n 2 floodtide demo --out runs/demo
    """
    from floodtide.demo import run

    shared.require_same_arguments()
    report = run(Path(out), steps=steps, seed=seed)
    if report is not None:
        click.echo(f"report: {report}")
