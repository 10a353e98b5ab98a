# SPDX-License-Identifier: Apache-2.0
"""`floodtide report`: one HTML file about one or several runs."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write; default: report.html in the first RUN.",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path),
    help="Folder for the curves as SVG files, too.",
)
def command(runs: tuple[Path, ...], out: Path | None, figures: Path | None) -> None:
    """Write a report of run directories: figures, tables and pictures in one HTML file.

    Several runs are overlaid in the same figures. The file needs no network to be read.

    Example: floodtide report runs/fib25 runs/fib25-sqrt --out compare.html
    """
    from floodtide import report

    click.echo(str(report.write(runs, out, figures)))
