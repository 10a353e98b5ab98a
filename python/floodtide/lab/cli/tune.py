# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab tune`."""

from __future__ import annotations

from typing import Any

import click

from floodtide.cli.options import filled, of_fields, overrides, rows_as_json
from floodtide.errors import UnsupportedError
from floodtide.lab.cli.columns import print_columns
from floodtide.lab.tune.search import Options, tuned

_FORMATS = {
    **dict.fromkeys(("ranks", "threads", "walkers", "wait"), ""),
    "fovs_per_s": ".4g",
    "spread": ".1%",
    "rounds": "",
    "share_of_best": ".3f",
}


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@overrides
@of_fields(Options)
@rows_as_json
def command(file: str, overrides: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Find the fastest ranks x threads on this machine for the flood-filling network of CONFIG.toml.

    Measures complete training steps on a synthetic volume: ranks, threads of a rank, and what idle threads do
    (OMP_WAIT_POLICY). All settings have the same number of walkers in a step, because this number changes the training.
    The last rows show the chosen setting with 2 and 4 times as many. Prints a table, and the command that trains under
    the chosen setting.

    \b
    Columns:
      ranks, threads, walkers   of the host; of a rank; of a rank
      fovs_per_s                fields of view per second of the host, in the fastest round
      spread, rounds            1 - slowest round / fastest round; number of rounds
      share_of_best             fovs_per_s / that of the fastest setting

    Example: floodtide lab tune fib25.toml
    """
    from floodtide.base.progress import bar
    from floodtide.comm.launching import launcher

    if launcher() is not None:
        raise UnsupportedError(
            "tune: runs under mpiexec, expected to start ranks itself; leave mpiexec out"
        )
    with bar("measurements", "tune") as progress:
        choice, rows = tuned(file, overrides, filled(Options, options), progress)
    print_columns(rows, as_json, _FORMATS)
    if not as_json:
        click.echo(f"{choice.setting}: {choice.reason}")
        click.echo(choice.setting.command(file))
