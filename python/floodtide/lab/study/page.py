# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep: figure 4 of the paper, training steps to a score, and tables, from run directories alone."""

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
from floodtide.lab.study import grid_figure, numbers, optimum, targets, walkers_figures
from floodtide.lab.study.cells import Line, Study, read_study
from floodtide.lab.study.optimum import Optima
from floodtide.lab.study.scores import Score, scores_of
from floodtide.lab.study.targets import Reached
from floodtide.report import page

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
    reached: dict[Line, list[Reached]]
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
        "Scores LOW[,HIGH] for the figure of steps and examples to a score.  [default: chosen from the trainings]",
        range=limits.FRACTION,
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
    at, figures = options.target, options.figures
    if len(at) > 2 or sorted(set(at)) != list(at):
        raise InvalidArgumentError(
            f"--target {','.join(map(str, at))}: expected LOW or LOW,HIGH in ascending order"
        )

    results = evaluate(read_study(folders), options.score, at)
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
    page.write_all(outputs)
    return target


def evaluate(study: Study, score: str = "", at: Sequence[float] = ()) -> Results:
    """Return the best rates and the training steps to the targets of a study.

    Raises:
        InvalidArgumentError: If there is no such score.
    """
    scores = scores_of(study.task)
    names = [one.name for one in scores]
    if score and score not in names:
        raise InvalidArgumentError(f"report: score '{score}', expected one of {', '.join(names)}")
    chosen = scores[names.index(score)] if score else scores[0]
    grids = [line for line in study.lines if line.is_grid]
    wanted = tuple(at) or targets.choose(grids, chosen)
    return Results(
        study=study,
        score=chosen,
        scores=scores,
        found=tuple(optimum.optima(line, chosen, line.step) for line in grids),
        targets=wanted,
        reached={
            line: [row for one in wanted for row in targets.reached(line, chosen, one)]
            for line in grids
        },
        noise_scale=_noise_scale(study),
    )


def _noise_scale(study: Study) -> float | None:
    """Return the median of the measured noise scales of all trainings in the second half of their training steps."""
    values = []
    for training in study.trainings:
        last = training.last_step
        values += [
            record["noise_scale"]
            for record in training.run.train
            if record.get("noise_scale", 0.0) > 0 and record["step"] >= _NOISE_FROM * last
        ]
    return float(np.median(values)) if values else None


def _drawings(results: Results) -> dict[str, tuple[tuple[float, float], Callable[[Figure], None]]]:
    """Return the figures that the trainings have data for: {name: (size in inches, function that draws)}."""
    drawings: dict[str, tuple[tuple[float, float], Callable[[Figure], None]]] = {}
    if results.found:
        drawings["rate_by_walkers"] = (
            (_PANEL_IN * len(results.found), 4.6),
            lambda drawn: grid_figure.draw(drawn, results.found, results.noise_scale),
        )
    reached = {line: rows for line, rows in results.reached.items() if len(rows) > 1}
    if reached:
        unit, title = results.study.unit, results.score.title
        drawings["updates_to_score"] = (
            (10.5, 4.4),
            lambda drawn: walkers_figures.to_target(drawn, reached, unit, title),
        )
    return drawings


def _tables(results: Results) -> dict[str, Any]:
    return {
        "best_rates": numbers.best_table(results.found),
        "exponents": numbers.growth_table(results.found),
        "crossover": numbers.crossover_table(results.found),
        "updates_to_score": numbers.target_table(results.reached),
        "settings": numbers.settings_table(results.study),
    }


def _csv(results: Results, tables: Mapping[str, Any]) -> dict[str, bytes]:
    return {
        "trainings": numbers.cells_csv(results.study, results.scores, results.targets),
        "curves": numbers.curves_csv(results.study, results.scores),
        **{name: numbers.table_csv(table) for name, table in tables.items()},
    }


def _render(results: Results, pictures: Mapping[str, str], tables: Mapping[str, Any]) -> str:
    trainings = results.study.trainings
    record = next((t.run.validation[-1] for t in trainings if t.run.validation), {})
    return page.render(
        "sweep.html",
        folder="lab/study/templates",
        version=__version__,
        title=f"{len(trainings)} trainings",
        results=results,
        figures=pictures,
        tables=tables,
        trivial=results.score.trivial(record),
        diverged=sum(training.diverged for training in trainings),
        given_up=sum(training.given_up for training in trainings),
    )
