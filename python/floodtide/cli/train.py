# SPDX-License-Identifier: Apache-2.0
"""`floodtide train`."""

from __future__ import annotations

import os
import sys

import click

from floodtide import config
from floodtide.base.counts import count_of
from floodtide.cli import options as shared
from floodtide.cli.training_lines import TrainingLines
from floodtide.comm import world
from floodtide.errors import Interrupted, InvalidArgumentError, InvalidFileError
from floodtide.train.signals import second_interrupt_exits

FIRST = "floodtide train: interrupted: saving a checkpoint after this step; Ctrl-C again aborts\n"
SECOND = "floodtide train: aborted; the same command resumes from the newest checkpoint\n"


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@shared.overrides
@click.option("--box", help="Box of the first volume to train on, z0:z1,y0:y1,x0:x1 in voxels.")
@click.option(
    "--tuned",
    metavar="FILE",
    help="Use the threads, cores and waiting policy that `floodtide tune` has found. --set goes before the file.",
)
def command(file: str, overrides: tuple[str, ...], box: str | None, tuned: str | None) -> int:
    """Train the network that CONFIG.toml describes.

    If the run directory holds checkpoints, training resumes from the newest one.

    SIGTERM or SIGUSR1 stops the run after the current step, writes a checkpoint and exits with status 0. The first
    Ctrl-C does the same with exit status 130. A second Ctrl-C aborts at once.

    \b
    Example:
      mpiexec -n 2 floodtide train fib25.toml --set training.steps=5000
    """
    from floodtide.base.progress import bar
    from floodtide.train import Trainer

    if tuned:
        _wait_as(tuned)
    world.ensure_init()
    with world.agreed():
        extra = (f"data.volumes.0.box={box}",) if box else ()
        settings = config.load(file, [*(_tuned_keys(tuned) if tuned else ()), *overrides, *extra])
    trainer = Trainer.from_config(settings, callbacks=[TrainingLines()])
    speaks = world.rank() == 0
    status = 0
    with (
        bar("steps", "train", at_most_s=lambda: trainer.time_left_s) as progress,
        second_interrupt_exits(FIRST * speaks, SECOND * speaks),
    ):
        try:
            trainer.run(progress)
        except Interrupted as error:
            status = error.exit_status
    if trainer.complete and speaks:
        import shlex

        steps, run = settings.training.steps, settings.run.dir
        click.echo(
            f"the training is complete: {count_of(steps, 'step')}. Next: floodtide report {shlex.quote(run)}",
            err=True,
        )
    elif speaks:
        how = "with a checkpoint: the same command resumes from there"
        if trainer.given_up:
            how = "for good: a validation was no better than a trivial prediction (validation.give_up_after)"
        click.echo(
            f"stopped at step {trainer.steps_done} of {settings.training.steps} {how}", err=True
        )
    return status


def _wait_as(path: str) -> None:
    """Replace this process by one with the waiting policy of the file, because OpenMP reads it at the start.

    A file that cannot be read is left to `_tuned_keys`, which all ranks call after MPI's start.
    """
    from floodtide import tune

    try:
        wanted = tune.read_tuned(path).environment
    except InvalidFileError:
        return
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        command = [sys.executable, "-m", "floodtide", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | wanted)


def _tuned_keys(path: str) -> tuple[str, ...]:
    """Return the keys of the file, and check that it has the ranks of this host.

    Raises:
        InvalidFileError: If the file cannot be read.
        InvalidArgumentError: If this host has another number of ranks.
    """
    from floodtide import tune
    from floodtide.base import notes

    found, ranks = tune.read_tuned(path), world.places()[1]
    if ranks != found.setting.ranks:
        raise InvalidArgumentError(
            f"--tuned {path}: for {found.setting.ranks} ranks on a host, expected the {ranks} of this one"
        )
    if (difference := found.difference()) and world.rank() == 0:
        notes.show(f"--tuned {path}: {difference}")
    return found.overrides
