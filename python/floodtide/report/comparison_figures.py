# SPDX-License-Identifier: Apache-2.0
"""Figures of several runs: speed-up by workers, training loss and validation against time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floodtide.base import style
from floodtide.report import comparison, curves
from floodtide.report.comparison import Repeats
from floodtide.report.curves import Floats
from floodtide.train.recorded_run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Share = Callable[[Run], float]

_LOGARITHMIC = 4.0  # minimum ratio of the longest and the shortest run for a logarithmic time axis
_MEASURED = "measured wall time"
_PERFECT = "time of W workers at perfect efficiency (computed)"


def speed_figure(runs: Sequence[Run]) -> str | None:
    """Return a figure of the speed-up of an epoch against workers, with the ideal line. SVG as data URI.

    None if all runs have the same number of workers. Runs with one rank for each worker are filled circles with their
    efficiency. Emulated runs are hollow squares.
    """
    pairs = zip(runs, comparison.speed_ups(runs), strict=True)
    points = [(run, speed) for run, speed in pairs if speed is not None]
    counts = sorted({run.workers for run, _ in points})
    if len(counts) < 2:
        return None
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    with style.figure(5.6, 4.2) as drawn:
        axis = drawn.subplots()
        base = counts[0]
        axis.plot(counts, [n / base for n in counts], color=style.GREY, ls="--", label="ideal")
        for emulated, marker, face, name in (
            (False, "o", style.SERIES[0], "a rank for each worker"),
            (True, "s", "white", "emulated: several workers on a rank"),
        ):
            here = [(run.workers, speed) for run, speed in points if run.emulated == emulated]
            if here:
                axis.plot(
                    [n for n, _ in here],
                    [speed for _, speed in here],
                    ls="",
                    marker=marker,
                    ms=7.0,
                    mfc=face,
                    mec=style.SERIES[0],
                    label=name,
                )
        for run, speed in points:
            if not run.emulated and run.workers > base:
                share = f"{100.0 * speed * base / run.workers:.0f} %"
                axis.annotate(
                    share, (run.workers, speed), (6, -10), textcoords="offset points", fontsize=8
                )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_formatter(ScalarFormatter())
            side.set_minor_locator(NullLocator())
        axis.xaxis.set_major_locator(FixedLocator(counts))
        axis.set_xlabel("workers")
        axis.set_ylabel(f"speed-up of an epoch over {base} worker{'s' if base > 1 else ''}")
        axis.legend(loc="upper left")
        return style.data_uri(drawn, "svg")


def loss_figure(runs: Sequence[Run]) -> str | None:
    """Return a figure of the training loss against time, or None without records. A cross ends diverged runs."""
    if not any(comparison.loss_curve(run).time_s.size for run in runs):
        return None

    def draw(axis: Axes, group: Repeats, colour: str, share: Share, unit_s: float) -> None:
        for run in group.runs:
            curve = comparison.loss_curve(run)
            time = curve.time_s * share(run) / unit_s
            line = "--" if run.emulated else "-"
            curves.plot_smoothed(axis, time, curve.logged, colour, line)
            if comparison.divergence(run) and time.size:
                axis.plot(time[-1], curve.smoothed[-1], color=colour, marker="x", ms=9.0, mew=2.5)

    values = np.concatenate([comparison.loss_curve(run).logged for run in runs])
    return _against_time(runs, curves.loss_name(runs), draw, logarithmic=bool(values.min() > 0))


def validation_figure(runs: Sequence[Run]) -> str | None:
    """Return a figure of the validation score against time, or None without validation.

    For runs that differ only in their seeds: the mean, with a band of one standard deviation. For other runs, the band
    shows the middle half of the patients, if there are patients.
    """
    if not any(run.validation for run in runs):
        return None

    def draw(axis: Axes, group: Repeats, colour: str, share: Share, unit_s: float) -> None:
        time, mean, low, high = validation_band(group)
        time = time * share(group.runs[0]) / unit_s
        axis.fill_between(time, low, high, color=colour, alpha=0.15, lw=0)
        line = "--" if group.runs[0].emulated else "-"
        axis.plot(time, mean, ls=line, **style.series_look(colour))

    return _against_time(runs, comparison.SCORE_NAMES.get(runs[0].unit, "validation"), draw)


def validation_band(group: Repeats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return (seconds, mean, lower end, upper end) of a group's band at the steps that all its runs validated, (n,)."""
    records = [{int(r["step"]): r for r in run.validation} for run in group.runs]
    steps = sorted(set.intersection(*(set(by_step) for by_step in records)))
    rows = []
    for step in steps:
        here = [by_step[step] for by_step in records]
        scores = [
            comparison.score(record, run.unit) for record, run in zip(here, group.runs, strict=True)
        ]
        values = [value for value, _ in scores if value is not None]
        if len(values) < len(scores):
            continue
        mean = float(np.mean(values))
        low = high = mean
        if len(values) > 1:
            low, high = mean - float(np.std(values)), mean + float(np.std(values))
        elif scores[0][1].size:
            low, high = (float(v) for v in np.percentile(scores[0][1], (25, 75)))
        rows.append((float(np.mean([record["time_s"] for record in here])), mean, low, high))
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def _against_time(
    runs: Sequence[Run],
    name: str,
    draw: Callable[[Axes, Repeats, str, Share, float], None],
    *,
    logarithmic: bool = False,
) -> str:
    """Draw a panel against measured time, and for emulated workers a panel against time at perfect efficiency."""
    from matplotlib.ticker import FuncFormatter

    panels: list[tuple[str, Share]] = [(_MEASURED, lambda run: 1.0)]
    if any(run.emulated for run in runs):
        panels.append((_PERFECT, comparison.perfect_share))
    groups = comparison.groups(runs)
    unit_s, unit = comparison.time_unit(runs)
    with style.figure(5.4 * len(panels), 4.4) as drawn:
        axes = drawn.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (title, share) in zip(axes, panels, strict=True):
            for index, group in enumerate(groups):
                draw(axis, group, style.series_colour(index), share, unit_s)
            axis.set_title(title)
            ends_s = [share(run) * run.train[-1]["time_s"] for run in runs if run.train]
            if max(ends_s, default=0.0) > _LOGARITHMIC * min(ends_s, default=0.0) > 0.0:
                axis.set_xscale("log")
                axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_xlabel(f"time ({unit})")
            axis.margins(x=0.02)
            if logarithmic:
                curves.logarithmic(axis)
        axes[0].set_ylabel(name)
        _legend(drawn, groups)
        return style.data_uri(drawn, "svg")


def _legend(drawn: Any, groups: Sequence[Repeats]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            **style.series_look(style.series_colour(index)),
            ls="--" if group.runs[0].emulated else "-",
            label=style.plain(group.label),
        )
        for index, group in enumerate(groups)
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=2 if len(handles) > 1 else 1)
