# SPDX-License-Identifier: Apache-2.0
"""`floodtide job slurm` and `floodtide job pbs`: batch scripts."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from floodtide.base import limits
from floodtide.base.files import replace_text, require_utf8
from floodtide.base.outputs import WAIT_S, files_named, reserved, unchecked
from floodtide.cli import options as shared


@click.group()
def command() -> None:
    """Write a batch script that trains the network of CONFIG.toml, in as many jobs as the training needs.

    The script assigns cores to each rank, sets the environment and stops the training with a checkpoint before the time
    limit. It submits itself again until all training steps are done. docs/clusters.md explains the script.

    \b
    Example:
      floodtide job slurm fib25.toml --nodes 64 --time 06:00:00 --environment env.tar.gz
      sbatch fib25.slurm
    """


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        [
            click.argument("file", metavar="CONFIG.toml"),
            shared.overrides,
            click.option(
                "--nodes",
                type=shared.Number(limits.COUNT),
                required=True,
                help="Number of nodes.",
            ),
            click.option(
                "--time", required=True, help="Time limit of one job, HH:MM:SS or D-HH:MM:SS."
            ),
            click.option(
                "--ranks-per-node",
                type=shared.Number(limits.RANKS),
                default=1,
                show_default=True,
                help="Number of ranks on each node; use one for each socket or NUMA domain.",
            ),
            click.option(
                "--cores-per-node",
                type=shared.Number(limits.COUNT),
                help="Cores of a node, divided among its ranks [default, Slurm only: the job counts them].",
            ),
            click.option(
                "--margin",
                "margin_s",
                type=shared.Number(limits.COUNT),
                default=120,
                show_default=True,
                help="Seconds before the time limit at which the training writes a checkpoint and stops.",
            ),
            click.option(
                "--max-jobs",
                type=shared.Number(limits.COUNT),
                default=20,
                show_default=True,
                help="Maximum number of jobs in sequence; 1: the script does not submit itself again.",
            ),
            click.option("--name", default="", help="Name of the job [default: floodtide-CONFIG]."),
            click.option(
                "--environment",
                default="",
                metavar="PATH",
                help="Python environment with floodtide: a folder, an archive (.tar.gz, ...) that each node unpacks, "
                "or an Apptainer image (.sif, ...) [default: floodtide is on the path].",
            ),
            click.option(
                "--launcher",
                default="",
                metavar="COMMAND",
                help="Command that starts the ranks, with its options [default: srun, mpiexec].",
            ),
            click.option(
                "--option",
                "scheduler_options",
                multiple=True,
                metavar="TEXT",
                help="Option of the scheduler, such as --partition=long. Can be given several times.",
            ),
            click.option(
                "--setup",
                multiple=True,
                metavar="LINE",
                help="Shell command to run before the training, such as 'module load mpich'. Can be given several "
                "times.",
            ),
            click.option("--out", help="Script to write [default: CONFIG.slurm or CONFIG.pbs]."),
            click.option("--force", is_flag=True, help="Replace an existing script."),
        ]
    ):
        function = option(function)
    return function


@command.command()
@_options
def slurm(**options: Any) -> None:
    """Write a script for Slurm's sbatch.

    \b
    Example:
      floodtide job slurm fib25.toml --nodes 64 --time 06:00:00
    """
    _write("slurm", "sbatch", **options)


@command.command()
@_options
def pbs(**options: Any) -> None:
    """Write a script for PBS's qsub.

    \b
    Example:
      floodtide job pbs fib25.toml --nodes 64 --cores-per-node 64 --time 06:00:00
    """
    _write("pbs", "qsub", **options)


def _write(
    scheduler: str,
    submit: str,
    *,
    file: str,
    overrides: tuple[str, ...],
    time: str,
    cores_per_node: int | None,
    scheduler_options: tuple[str, ...],
    out: str | None,
    force: bool,
    **numbers: Any,
) -> None:
    from floodtide import config
    from floodtide.errors import InvalidArgumentError, StorageError
    from floodtide.job import Job, parse_time, render

    settings = config.load(file, overrides)
    job = Job(
        time_s=parse_time(time),
        cores_per_node=cores_per_node or 0,
        options=scheduler_options,
        **numbers,
    )
    target = Path(out or f"{Path(file).stem}.{scheduler}")
    for name in (file, str(target)):  # the script holds both names
        require_utf8(name, "the name of a file in a batch script")
    text = render(scheduler, job, settings, file, overrides, str(target))
    if target.exists() and not force:
        raise InvalidArgumentError(
            f"{target} exists, expected a new name (--out) or --force to replace it"
        )
    inputs = [file, job.environment, *files_named(config.to_dict(settings))]
    with reserved("job", target, unchecked, inputs, wait_s=WAIT_S):
        replace_text(target, text)
        try:
            target.chmod(0o755)
        except OSError as error:
            raise StorageError(f"{target}: cannot be made executable: {error.strerror}") from None
    threads = f" of {job.threads} threads" if job.threads else ""
    click.echo(
        f"{target}: {job.ranks} ranks{threads} on {job.nodes} nodes; submit it from this folder: {submit} "
        f"{shlex.quote(str(target))}"
    )
