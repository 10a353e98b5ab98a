# SPDX-License-Identifier: Apache-2.0
"""Comparison of runs: throughput, time to a loss and outcome of each run; loss and validation against time.

If a rank has several walkers, the training equals that of as many ranks, but its time does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from floodtide.base import style
from floodtide.base.tasks import Task
from floodtide.report import curves
from floodtide.report.drawing import Floats, curve
from floodtide.report.tables import Table, table_of
from floodtide.train.recorded_run import Run


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


def outcome(run: Run) -> str:
    """Return a text about the outcome of a run."""
    if run.failure:
        return f"failed: {run.failure}"
    last = run.train[-1]["step"] if run.train else 0
    steps = run.total
    if not steps or last >= steps:
        return "all steps"
    return f"ended at step {last:,} of {steps:,}{run.cut_short}"


def lowest_common(runs: Sequence[Run]) -> float | None:
    """Return the lowest smoothed loss that all runs with a logged loss reached; None without such runs."""
    smooth = [loss_curve(run)[2] for run in runs]
    return max((float(losses.min()) for losses in smooth if losses.size), default=None)


def time_to(run: Run, loss: float) -> float | None:
    """Return the seconds until the smoothed loss of a run is at most `loss`; None if this never happens."""
    time_s, _, smooth = loss_curve(run)
    return next(iter(time_s[smooth <= loss].tolist()), None)


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


def comparison_table(runs: Sequence[Run]) -> Table | None:
    """Return a table with one row for each run: walkers, speed, time to a loss, last validation and outcome.

    The loss is the lowest one that all runs reached. If the runs are not comparable, there is no table.
    """
    if not comparable(runs):
        return None
    loss = lowest_common(runs)
    seconds, unit = _time_unit(runs)
    rows = []
    for run in sorted(runs, key=lambda run: (run.walkers, run.ranks)):
        smooth = loss_curve(run)[2]
        time_s = None if loss is None else time_to(run, loss)
        reached = "not reached" if time_s is None else f"{time_s / seconds:.3g}"
        losses = (float(smooth.min()), float(smooth[-1])) if smooth.size else (None, None)
        score = scores(run.task, run.validation[-1])[0] if run.validation else None
        cells = (rate_per_s(run), None if loss is None else reached, *losses, score, outcome(run))
        rows.append((run.name, run.walkers, run.ranks, *cells))
    titles = (
        *("", "walkers", "ranks", f"{curves.unit_name(runs)} / s"),
        *(f"to loss {loss or 0:.3g} ({unit})", "lowest loss", "last loss"),
        *(runs[0].task.score_name, "outcome"),
    )
    return table_of(titles, rows)


@curve
def by_time_figure(runs: Sequence[Run]) -> str | None:
    """Draw training loss and validation score against time.

    Return an SVG as data URI, or None for a single run, runs of several tasks, or runs without a training record.
    """
    if not comparable(runs) or not any(run.train for run in runs):
        return None
    seconds, unit = _time_unit(runs)
    with style.figure(10.5, 4.2) as drawn:
        training, validation = drawn.subplots(1, 2, sharex=True)
        for run, colour in curves.coloured(runs):
            time_s, logged, _ = loss_curve(run)
            curves.plot_smoothed(training, time_s / seconds, logged, colour)
            points = [{**record, "score": scores(run.task, record)[0]} for record in run.validation]
            time_s, values = curves.column(points, "score", "time_s")
            validation.plot(time_s / seconds, values, **style.series_look(colour))
        names = curves.loss_name(runs), runs[0].task.score_name
        for axis, name in zip((training, validation), names, strict=True):
            curves.finish(axis, name)
            axis.set_xlabel(f"time ({unit})")
        if all((loss_curve(run)[1] > 0).all() for run in runs):
            curves.logarithmic(training)
        curves.legend(drawn, curves.coloured(runs))
        return style.data_uri(drawn, "svg")


def _time_unit(runs: Sequence[Run]) -> tuple[float, str]:
    """Return (seconds of a unit of time, its name) for a unit that suits the longest run."""
    return curves.time_unit(
        max((run.train[-1].get("time_s", 0.0) for run in runs if run.train), default=0.0)
    )
