# SPDX-License-Identifier: Apache-2.0
"""`floodtide report`: write one HTML file about one or several training runs."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="HTML file to write; default: report.html in the first RUN.",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path),
    help="Also write the curves as SVG files to this folder.",
)
def command(runs: tuple[Path, ...], out: Path | None, figures: Path | None) -> None:
    """Write a report about the run directories RUN...: figures, tables and pictures in one HTML file.

    The name of a configuration means its run directory (run.dir).

    Several runs are shown in the same figures and compared: throughput, loss and validation against time, and time to
    reach a loss. A browser can show the file without an internet connection.

    \b
    Example:
      floodtide report runs/fib25 runs/fib25-sqrt --out compare.html
    """
    from floodtide import config, report
    from floodtide.base import reading

    folders = [
        Path(config.load(run).run.dir) if run.suffix == ".toml" and reading.exists(run) else run
        for run in runs
    ]
    click.echo(str(report.write(folders, out, figures)))
