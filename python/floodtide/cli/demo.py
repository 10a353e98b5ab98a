# SPDX-License-Identifier: Apache-2.0
"""`floodtide demo`."""

from __future__ import annotations

from pathlib import Path

import click

from floodtide.base import limits
from floodtide.cli import options as shared


@click.command()
@click.option("--out", default="runs/demo", show_default=True, help="Run directory.")
@shared.number("--steps", limits.STEPS, "Number of training steps.", default=7200)
@shared.number("--seed", limits.FILE_SEED, "Seed of volume, weights and examples.", default=1)
def command(out: str, steps: int, seed: int) -> None:
    """Make a synthetic EM volume, train a small network on it, segment a held-out part, and report the scores.

    \b
    Example:
      mpiexec -n 2 floodtide demo --out runs/demo
    """
    from floodtide.cli import demonstration

    shared.require_same_arguments()
    if (page := demonstration.run(Path(out), steps=steps, seed=seed)) is not None:
        click.echo(f"report: {page}")
