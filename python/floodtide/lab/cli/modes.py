# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab modes`."""

from __future__ import annotations

from pathlib import Path

import click

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_PATH, metavar="RUN...")
@click.option(
    "--out", type=_PATH, default=Path("modes.svg"), show_default=True, help="The picture."
)
def command(runs: tuple[Path, ...], out: Path) -> None:
    """Draw trainings that differ in comm.mode: loss against updates and against time, and staleness of gradients.

    An update of a synchronous run has the gradients of all ranks, one of an asynchronous run those of one rank.
    Staleness: updates between the parameters that a gradient was computed from and the update that it went into.

    Example: floodtide lab modes runs/modes/synchronous runs/modes/asynchronous --out modes.svg
    """
    from floodtide.lab.modes import draw

    draw(runs, out)
    click.echo(str(out))
