# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab progress`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from floodtide.cli.options import filled, of_fields
from floodtide.lab.study.progress import Options, write


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@of_fields(Options)
def command(runs: tuple[Path, ...], **options: Any) -> None:
    """Draw how the scores of flood-filling trainings grow with time, and the time to an F1 against walkers.

    RUN is a run directory, or a folder of run directories. Trainings that differ only in their seeds are drawn as mean
    and one standard deviation. All scores are of held-out data.

    Example: floodtide lab progress runs/seed-0 runs/seed-1 runs/seed-2 --out figures --target 0.85
    """
    for path in write(runs, filled(Options, options)):
        click.echo(str(path))
