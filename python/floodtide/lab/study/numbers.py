# SPDX-License-Identifier: Apache-2.0
"""Tables of a study, for the page and as comma-separated values."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

from floodtide.lab.study.cells import TRAINING, Line, Study, Training
from floodtide.lab.study.optimum import Exponent, Optima
from floodtide.lab.study.scores import Score
from floodtide.lab.study.targets import Reached, updates_to
from floodtide.report import tables

_SETTINGS = (
    ("Network", "model"),
    ("Training", "training"),
    ("Optimizer", "optimizer"),
    ("Schedule", "schedule"),
    ("Averaging of gradients", "comm"),
    ("Validation", "validation"),
)
_AXIS_KEYS = ("lr", "walkers")


def best_table(results: Sequence[Optima]) -> tables.Table:
    """Return the best rate for each line and number of walkers."""
    rows = []
    for found in results:
        for one in found.best:
            rate = "outside of the grid" if one.at_edge else f"{one.rate:.2g}"
            interval = "-" if one.at_edge else _interval(one.low, one.high, ".2g")
            note = f"{one.at_edge} rate of the grid: widen it" if one.at_edge else ""
            rows.append(
                (
                    found.line.label,
                    str(one.walkers),
                    f"{one.cell:g}",
                    rate,
                    interval,
                    f"{one.value:.4f}",
                    str(one.seeds),
                    note,
                )
            )
    head = (
        "",
        "walkers",
        "best cell",
        "best rate",
        "95 % interval",
        "score of the cell",
        "seeds",
        "",
    )
    return tables.Table(head, tuple(rows))


def growth_table(results: Sequence[Optima]) -> tables.Table:
    """Return the exponents of each line over ranges of walkers."""
    rows = []
    for found in results:
        for one in found.growth:
            name = f"{one.first} to {one.last}"
            fits = [_exponent(one.weighted), _exponent(one.equal)]
            rows.append((found.line.label, name, *fits, one.verdict))
    head = ("", "walkers", "exponent, weighted", "exponent, equal weights", "both intervals say")
    return tables.Table(head, tuple(rows))


def crossover_table(results: Sequence[Optima]) -> tables.Table:
    """Return how well one exponent and a law with a knee fit the best rates of each line."""
    rows = []
    for found in results:
        one = found.crossover
        if one is None:
            continue
        high = "no bound" if math.isinf(one.high) else f"{one.high:.0f}"
        low = "no bound" if one.low == 0 else f"{one.low:.2g}"
        knee = "cannot tell" if one.knee is None else f"{one.knee:.0f}"
        better = f"{100 * one.power_law:.0f} % of the samples"
        rows.append((found.line.label, f"{one.residuals:.2g}", better, knee, f"{low} to {high}"))
    head = (
        "",
        "squared residuals, knee / power law",
        "power law fits better in",
        "knee (walkers)",
        "95 % interval",
    )
    return tables.Table(head, tuple(rows))


def target_table(by_line: Mapping[Line, Sequence[Reached]]) -> tables.Table:
    """Return training steps and examples to each target."""
    rows = []
    for line, reached in by_line.items():
        for one in reached:
            examples = one.mean * one.examples_per_update
            rows.append(
                (
                    line.label,
                    f"{one.target:.3f}",
                    str(one.walkers),
                    f"{one.rate:g}" + (" (edge of the grid)" if one.at_edge else ""),
                    f"{one.mean:.0f} ± {one.deviation:.0f}",
                    f"{one.ratio:.2g} ({_interval(one.low, one.high, '.2g')})",
                    f"{examples:,.0f}",
                )
            )
    head = (
        "",
        "score",
        "walkers",
        "rate",
        "training steps",
        "training steps / fewest walkers (95 % interval)",
        "examples",
    )
    return tables.Table(head, tuple(rows))


def settings_table(study: Study) -> tables.Table:
    """Return the settings that all trainings share, by section, and those in which the lines differ."""
    runs = [training.run for training in study.trainings]
    first = runs[0]
    rows = []
    for title, section in _SETTINGS:
        values = first.config.get(section, {})
        shared = [
            f"{key} {value}"
            for key, value in values.items()
            if f"{section}.{key}" not in study.differing and key not in _AXIS_KEYS
        ]
        rows.append((title, ", ".join(shared)))
    names = {
        str(volume.get("name"))
        for run in runs
        for volume in run.config.get("data", {}).get("volumes", [])
    }
    seeds = sorted({training.seed for training in study.trainings})
    rows += [
        ("Data", ", ".join(sorted(names)) or "-"),
        ("Lines differ in", ", ".join(study.differing) or "nothing"),
        ("Seeds", ", ".join(map(str, seeds))),
        ("Trainings", str(len(runs))),
        ("Parameters", str(first.start.get("parameters", "-"))),
        ("Kernels", str(first.start.get("kernels", "-"))),
    ]
    return tables.Table(("", "shared by all trainings"), tuple(rows))


def cells_csv(study: Study, scores: Sequence[Score], targets: Sequence[float]) -> bytes:
    """Return one line of numbers for each training."""
    head = ["line", "walkers", "ranks", "rate", "seed", "state", "step"]
    head += [f"{score.name}_{what}" for score in scores for what in ("last", "smoothed")]
    head += [f"updates_to_{target:g}" for target in targets] + ["directory"]
    rows = []
    for line in study.lines:
        for one in line.trainings:
            row: list[object] = [line.label, one.walkers, one.run.ranks, one.rate, one.seed]
            row += [_state(one, line.step), one.last_step]
            for score in scores:
                last = score.of(one.run.validation[-1]) if one.run.validation else None
                row += [figure(last), figure(one.value(score, one.last_step))]
            row += [figure(updates_to(one, scores[0], target)) for target in targets]
            rows.append([*row, one.run.folder.name])
    return comma_separated(head, rows)


def curves_csv(study: Study, scores: Sequence[Score]) -> bytes:
    """Return the scores of each validation of each training, which `floodtide lab study` can read again.

    `trivial` is the first score of the trivial predictor.
    """
    rows = []
    for line in study.lines:
        for one in line.trainings:
            known: list[object] = [line.label, line.batch, one.walkers, one.run.ranks, one.rate]
            known += [one.seed, _state(one, line.step)]
            for record in one.run.validation:
                values = [scores[0].trivial(record), *(score.of(record) for score in scores)]
                rows.append([*known, record["step"], *map(figure, values)])
    return comma_separated([*TRAINING, "step", "trivial", *(score.name for score in scores)], rows)


def table_csv(table: tables.Table) -> bytes:
    """Return a table of the page as comma-separated values."""
    head = [table.head[0] or "line", *(name or "note" for name in table.head[1:])]
    return comma_separated(head, table.rows)


def _exponent(one: Exponent | None) -> str:
    return "-" if one is None else f"{one.alpha:.2f} ({_interval(one.low, one.high, '.2f')})"


def _interval(low: float, high: float, style: str) -> str:
    return f"{low:{style}} to {high:{style}}" if math.isfinite(low) else "unknown: one seed"


def _state(training: Training, step: int) -> str:
    if training.diverged:
        return "diverged"
    if training.given_up:
        return "stopped early"
    return "finished" if training.last_step >= step else "unfinished"


def figure(value: float | None) -> str:
    """Return a number as text for a table of numbers; empty for None and what is not finite."""
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"


def comma_separated(head: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """Return a head and rows as comma-separated values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue().encode()
