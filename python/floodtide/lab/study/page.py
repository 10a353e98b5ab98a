# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep: figures 3 to 6 of the paper, updates to a score, and tables, from run directories alone."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from floodtide import __version__
from floodtide.base import limits, style
from floodtide.base.files import make_folder
from floodtide.base.options import option
from floodtide.errors import InvalidArgumentError
from floodtide.lab.simulate import NETWORKS, forecast_update_s
from floodtide.lab.study import (
    curves_figure,
    grid_figure,
    numbers,
    optimum,
    targets,
    workers_figures,
)
from floodtide.lab.study.cells import Averaging, Line, Study, Training, read_study
from floodtide.lab.study.curves_figure import Curve
from floodtide.lab.study.optimum import Optima
from floodtide.lab.study.pace import Forecast, Pace, pace_of
from floodtide.lab.study.scores import Score, scores_of
from floodtide.lab.study.targets import Reached
from floodtide.report import pages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PNG_DPI = 150
_PANEL_IN = 5.4  # width of a panel of the grid
_NOISE_FROM = 0.5  # the noise scale is the median from this share of the training on


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything that the figures and tables of a study show."""

    study: Study
    score: Score
    scores: tuple[Score, ...]
    found: tuple[Optima, ...]
    targets: tuple[float, ...]
    bridge: int
    reached: dict[Line, list[Reached]]
    pace: Pace
    network: str
    noise_scale: float | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the report compares, and where it is written."""

    out: Path | None = option(None, "HTML file to write.  [default: report.html in the first RUN]")
    figures: Path | None = option(
        None, "Also write all figures as PNG and SVG, and tables as CSV, to this folder"
    )
    score: str = option(
        "",
        "Score that compares the trainings, such as accuracy or f1.  [default: the main score of the task]",
    )
    target: tuple[float, ...] = option(
        (),
        "Scores LOW[,HIGH] for the figures of updates and time to a score.  [default: chosen from the trainings]",
        range=limits.FRACTION,
    )
    network: str = option(
        "10gbe",
        "Network of the forecast times, as for `floodtide lab simulate`",
        choices=tuple(NETWORKS),
    )


def write(folders: Sequence[Path], options: Options) -> Path:
    """Write `report.html` about the trainings of one or several sweeps.

    Args:
        folders: Directories of sweeps, or run directories.
        options: What the report compares, and where it is written.

    Returns:
        The path of the report.

    Raises:
        InvalidFileError: If a folder holds no validated training, or a malformed one.
        InvalidArgumentError: If there is no such score, if the targets are not one or two in ascending order, or if an
            existing file is not an older report or figure.
        StorageError: If a file cannot be written.
    """
    at, network, figures = options.target, options.network, options.figures
    if len(at) > 2 or sorted(set(at)) != list(at):
        raise InvalidArgumentError(
            f"--target {','.join(map(str, at))}: expected LOW or LOW,HIGH in ascending order"
        )

    def forecast(folder: Path, ranks: Sequence[int], way: Averaging) -> dict[int, float]:
        return forecast_update_s(folder, ranks, network, way.share)

    results = evaluate(read_study(folders), options.score, at, forecast, network)
    drawings = _drawings(results)
    target = options.out or folders[0] / "report.html"
    pictures: dict[str, str] = {}
    outputs: dict[Path, bytes] = {}
    for name, (size, draw) in drawings.items():
        with style.figure(*size) as drawn:
            draw(drawn)
            svg = style.rendered(drawn, "svg")
            pictures[name] = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
            if figures:
                outputs[figures / f"{name}.svg"] = svg
                outputs[figures / f"{name}.png"] = style.rendered(drawn, "png", _PNG_DPI)
    tables = _tables(results)
    if figures:
        make_folder(figures)
        outputs |= {figures / f"{name}.csv": text for name, text in _csv(results, tables).items()}
    outputs[target] = _render(results, pictures, tables).encode()
    inputs = [path for one in results.study.trainings for path in pages.inputs(one.run)]
    pages.write_all(outputs, inputs)
    return target


def evaluate(
    study: Study,
    score: str = "",
    at: Sequence[float] = (),
    forecast: Forecast | None = None,
    network: str = "",
) -> Results:
    """Return the best rates, the updates to the targets and the pace of a study.

    Raises:
        InvalidArgumentError: If there is no such score.
    """
    scores = scores_of(study.task)
    names = [one.name for one in scores]
    if score and score not in names:
        raise InvalidArgumentError(f"report: score '{score}', expected one of {', '.join(names)}")
    chosen = scores[names.index(score)] if score else scores[0]
    grids = [line for line in study.lines if line.is_grid]
    automatic, bridge = targets.choose(grids, chosen)
    wanted = tuple(at) or automatic
    if at:
        bridge = _bridge(grids) if len(at) > 1 else 0
    return Results(
        study=study,
        score=chosen,
        scores=scores,
        found=tuple(optimum.optima(line, chosen, line.step) for line in grids),
        targets=wanted,
        bridge=bridge,
        reached={
            line: [row for one in wanted for row in targets.reached(line, chosen, one)]
            for line in grids
        },
        pace=pace_of(study, forecast),
        network=network,
        noise_scale=_noise_scale(study),
    )


def _bridge(grids: Sequence[Line]) -> int:
    counts = sorted({n for line in grids for n in line.workers})
    return counts[len(counts) // 2] if counts else 0


def _noise_scale(study: Study) -> float | None:
    """Return the median of the measured noise scales of all trainings in the second half of their updates."""
    values = []
    for training in study.trainings:
        last = training.last_step
        values += [
            record["noise_scale"]
            for record in training.run.train
            if record.get("noise_scale", 0.0) > 0 and record["step"] >= _NOISE_FROM * last
        ]
    return float(np.median(values)) if values else None


def _drawings(
    results: Results,
) -> dict[str, tuple[tuple[float, float], Callable[[Figure], None]]]:
    """Return the figures that the trainings have data for: {name: (size in inches, function that draws)}."""
    unit, pace = results.study.unit, results.pace
    drawings: dict[str, tuple[tuple[float, float], Callable[[Figure], None]]] = {}
    if len(pace.workers) > 1 and (pace.measured or pace.one_rank):
        drawings["throughput"] = (
            (5.8, 4.2),
            lambda drawn: workers_figures.throughput(drawn, pace, unit, results.network),
        )
    if results.found:
        drawings["rate_by_workers"] = (
            (_PANEL_IN * len(results.found), 4.6),
            lambda drawn: grid_figure.draw(drawn, results.found, results.noise_scale),
        )
    reached = {line: rows for line, rows in results.reached.items() if len(rows) > 1}
    if reached:
        speeds = {
            line.label: workers_figures.speed_up(line, rows, pace, results.bridge)
            for line, rows in reached.items()
        }
        speeds = {label: values for label, values in speeds.items() if len(values) > 1}
        if speeds:
            drawings["time_to_score"] = (
                (5.8, 4.4),
                lambda drawn: workers_figures.time_to_score(
                    drawn, speeds, results.targets, results.bridge
                ),
            )
        drawings["updates_to_score"] = (
            (10.5, 4.4),
            lambda drawn: workers_figures.to_target(drawn, reached, unit, results.score.title),
        )
    curves = _curves(results)
    if curves:
        shown = results.scores[1:] or results.scores
        drawings["scores_by_time"] = (
            (10.5 if len(shown) > 1 else 5.8, 6.4 if len(shown) > 1 else 4.2),
            lambda drawn: curves_figure.draw(drawn, curves, shown),
        )
    return drawings


def _curves(results: Results) -> list[Curve]:
    """Return the best cells of the fewest and of the most workers of each line."""
    curves = []
    for found in results.found:
        ends = [found.best[0], found.best[-1]] if len(found.best) > 1 else list(found.best)
        for one in ends:
            step_s = results.pace.seconds(found.line, one.workers)
            cell = found.line.cell(one.workers, one.cell)
            if step_s:
                curves.append(
                    Curve(label=_curve_label(found, one, cell), trainings=cell, step_s=step_s)
                )
    return curves


def _curve_label(found: Optima, one: optimum.Best, cell: Sequence[Training]) -> str:
    workers = f"{one.workers} worker{'s' if one.workers > 1 else ''}"
    seeds = f"{len(cell)} seed{'s' if len(cell) > 1 else ''}"
    return f"{found.line.label}, {workers}, rate {one.cell:g} ({seeds})"


def _tables(results: Results) -> dict[str, Any]:
    return {
        "best_rates": numbers.best_table(results.found),
        "exponents": numbers.growth_table(results.found),
        "crossover": numbers.crossover_table(results.found),
        "updates_to_score": numbers.target_table(results.reached, results.pace),
        "settings": numbers.settings_table(results.study),
    }


def _csv(results: Results, tables: Mapping[str, Any]) -> dict[str, bytes]:
    return {
        "trainings": numbers.cells_csv(results.study, results.scores, results.targets),
        "curves": numbers.curves_csv(results.study, results.scores),
        "throughput": numbers.throughput_csv(results.pace),
        **{name: numbers.table_csv(table) for name, table in tables.items()},
    }


def _render(results: Results, pictures: Mapping[str, str], tables: Mapping[str, Any]) -> str:
    trainings = results.study.trainings
    record = next((t.run.validation[-1] for t in trainings if t.run.validation), {})
    return pages.render(
        "sweep.html",
        folder="lab/study/templates",
        version=__version__,
        title=f"{len(trainings)} trainings",
        results=results,
        figures=pictures,
        tables=tables,
        trivial=results.score.trivial(record),
        emulated=sum(training.run.emulated for training in trainings),
        diverged=sum(training.diverged for training in trainings),
        given_up=sum(training.given_up for training in trainings),
        network=results.network if results.pace.forecast else "",
    )
