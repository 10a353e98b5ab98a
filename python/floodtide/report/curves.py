# SPDX-License-Identifier: Apache-2.0
"""Training and validation curves of one or several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from floodtide.report import style
from floodtide.report.run import Record, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Key of the log, name in figures and tables, whether more is better.
METRICS: tuple[tuple[str, str, bool], ...] = (
    ("cross_entropy", "Cross-entropy", False),
    ("f1_50", "F1 at probability 0.5", True),
    ("f1_90", "F1 at probability 0.9", True),
    ("mcc_50", "Matthews correlation at 0.5", True),
    ("mcc_90", "Matthews correlation at 0.9", True),
    ("average_precision", "Average precision", True),
)
TRIVIAL: tuple[tuple[str, str, str], ...] = (
    ("all_object", "everything is object", "-."),
    ("best_constant", "best constant", ":"),
)
_SMOOTHING = 0.9  # of the exponential mean drawn over the raw loss, as TensorBoard's


def smoothed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Exponential mean with the start's bias removed. values, result: (n,)."""
    result = np.empty_like(values)
    mean, weight = 0.0, 0.0
    for index, value in enumerate(values):
        mean = _SMOOTHING * mean + (1.0 - _SMOOTHING) * value
        weight = _SMOOTHING * weight + (1.0 - _SMOOTHING)
        result[index] = mean / weight
    return result


def column(
    records: Sequence[Record], key: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Steps and values of one key, records without it left out."""
    pairs = [(r["step"], r[key]) for r in records if isinstance(r.get(key), int | float)]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def training_f1(record: Record) -> float | None:
    """F1 of the record's pooled voxel counts; None without counts or without any object voxel."""
    try:
        tp, fp, fn = (float(record[key]) for key in ("tp", "fp", "fn"))
    except (KeyError, TypeError):
        return None
    return 2.0 * tp / (2.0 * tp + fp + fn) if tp + fp + fn > 0 else None


def training_figure(runs: Sequence[Run]) -> str | None:
    """Loss, F1 on the network's own moves, learning rate, throughput and waits against the step.

    Returns:
        An SVG as data URI, or None if no run has a training record.
    """
    if not any(run.train for run in runs):
        return None
    panels: list[tuple[str, str, Callable[[Axes, Run, str], None]]] = [
        ("Training loss", "mean cross-entropy of a voxel", _draw_loss),
        ("F1 on the network's own moves", "F1 (drifts with the network)", _draw_f1),
        ("Learning rate", "rate of an update", _draw_key("lr")),
        ("Throughput", "fields of view / s, all ranks", _draw_key("fovs_per_s", smooth=True)),
        ("Waiting for data", "% of the time, mean of the ranks", _draw_share("wait_data_s")),
        ("Averaging gradients", "% of the time, waits included", _draw_share("wait_comm_s")),
    ]
    with style.figure(10.5, 5.8) as drawn:
        axes = drawn.subplots(2, 3, sharex=True)
        for axis, (title, unit, draw) in zip(axes.flat, panels, strict=True):
            for index, run in enumerate(runs):
                draw(axis, run, style.series_colour(index))
            axis.set_title(title)
            axis.set_ylabel(unit)
            _finish(axis)
        for axis in axes[-1]:
            axis.set_xlabel("step (optimizer updates)")
        _legend_runs(axes.flat[0], runs)
        return style.data_uri(drawn, "svg")


def validation_figure(runs: Sequence[Run]) -> str | None:
    """Validation curves beside the trivial predictors, one panel a metric; None without any."""
    if not any(run.validation for run in runs):
        return None
    with style.figure(10.5, 6.2) as drawn:
        axes = drawn.subplots(2, 3, sharex=True)
        for axis, (key, title, _) in zip(axes.flat, METRICS, strict=True):
            for index, run in enumerate(runs):
                _draw_validation(axis, run, key, style.series_colour(index))
            axis.set_title(title)
            _finish(axis)
        for axis in axes[-1]:
            axis.set_xlabel("step (optimizer updates)")
        _legend_validation(drawn, runs)
        return style.data_uri(drawn, "svg")


def _draw_loss(axis: Axes, run: Run, colour: str) -> None:
    from matplotlib.ticker import ScalarFormatter

    steps, values = column(run.train, "loss")
    axis.plot(steps, values, color=colour, alpha=0.25, lw=0.8)
    axis.plot(steps, smoothed(values), color=colour, label=run.name)
    if values.size and values.min() > 0:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(ScalarFormatter())
        axis.yaxis.set_minor_formatter(ScalarFormatter())
        axis.tick_params(axis="y", which="minor", labelsize=7)


def _draw_f1(axis: Axes, run: Run, colour: str) -> None:
    pairs = [(r["step"], f1) for r in run.train if (f1 := training_f1(r)) is not None]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    axis.plot(table[:, 0], table[:, 1], color=colour, alpha=0.25, lw=0.8)
    axis.plot(table[:, 0], smoothed(table[:, 1]), color=colour)
    axis.set_ylim(0.0, 1.02)


def _draw_key(key: str, smooth: bool = False) -> Callable[[Axes, Run, str], None]:
    def draw(axis: Axes, run: Run, colour: str) -> None:
        steps, values = column(run.train, key)
        if smooth:
            axis.plot(steps, values, color=colour, alpha=0.25, lw=0.8)
            values = smoothed(values)
        axis.plot(steps, values, color=colour)
        axis.set_ylim(bottom=0.0)

    return draw


def time_share(records: Sequence[Record], key: str) -> list[Record]:
    """Per record the share (%) that the seconds under `key` have of the time since the last one."""
    result = []
    before_s = 0.0
    for record in records:
        now_s = float(record.get("time_s", before_s))
        if isinstance(record.get(key), int | float) and now_s > before_s:
            result.append({"step": record["step"], key: 100.0 * record[key] / (now_s - before_s)})
        before_s = now_s
    return result


def _draw_share(key: str) -> Callable[[Axes, Run, str], None]:
    def draw(axis: Axes, run: Run, colour: str) -> None:
        steps, values = column(time_share(run.train, key), key)
        axis.plot(steps, values, color=colour)
        axis.set_ylim(bottom=0.0)

    return draw


def _draw_validation(axis: Axes, run: Run, key: str, colour: str) -> None:
    for part, line in (("first_pass", "--"), ("moves", "-")):
        points = [{"step": r["step"], **r[part]} for r in run.validation if part in r]
        steps, values = column(points, key)
        axis.plot(steps, values, color=colour, ls=line, marker="o", ms=3.5)
    if run.validation:
        for name, _, line in TRIVIAL:
            value = run.validation[-1].get("trivial", {}).get(name, {}).get(key)
            if isinstance(value, int | float):
                axis.axhline(value, color=style.GREY, ls=line, lw=1.2)


def _finish(axis: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    if not axis.lines:
        axis.text(
            0.5, 0.5, "not in the log", transform=axis.transAxes, ha="center", color=style.GREY
        )
    axis.margins(x=0.02)


def _legend_runs(axis: Axes, runs: Sequence[Run]) -> None:
    if len(runs) > 1:
        axis.legend(loc="upper right")


def _legend_validation(drawn: Any, runs: Sequence[Run]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=style.SERIES[0] if len(runs) == 1 else "black",
            ls=line,
            marker="o",
            ms=3.5,
            label=label,
        )
        for line, label in (("--", "first pass from a fresh seed"), ("-", "after the fixed moves"))
    ]
    handles += [
        Line2D([], [], color=style.GREY, ls=line, lw=1.2, label=label) for _, label, line in TRIVIAL
    ]
    if len(runs) > 1:
        handles += [
            Line2D([], [], color=style.series_colour(index), label=run.name)
            for index, run in enumerate(runs)
        ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
