# SPDX-License-Identifier: Apache-2.0
"""`floodtide fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from floodtide.fetch.fetching import DATA_SETS, fetch
from floodtide.segment.trained import data_folder


@click.command()
@click.argument(
    "name", type=click.Choice(tuple(DATA_SETS)), metavar=f"[{'|'.join(DATA_SETS)}]", required=False
)
@click.option(
    "--from",
    "origin",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Read the files from here instead of their public origin: prepared files, or clones of the repositories.",
)
def command(name: str | None, origin: Path | None) -> None:
    """Bring a public data set, or the published network, to the data folder; without a name, list them.

    The folder is $FLOODTIDE_DATA, else ~/.local/share/floodtide. Other commands look for data there.

    Every file is compared with a checksum. Sources, licences and attribution are written beside the files. A file that
    is there already is kept. Without a network, `--from` reads the same files from a folder.

    \b
    Example:
      floodtide fetch fib25
      floodtide fetch fib25 --from /mnt/stick/floodtide-data
    """
    from floodtide.base.progress import bar

    if name is None:
        for key, row in DATA_SETS.items():
            click.echo(f"{key:8} {row.summary}")
        return
    folder = data_folder()
    with bar("files", f"fetch {name}", line_every_s=10.0) as progress:
        paths = fetch(name, DATA_SETS[name], folder, origin, progress)
    for path in paths:
        click.echo(str(path))
