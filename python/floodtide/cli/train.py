# SPDX-License-Identifier: Apache-2.0
"""`floodtide train`."""

from __future__ import annotations

import click

from floodtide import config
from floodtide.base.notes import count_of
from floodtide.cli import options as shared
from floodtide.cli.training_lines import TrainingLines, next_commands
from floodtide.comm import world
from floodtide.errors import Interrupted
from floodtide.train.signals import second_interrupt_exits

FIRST = "floodtide train: interrupted: saving a checkpoint after this step; Ctrl-C again aborts\n"
SECOND = "floodtide train: aborted; the same command resumes from the newest checkpoint\n"


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@shared.overrides
def command(file: str, overrides: tuple[str, ...]) -> int:
    """Train the network that CONFIG.toml describes.

    If the run directory holds checkpoints, training resumes from the newest one.

    SIGTERM or SIGUSR1 stops the run after the current step, writes a checkpoint and exits with status 0. The first
    Ctrl-C does the same with exit status 130. A second Ctrl-C aborts at once.

    \b
    Example:
      mpiexec -n 2 floodtide train fib25.toml --set training.steps=5000
    """
    from floodtide.train import Trainer

    world.current()
    with world.agreed():
        settings = config.load(file, overrides)
    trainer = Trainer.from_config(settings, callbacks=[TrainingLines()], progress=True)
    speaks = world.rank() == 0
    status = 0
    with second_interrupt_exits(FIRST * speaks, SECOND * speaks):
        try:
            trainer.run()
        except Interrupted as error:
            status = error.exit_status
    if trainer.complete and speaks:
        done = count_of(trainer.steps_done, "step")
        commands = next_commands(file, overrides, settings)
        click.echo(f"the training is complete: {done}. Next: {commands}", err=True)
    elif speaks:
        from floodtide.optim import advice

        unless = ", unless the data are used up" * (settings.training.on_exhausted != "cycle")
        how = f"with a checkpoint{advice.cut_short(trainer.lr_share)}: the same command resumes from there{unless}"
        if trainer.given_up:
            how = "for good: a validation was no better than a trivial prediction (validation.give_up_after)"
        total = trainer.config.training.total
        click.echo(f"stopped at step {trainer.steps_done} of {total} {how}", err=True)
    return status
