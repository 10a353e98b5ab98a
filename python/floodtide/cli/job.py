# SPDX-License-Identifier: Apache-2.0
"""`floodtide job slurm` and `floodtide job pbs`: batch scripts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.base.files import replace_text, require_utf8
from floodtide.base.openmp import WAITING
from floodtide.base.outputs import WAIT_S, files_named, reserved, unchecked
from floodtide.cli import options as shared


@click.group()
def command() -> None:
    """Write a batch script that trains the network of CONFIG.toml, in as many jobs as the training needs.

    With --array, CONFIG.toml is a sweep, and the tasks of a job array run its trainings.

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
                help="Number of ranks on each node; use one for each socket or NUMA domain.  [default: that of "
                "--tuned, else 1]",
            ),
            click.option(
                "--tuned",
                metavar="FILE",
                help="Use the ranks, threads, cores and waiting policy that `floodtide tune` has found on such a node.",
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
            click.option(
                "--array",
                type=shared.Number(limits.COUNT),
                help="The file is a sweep: number of tasks of a job array that share its trainings, each on one node.",
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
      floodtide job slurm rates.toml --array 16 --nodes 1 --time 06:00:00
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
    ranks_per_node: int | None,
    cores_per_node: int | None,
    tuned: str | None,
    array: int | None,
    scheduler_options: tuple[str, ...],
    out: str | None,
    force: bool,
    **numbers: Any,
) -> None:
    from floodtide import config, sweep
    from floodtide.errors import InvalidArgumentError, StorageError
    from floodtide.job import Job, parse_time, render, render_sweep

    target = Path(out or f"{Path(file).stem}.{scheduler}")
    for name in (file, str(target)):  # the script holds both names
        require_utf8(name, "the name of a file in a batch script")
    common: dict[str, Any] = {"time_s": parse_time(time), "options": scheduler_options, **numbers}
    if array:
        _require_no_training_options()
        inputs: list[str | os.PathLike[str]] = [file, sweep.load(file).file]
        job = Job(array=array, cores_per_node=cores_per_node or 0, **common)
        text = render_sweep(scheduler, job, file, str(target))
        what = f"{count_of(array, 'task')} of 1 node each"
    else:
        keys, found = _of_tuned(tuned, ranks_per_node, cores_per_node)
        settings = config.load(file, [*keys, *overrides])
        job = Job(**found, **common)
        text = render(scheduler, job, settings, file, overrides, str(target))
        inputs = [file, job.tuned, *files_named(config.to_dict(settings))]
        threads = f" of {count_of(job.threads, 'thread')}" if job.threads else ""
        what = f"{count_of(job.ranks, 'rank')}{threads} on {count_of(job.nodes, 'node')}"
    if target.exists() and not force:
        raise InvalidArgumentError(
            f"{target} exists, expected a new name (--out) or --force to replace it"
        )
    with reserved("job", target, unchecked, [*inputs, job.environment], wait_s=WAIT_S):
        replace_text(target, text)
        try:
            target.chmod(0o755)
        except OSError as error:
            raise StorageError(f"{target}: cannot be made executable: {error.strerror}") from None
    click.echo(f"{target}: {what}; submit it from this folder: {submit} {shlex.quote(str(target))}")


def _require_no_training_options() -> None:
    """Check that no option is given that only jobs of one training have.

    Raises:
        UsageError: If there is one.
    """
    context = click.get_current_context()
    for name in ("tuned", "ranks_per_node", "max_jobs", "launcher", "overrides"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = "set" if name == "overrides" else name.replace("_", "-")
            raise click.UsageError(f"--{option} has no meaning for a sweep (--array)")


def _of_tuned(
    tuned: str | None, ranks_per_node: int | None, cores_per_node: int | None
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return keys of the configuration and values of the job, from the file of `floodtide tune` if there is one.

    Raises:
        InvalidArgumentError: If the file is for another number of ranks than `ranks_per_node`.
    """
    from floodtide.errors import InvalidArgumentError
    from floodtide.tune import read_tuned

    if not tuned:
        return (), {"ranks_per_node": ranks_per_node or 1, "cores_per_node": cores_per_node or 0}
    found = read_tuned(tuned)
    one = found.setting
    if ranks_per_node not in (None, one.ranks):
        raise InvalidArgumentError(
            f"--ranks-per-node is {ranks_per_node} and {tuned} is for {one.ranks}, expected one of the two"
        )
    return found.overrides, {
        "ranks_per_node": one.ranks,
        "cores_per_node": cores_per_node or one.ranks * one.threads,
        "tuned": tuned,
        "waiting": WAITING[one.wait],
    }
