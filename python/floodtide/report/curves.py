# SPDX-License-Identifier: Apache-2.0
"""Training and validation curves of one or several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from floodtide.base import style
from floodtide.base.tasks import Task
from floodtide.report.drawing import Floats, curve
from floodtide.report.tables import METRICS, PARTS, TRIVIAL
from floodtide.train.recorded_run import Record, Run
from floodtide.train.run_directory import matthews

# Scores of METRICS that have a panel in the validation of flood filling.
_PANELS = [row for row in METRICS if row[0] in ("cross_entropy", "f1_50", "average_precision")]
UNITS = {"fovs": "fields of view", "patches": "patches"}
UNSMOOTHED = 60
"""Most values of a curve that are drawn as they are: their mean would hardly differ."""
_SMOOTHING = 0.9  # decay of the exponential mean that is drawn over many values, as in TensorBoard
_TIME_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))


def smoothed(values: Floats, factor: float | None = None) -> Floats:
    """Return the exponential mean of values (n,), corrected for its start, as TensorBoard draws it.

    Args:
        factor: Weight of the mean before. None: at most 0.9, and less for few values: up to thirty are unchanged.
    """
    if factor is None:
        factor = min(_SMOOTHING, max(0.0, 1.0 - 30.0 / max(len(values), 1)))
    result = np.empty_like(values)
    mean, weight = 0.0, 0.0
    for index, value in enumerate(values):
        mean = factor * mean + (1.0 - factor) * value
        weight = factor * weight + (1.0 - factor)
        result[index] = mean / weight
    return result


def plot_smoothed(axis: Axes, x: Floats, values: Floats, colour: str) -> None:
    """Draw values as a line; many values as a faint line, and their exponential mean as a strong one."""
    look = style.series_look(colour, len(x))
    if len(values) > UNSMOOTHED:
        axis.plot(x, values, color=colour, alpha=0.25, lw=0.8)
        values = smoothed(values)
    axis.plot(x, values, **look)


def coloured(runs: Sequence[Run]) -> list[tuple[Run, str]]:
    """Return each run with the colour of its curves."""
    return [(run, style.series_colour(index)) for index, run in enumerate(runs)]


def legend(drawn: Figure, shown: Sequence[tuple[Run, str]], *handles: Any) -> None:
    """Draw a legend below all panels: the handles, and the names of the runs if they are several."""
    if len(shown) > 1:
        handles += tuple(
            Line2D([], [], label=style.plain(run.name), **style.series_look(colour))
            for run, colour in shown
        )
    if handles:
        columns = min(len(handles), 6)
        drawn.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=4.0)


def _completed(drawn: Figure, axes: Any, shown: Sequence[tuple[Run, str]], *handles: Any) -> str:
    """Label steps below and times above the rows of panels, draw the legend, and return an SVG as data URI."""
    for axis in axes[-1]:
        axis.set_xlabel("training step")
    for axis in axes[0]:
        add_time_axis(axis, [run for run, _ in shown])
    legend(drawn, shown, *handles)
    return style.data_uri(drawn, "svg")


def grey_line(label: str, ls: str = "--") -> Line2D:
    """Return the line of a trivial predictor for a legend."""
    return Line2D([], [], color=style.GREY, ls=ls, lw=1.3, label=label)


def logarithmic(axis: Axes) -> None:
    """Make the axis y logarithmic, with plain numbers."""
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(ScalarFormatter())
    axis.yaxis.set_minor_formatter(ScalarFormatter())
    axis.tick_params(axis="y", which="minor", labelsize=7)


def column(records: Sequence[Record], key: str, against: str = "step") -> tuple[Floats, Floats]:
    """Return two keys of the records, each (n,): what it is drawn against, and a value. Others are skipped."""
    keys = (against, key)
    pairs = [
        [r[k] for k in keys]
        for r in records
        if all(isinstance(r.get(k), int | float) for k in keys)
    ]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def derived(run: Run) -> list[Record]:
    """Return the training records with `score` (Matthews correlation) and `rate` (units per second, all ranks).

    Waiting times become shares (%) of the time since the record before.
    """
    rows = []
    before_s = 0.0
    for record in run.train:
        row = {**record, "score": matthews(record), "rate": record.get(f"{run.unit}_per_s")}
        now_s = float(record.get("time_s", before_s))
        for key in ("wait_data_s", "wait_comm_s"):
            waited_s = row.pop(key, None)
            if isinstance(waited_s, int | float) and now_s > before_s:
                row[key] = 100.0 * waited_s / (now_s - before_s)
        before_s = now_s
        rows.append(row)
    return rows


@curve
def training_figure(runs: Sequence[Run]) -> str | None:
    """Draw loss, Matthews correlation, learning rate, throughput and waiting times of a training against the step.

    Return an SVG as data URI, or None if no run has a training record.
    """
    if not any(run.train for run in runs):
        return None
    names = {run.task.batch_name for run in runs}
    title = names.pop() if len(names) == 1 else Task.batch_name
    # Title, label, key of the values, and True if they are smoothed.
    panels = [
        ("Training loss", loss_name(runs), "loss", True),
        (title, "Matthews correlation (guessing: 0)", "score", True),
        ("Learning rate", "rate of a training step", "lr", False),
        ("Throughput", f"{unit_name(runs)} / s, all ranks", "rate", True),
        ("Waiting for data", "% of the time, mean of the ranks", "wait_data_s", False),
        ("Averaging gradients", "% of the time, waits included", "wait_comm_s", False),
    ]
    if all(run.ranks == 1 for run in runs):  # has nothing to average
        del panels[-1]
    with style.figure(10.5, 5.8) as drawn:
        axes = drawn.subplots(2, 3, sharex=True)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
            axes[0, 2].tick_params(labelbottom=True)
            axes[0, 2].set_xlabel("training step")
        series = [(derived(run), colour) for run, colour in coloured(runs)]
        for axis, (title, unit, key, smooth) in zip(axes.flat, panels, strict=False):
            for records, colour in series:
                steps, values = column(records, key)
                if smooth:
                    plot_smoothed(axis, steps, values, colour)
                else:
                    axis.plot(steps, values, **style.series_look(colour, len(steps)))
            finish(axis, title, unit)
            axis.set_ylim(bottom=0.0)
        loss, scores, *_ = axes.flat
        loss.autoscale(axis="y")
        if all((column(run.train, "loss")[1] > 0).all() for run in runs) and loss.lines:
            logarithmic(loss)
        scores.set_ylim(0.0, 1.02)
        return _completed(drawn, axes, coloured(runs))


@curve
def gradients_figure(runs: Sequence[Run]) -> str | None:
    """Draw the norm of the gradient, and the gradient noise scale with its 95 % interval, against the step.

    Return an SVG as data URI, or None if no run has measured the noise scale.
    """
    if not any("noise_scale" in record for run in runs for record in run.train):
        return None
    with style.figure(10.5, 3.4) as drawn:
        norm, noise = drawn.subplots(1, 2, sharex=True)
        for run, colour in coloured(runs):
            plot_smoothed(norm, *column(run.train, "gradient_norm"), colour)
            measured = [record for record in run.train if record.get("noise_scale", 0.0) > 0]
            if not measured:
                continue
            steps, values = column(measured, "noise_scale")
            noise.plot(steps, values, color=colour)
            low = np.maximum(column(measured, "noise_scale_low")[1], values.min() / 10)
            bounds = [record.get("noise_scale_high") for record in measured]
            top = 10 * max([*values, *(bound for bound in bounds if bound)])
            # Without a bound, the interval reaches the upper edge.
            high = [top if bound is None else bound for bound in bounds]
            noise.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        for axis, title, unit in (
            (norm, "Norm of the gradient", "before clipping"),
            (noise, "Gradient noise scale", f"{unit_name(runs)}, with 95 % interval"),
        ):
            axis.set_yscale("log")
            finish(axis, title, unit)
        if noise.collections:  # one range for all runs
            noise.autoscale(axis="y")
        return _completed(drawn, [(norm, noise)], coloured(runs))


def loss_name(runs: Sequence[Run]) -> str:
    """Return the name of the loss that the runs log."""
    names = set()
    terms = {"dice": "1 - soft Dice", "cross_entropy": "cross-entropy"}
    for run in runs:
        kind = str(run.config.get("training", {}).get("loss", "dice+cross_entropy"))
        parts = [terms.get(term, style.plain(term)) for term in kind.split("+")]
        names.add(run.task.loss_name or " + ".join(parts))
    return names.pop() if len(names) == 1 else "loss (not the same in all runs)"


def unit_name(runs: Sequence[Run]) -> str:
    """Return the name of the unit that the runs compute, such as "fields of view"."""
    return " or ".join(dict.fromkeys(UNITS[run.unit] for run in runs))


@curve
def validation_figure(runs: Sequence[Run]) -> str | None:
    """Draw validation curves of flood-filling networks and of trivial predictors; None without validation.

    Each part of the protocol (first pass, moves) has a row, each metric a column.
    """
    shown = _validated(runs, "first_pass")
    if not shown:
        return None
    last = shown[0][0].validation[-1]  # has the scores of the trivial predictors
    with style.figure(10.5, 5.6) as drawn:
        axes = drawn.subplots(len(PARTS), len(_PANELS), sharex=True)
        for row, (part, trivial, title) in zip(axes, PARTS, strict=True):
            for axis, (key, name, _) in zip(row, _PANELS, strict=True):
                for run, colour in shown:
                    points = [{"step": r["step"], **r.get(part, {})} for r in run.validation]
                    axis.plot(*column(points, key), **style.series_look(colour))
                for predictor, _, line in TRIVIAL:
                    value = last.get(trivial, {}).get(predictor, {}).get(key)
                    if isinstance(value, int | float):
                        axis.axhline(value, color=style.GREY, ls=line, lw=1.3)
                finish(axis, name)
            row[0].set_ylabel(title)
        lines = (grey_line(label, line) for _, label, line in TRIVIAL)
        return _completed(drawn, axes, shown, *lines)


def _validated(runs: Sequence[Run], key: str) -> list[tuple[Run, str]]:
    """Return the runs whose validations have a key, with their colours."""
    return [one for one in coloured(runs) if one[0].validation and key in one[0].validation[-1]]


def time_unit(longest_s: float) -> tuple[float, str]:
    """Return (seconds of a unit of time, its name) for times up to `longest_s`."""
    return next(unit for unit in _TIME_UNITS if longest_s >= 2 * unit[0] or unit[0] == 1)


def add_time_axis(axis: Axes, runs: Sequence[Run]) -> None:
    """Write round times above the panel, at their steps. Several runs have no common time: nothing is added."""
    if len(runs) != 1:
        return
    steps, times_s = column([*runs[0].train, *runs[0].validation], "time_s")
    if not steps.size:
        return
    order = np.argsort(steps, kind="stable")
    unit_s, unit = time_unit(float(times_s.max()))

    first, last = times_s.min() / unit_s, times_s.max() / unit_s
    times = [n for n in MaxNLocator(5).tick_values(first, last) if first <= n <= last]
    above = axis.secondary_xaxis("top")
    places = np.interp(np.array(times) * unit_s, times_s[order], steps[order])
    above.set_xticks(places, [f"{n:g}" for n in times])
    above.set_xlabel(f"time ({unit})", fontsize=8)
    above.tick_params(labelsize=8)
    above.spines["top"].set_visible(True)


def finish(axis: Axes, title: str = "", unit: str = "") -> None:
    """Set title, name of the values and ticks of a panel, and say so if it is empty."""
    axis.set_title(title)
    axis.set_ylabel(unit)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    if not axis.lines:
        axis.text(
            0.5, 0.5, "not in the log", transform=axis.transAxes, ha="center", color=style.GREY
        )
    axis.margins(x=0.02)


@curve
def dice_figure(runs: Sequence[Run]) -> str | None:
    """Draw, for each class, Dice over all voxels, and of several groups also their mean with its spread.

    Return an SVG as data URI, or None if no run validated classes.
    """
    shown = _validated(runs, "classes")
    if not shown:
        return None
    lasts = [run.validation[-1] for run, _ in shown]
    names = list(dict.fromkeys(row["name"] for last in lasts for row in last["classes"]))
    several = any(len(last["groups"]) > 1 for last in lasts)
    titles = ("All voxels pooled", "Mean of the groups")[: 1 + several]
    with style.figure(max(5.0 * len(titles), 7.0), 2.9 * len(names) + 0.5) as drawn:
        axes = drawn.subplots(len(names), len(titles), squeeze=False)
        for row, name in zip(axes, names, strict=True):
            for run, colour in shown:
                of_class = [
                    {"step": record["step"], **one}
                    for record in run.validation
                    for one in record["classes"]
                    if one["name"] == name
                ]
                if of_class:
                    _draw_dice(row, of_class, colour)
            for axis in row:
                axis.set_ylim(0.0, 1.02)
            row[0].set_ylabel(f"Dice, {style.plain(name)}")
        for axis, title in zip(axes[0], titles, strict=True):
            axis.set_title(title)
        band = Patch(color=style.SERIES[0], alpha=0.18, lw=0, label="band: half of the groups")
        handles = grey_line("everything is this class"), *[band][: int(several)]
        return _completed(drawn, axes, shown, *handles)


def _draw_dice(axes: Sequence[Axes], rows: Sequence[Record], colour: str) -> None:
    """Draw Dice over all voxels, and on a second panel the mean of the groups that have one, with half of them."""
    axes[0].plot(*column(rows, "dice_pooled"), **style.series_look(colour))
    axes[0].axhline(rows[-1]["dice_everything"], color=style.GREY, ls="--", lw=1.3)
    for axis in axes[1:]:
        groups = [(r["step"], [one for one in r["dice_groups"] if one is not None]) for r in rows]
        groups = [(step, values) for step, values in groups if values]
        steps = [step for step, _ in groups]
        low, high = ([np.percentile(v, share) for _, v in groups] for share in (25, 75))
        axis.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0)
        axis.plot(steps, [np.mean(v) for _, v in groups], **style.series_look(colour))


@curve
def scores_figure(runs: Sequence[Run]) -> str | None:
    """Draw the main score of outputs that are no classes: each faintly, and their mean; grey: of trivial predictions.

    Return an SVG as data URI, or None if no run has such scores.
    """
    validated = _validated(runs, "channels")
    shown = [one for one in validated if one[0].task.scores_of(one[0].validation[-1])]
    if not shown:
        return None
    names = list(dict.fromkeys(run.task.score_name for run, _ in shown))
    with style.figure(max(7.0, 5.2 * len(names)), 3.2) as drawn:
        axes = drawn.subplots(1, len(names), squeeze=False)[0]
        for run, colour in shown:
            axis = axes[names.index(run.task.score_name)]
            scores = [(record["step"], run.task.scores_of(record)) for record in run.validation]
            alike = [(step, rows) for step, rows in scores if len(rows) == len(scores[-1][1])]
            steps = [step for step, _ in alike]
            table = np.ma.masked_invalid(np.array([rows for _, rows in alike], dtype=np.float64))
            if table.shape[1] > 1:
                axis.plot(steps, table[..., 0], color=colour, alpha=0.25, lw=0.8)
            axis.plot(steps, table[..., 0].mean(axis=1), **style.series_look(colour))
            axis.axhline(float(table[-1, :, 1].mean()), color=style.GREY, ls="--", lw=1.3)
        for axis, name in zip(axes, names, strict=True):
            axis.set_ylabel(name)
            axis.set_ylim(min(axis.get_ylim()[0], 0.0), 1.02)
        return _completed(drawn, [axes], shown, grey_line("trivial prediction"))
