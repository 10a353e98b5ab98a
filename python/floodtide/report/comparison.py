# SPDX-License-Identifier: Apache-2.0
"""Comparison of runs: throughput, time to a loss and outcome of each run; loss and validation against time.

If a rank has several walkers, the training equals that of as many ranks, but its time does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from floodtide.base import style
from floodtide.base.tasks import Task
from floodtide.report import curves
from floodtide.report.drawing import Floats, curve
from floodtide.report.tables import Table, text
from floodtide.train.recorded_run import Run

# Failures of a training whose loss is not finite.
_NOT_FINITE = re.compile(r"not finite|the loss is -?(nan|inf)")
_RISE = 0.5  # a run diverges if it loses this share of its decrease in loss again
_RISE_LEAST = 0.05  # share of the first loss; smaller rises are noise


def loss_curve(run: Run) -> tuple[Floats, Floats, Floats]:
    """Return seconds since the start, logged losses and smoothed losses of a run, each (n,), up to the first NaN."""
    time_s, logged = curves.column(run.train, "loss", "time_s")
    finite = np.isfinite(logged)
    end = len(finite) if finite.all() else int(np.argmin(finite))
    return time_s[:end], logged[:end], curves.smoothed(logged[:end])


def rate_per_s(run: Run) -> float | None:
    """Return the median throughput of all ranks together, in units per second, without the first record (start-up)."""
    _, values = curves.column(run.train, f"{run.unit}_per_s")
    if not values.size:
        return None
    return float(np.median(values[1:] if values.size > 1 else values))


def divergence(run: Run) -> str:
    """Return a text that says how a run diverged, or "" if it did not.

    A run diverged if its loss is not finite; or if the mean loss over the last tenth of the records exceeds the lowest
    smoothed loss by at least half of the decrease until then, and by at least a twentieth of the first loss.
    """
    if _NOT_FINITE.search(run.failure):
        return f"diverged: {run.failure}"
    for record in run.train:
        if isinstance(record.get("loss"), float) and not np.isfinite(record["loss"]):
            return f"diverged: loss is not finite at step {record['step']}"
    _, logged, smooth = loss_curve(run)
    if smooth.size < 3:
        return ""
    first, lowest = float(logged[0]), float(smooth.min())
    last = float(logged[-max(1, logged.size // 10) :].mean())
    if last - lowest > max(_RISE * (first - lowest), _RISE_LEAST * abs(first)):
        return f"diverged: loss rose from {lowest:.3g} to {last:.3g}"
    return ""


def outcome(run: Run) -> str:
    """Return a text about the outcome of a run."""
    if diverged := divergence(run):
        return diverged
    if run.failure:
        return f"failed: {run.failure}"
    last = run.train[-1]["step"] if run.train else 0
    steps = run.total
    if not steps or last >= steps:
        return "all steps"
    return f"ended at step {last:,} of {steps:,}{run.cut_short}"


def lowest_common(runs: Sequence[Run]) -> list[float]:
    """Return the lowest smoothed loss that all converged runs reached; empty without converged runs."""
    lowest = [
        float(smooth.min())
        for run in runs
        if (smooth := loss_curve(run)[2]).size and not divergence(run)
    ]
    return [max(lowest)] if lowest else []


def time_to(run: Run, loss: float) -> float | None:
    """Return the seconds until the smoothed loss of a run is at most `loss`; None if this never happens."""
    time_s, _, smooth = loss_curve(run)
    reached = np.flatnonzero(smooth <= loss)
    return float(time_s[reached[0]]) if reached.size else None


def scores(task: type[Task], record: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the main score of a validation record, and that of a trivial prediction, means of the outputs.

    Outputs without a score are left out; None without any.
    """
    rows = [row for row in task.scores_of(record) if row[0] is not None]
    if not rows:
        return None, None
    own, trivial = np.mean(np.array(rows, dtype=np.float64), axis=0).tolist()
    return own, trivial


def comparable(runs: Sequence[Run]) -> bool:
    """Return True if there are several runs and their tasks have the same score."""
    return len(runs) > 1 and len({run.task.score_name for run in runs}) == 1


def comparison_table(runs: Sequence[Run], losses: Sequence[float]) -> Table | None:
    """Return a table with one row for each run: walkers, speed, time to each loss, last validation and outcome.

    Args:
        runs: The runs. If they are not comparable, there is no table.
        losses: Smoothed losses; empty: the lowest one that all converged runs reached.
    """
    if not comparable(runs):
        return None
    losses = losses or lowest_common(runs)
    seconds, unit = _time_unit(runs)
    head = (
        "",
        "walkers",
        "ranks",
        f"{curves.unit_name(runs)} / s",
        *(f"to loss {loss:.3g} ({unit})" for loss in losses),
        "lowest loss",
        runs[0].task.score_name,
        "outcome",
    )
    rows = []
    for run in sorted(runs, key=lambda run: (run.walkers, run.ranks)):
        smooth = loss_curve(run)[2]
        times = [time_to(run, loss) for loss in losses]
        cells = (
            run.walkers,
            run.ranks,
            rate_per_s(run),
            *("not reached" if time is None else f"{time / seconds:.3g}" for time in times),
            float(smooth.min()) if smooth.size else None,
            scores(run.task, run.validation[-1])[0] if run.validation else None,
            outcome(run),
        )
        rows.append((run.name, *map(text, cells)))
    return Table(head, tuple(rows))


@curve
def by_time_figure(runs: Sequence[Run]) -> str | None:
    """Draw training loss and validation score against time. A cross ends a run that diverged.

    Return an SVG as data URI, or None for a single run, runs of several tasks, or runs without a training record.
    """
    if not comparable(runs) or not any(run.train for run in runs):
        return None
    seconds, unit = _time_unit(runs)
    with style.figure(10.5, 4.2) as drawn:
        training, validation = drawn.subplots(1, 2, sharex=True)
        for index, run in enumerate(runs):
            look = style.series_look(style.series_colour(index))
            time_s, logged, smooth = loss_curve(run)
            curves.plot_smoothed(training, time_s / seconds, logged, look["color"])
            if time_s.size and divergence(run):
                cross = {"color": look["color"], "marker": "x", "ms": 9.0, "mew": 2.5}
                training.plot(time_s[-1] / seconds, smooth[-1], **cross)
            points = [{**record, "score": scores(run.task, record)[0]} for record in run.validation]
            time_s, values = curves.column(points, "score", "time_s")
            validation.plot(time_s / seconds, values, **look)
        for axis, name in (
            (training, curves.loss_name(runs)),
            (validation, runs[0].task.score_name),
        ):
            curves.finish(axis, name)
            axis.set_xlabel(f"time ({unit})")
        if all((loss_curve(run)[1] > 0).all() for run in runs):
            curves.logarithmic(training)
        curves.legend(drawn, runs, runs)
        return style.data_uri(drawn, "svg")


def _time_unit(runs: Sequence[Run]) -> tuple[float, str]:
    """Return (seconds of a unit of time, its name) for a unit that suits the longest run."""
    return curves.time_unit(
        max((run.train[-1].get("time_s", 0.0) for run in runs if run.train), default=0.0)
    )
