# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab study`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from floodtide.cli.options import filled, of_fields
from floodtide.lab.study.page import Options, write


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@of_fields(Options)
def command(runs: tuple[Path, ...], **options: Any) -> None:
    """Write a report about the trainings of sweeps: figures and tables in one HTML file.

    RUN is the directory of a sweep, or a run directory. The report compares all trainings by learning rate and number
    of walkers: the best rates, and training steps and examples to a score.

    Example: floodtide lab study runs/study/adam runs/study/momentum --figures figures
    """
    click.echo(str(write(runs, filled(Options, options))))
