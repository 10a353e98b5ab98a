# SPDX-License-Identifier: Apache-2.0
"""`floodtide report`: write one HTML file about one or several training runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from floodtide.report.sweeps.cells import Averaging


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
    help="Also write the curves as SVG files to this folder; for sweeps all figures as PNG and SVG, and tables as CSV.",
)
@click.option(
    "--loss",
    "losses",
    metavar="LOSS,...",
    help="Training losses for the table of times that the runs need to reach a loss; default: chosen from the runs.",
)
@click.option(
    "--score",
    default="",
    help="Sweeps: score that compares the trainings, such as accuracy or f1; default: average_precision (flood-filling "
    "networks and patches) or dice.",
)
@click.option(
    "--target",
    "targets",
    metavar="LOW[,HIGH]",
    help="Sweeps: scores for the figures of updates and time to a score; default: chosen from the trainings.",
)
@click.option(
    "--network",
    default="10gbe",
    show_default=True,
    help="Sweeps: network of the forecast times, as for `floodtide simulate`.",
)
def command(
    runs: tuple[Path, ...],
    out: Path | None,
    figures: Path | None,
    losses: str | None,
    score: str,
    targets: str | None,
    network: str,
) -> None:
    """Write a report about the run directories RUN...: figures, tables and pictures in one HTML file.

    Several runs are shown in the same figures and compared: speed-up by number of workers, loss and validation against
    time, and time to reach a loss. A browser can show the file without an internet connection.

    If a RUN is the directory of a sweep, the report compares all trainings by learning rate and number of workers: the
    best rates, and updates, examples and time to a score.

    \b
    Example:
      floodtide report runs/fib25 runs/fib25-sqrt --out compare.html
      floodtide report runs/liver-1 runs/liver-2 runs/liver-4 --loss 0.25,0.24
      floodtide report runs/study/adam runs/study/momentum --figures figures
    """
    from floodtide import report

    if not any(report.is_sweep(folder) for folder in runs):
        for name, given in (("score", score), ("target", targets)):
            if given:
                raise click.UsageError(f"--{name} is for sweeps, and no RUN is a sweep")
        click.echo(str(report.write(runs, out, figures, _numbers("loss", losses))))
        return
    if losses is not None:
        raise click.UsageError("--loss is for runs, and a RUN is a sweep; expected --target")
    at = _numbers("target", targets)
    if len(at) > 2 or sorted(set(at)) != at:
        raise click.UsageError(f"--target '{targets}': expected LOW or LOW,HIGH in ascending order")

    from floodtide import simulate

    if network not in simulate.NETWORKS:
        raise click.UsageError(
            f"--network '{network}': expected one of {', '.join(simulate.NETWORKS)}"
        )

    def forecast(folder: Path, ranks: Sequence[int], way: Averaging) -> dict[int, float]:
        return simulate.forecast_update_s(folder, ranks, network, way.mode, way.share)

    path = report.write_sweep(
        runs, out, figures, score=score, at=at, forecast=forecast, network=network
    )
    click.echo(str(path))


def _numbers(option: str, text: str | None) -> list[float]:
    if text is None:
        return []
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(math.isfinite(number) for number in numbers):
        raise click.UsageError(f"--{option} '{text}': expected numbers, for example 0.25,0.24")
    return numbers
