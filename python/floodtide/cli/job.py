# SPDX-License-Identifier: Apache-2.0
"""`floodtide job`: batch scripts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from floodtide.base.notes import count_of
from floodtide.cli import options as shared
from floodtide.job import SCHEDULERS, Job

_SUBMIT = {"slurm": "sbatch", "pbs": "qsub"}


@click.command()
@click.argument("scheduler", type=click.Choice(SCHEDULERS))
@click.argument("file", metavar="CONFIG.toml")
@shared.overrides
@shared.of_fields(Job)
@click.option("--out", help="Script to write [default: CONFIG.slurm or CONFIG.pbs].")
def command(
    scheduler: str, file: str, overrides: tuple[str, ...], out: str | None, **options: Any
) -> None:
    """Write a batch script that trains the network of CONFIG.toml, in as many jobs as the training needs.

    The script assigns cores to each rank, sets the environment and stops the training with a checkpoint before the time
    limit. It submits itself again until all training steps are done. docs/clusters.md explains the script.

    \b
    Example:
      floodtide job slurm fib25.toml --nodes 64 --time 06:00:00 --environment env.tar.gz
      sbatch fib25.slurm
    """
    from floodtide.job import write

    job = shared.filled(Job, options)
    target = Path(out or f"{Path(file).stem}.{scheduler}")
    write(scheduler, job, file, overrides, target)
    threads = f" of {count_of(job.threads, 'thread')}" if job.threads else ""
    what = f"{count_of(job.ranks, 'rank')}{threads} on {count_of(job.nodes, 'node')}"
    submit = f"{_SUBMIT[scheduler]} {shlex.quote(str(target))}"
    click.echo(f"{target}: {what}; submit it from this folder: {submit}")
