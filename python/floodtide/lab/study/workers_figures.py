# SPDX-License-Identifier: Apache-2.0
"""Figures against the number of workers: throughput (the paper's figure 3), time to a score (figure 5), updates and
examples to a score (Shallue et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from floodtide.base import style
from floodtide.lab.study import looks
from floodtide.lab.study.cells import Line
from floodtide.lab.study.pace import Pace
from floodtide.lab.study.targets import Reached
from floodtide.report import curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ByLine = Mapping[Line, Sequence[Reached]]


def throughput(drawn: Figure, pace: Pace, unit: str, network: str) -> None:
    """Draw the throughput against workers: measured, bound of the emulation, and forecast for a network."""
    axis = drawn.subplots()
    if pace.one_rank:
        bound = [pace.one_rank * n for n in pace.workers]
        axis.plot(
            pace.workers,
            bound,
            color=style.GREY,
            ls="--",
            marker="s",
            mfc="white",
            ms=5.0,
            label="emulated: one rank's computing x workers (ideal)",
        )
    if pace.forecast:
        axis.plot(
            list(pace.forecast),
            list(pace.forecast.values()),
            color=style.SERIES[1],
            ls="-.",
            marker="^",
            ms=5.0,
            label=f"forecast: one rank a node, network {network}",
        )
    if pace.measured:
        axis.plot(
            list(pace.measured),
            list(pace.measured.values()),
            color=style.SERIES[0],
            ls="",
            marker="o",
            ms=8.0,
            label="measured: a rank for each worker",
        )
    _workers_axis(axis, pace.workers)
    axis.set_yscale("log")
    looks.plain_numbers(axis.yaxis)
    axis.set_ylabel(f"{curves.UNITS[unit]} / s, all workers")
    axis.set_title("Throughput")
    axis.legend(loc="upper left")


def to_target(drawn: Figure, by_line: ByLine, unit: str, score: str) -> None:
    """Draw updates and examples to a score against workers; bars are standard deviations over seeds."""
    steps, examples = drawn.subplots(1, 2)
    for index, (line, rows) in enumerate(by_line.items()):
        look = looks.line_style(index)
        for target in sorted({row.target for row in rows}):
            here = [row for row in rows if row.target == target]
            counts = np.array([row.workers for row in here])
            mean = np.array([row.mean for row in here])
            error = np.array([row.deviation for row in here])
            name = f"{style.plain(line.label)}, {target:.3f}"
            fill = {} if target == rows[0].target else {"mfc": "white"}
            steps.errorbar(counts, mean, error, capsize=3.0, label=name, **look, **fill)
            each = np.array([row.examples_per_update for row in here])
            examples.errorbar(counts, mean * each, error * each, capsize=3.0, **look, **fill)
    _ideal(steps, by_line)
    workers = sorted({row.workers for rows in by_line.values() for row in rows})
    for axis, title, unit_name in (
        (steps, f"Updates to a score ({score})", "updates, at the best rate"),
        (examples, "Examples to the same score", f"{curves.UNITS[unit]}, at the best rate"),
    ):
        _workers_axis(axis, workers)
        axis.set_yscale("log")
        looks.plain_numbers(axis.yaxis)
        axis.set_title(title)
        axis.set_ylabel(unit_name)
    looks.legend_below(drawn, steps)


def _ideal(axis: Axes, by_line: ByLine) -> None:
    """Draw half the updates for twice the workers, from the first point of the first line."""
    rows = next((rows for rows in by_line.values() if rows), ())
    if rows:
        last = max(row.workers for row in rows)
        ends = np.array([rows[0].workers, last])
        values = rows[0].mean * rows[0].workers / ends
        axis.plot(
            ends, values, color=style.GREY, ls=":", marker="", label="half for twice the workers"
        )


def speed_up(line: Line, rows: Sequence[Reached], pace: Pace, bridge: int) -> dict[int, float]:
    """Return how many times faster than the fewest workers each number of workers reaches a score.

    With two targets, workers from the bridge on are compared by the high target, and the two parts meet at the bridge,
    as in the paper's figure 5.
    """
    targets = sorted({row.target for row in rows})
    seconds: list[dict[int, float]] = []
    for target in targets:
        part = {}
        for row in rows:
            update_s = pace.seconds(line, row.workers)
            if row.target == target and update_s:
                part[row.workers] = row.mean * update_s
        seconds.append(part)
    if not seconds or not seconds[0]:
        return {}
    low = seconds[0]
    base = low[min(low)]
    result = {n: base / s for n, s in low.items() if len(seconds) == 1 or n <= bridge}
    if len(seconds) > 1 and bridge in low and bridge in seconds[1]:
        high = seconds[1]
        result |= {n: result[bridge] * high[bridge] / s for n, s in high.items() if n > bridge}
    return result


def time_to_score(
    drawn: Figure, speeds: Mapping[str, Mapping[int, float]], targets: Sequence[float], bridge: int
) -> None:
    """Draw the speed-up to a score over the fewest workers, with the ideal line and the bridge."""
    axis = drawn.subplots()
    counts = sorted({n for values in speeds.values() for n in values})
    if counts:
        ideal = [n / counts[0] for n in counts]
        axis.plot(counts, ideal, color=style.GREY, ls="--", label="ideal")
    for index, (label, values) in enumerate(speeds.items()):
        axis.plot(
            list(values), list(values.values()), label=style.plain(label), **looks.line_style(index)
        )
        for n, speed in values.items():
            if n > counts[0]:
                share = f"{100.0 * speed * counts[0] / n:.0f} %"
                axis.annotate(share, (n, speed), (5, -11), textcoords="offset points", fontsize=7.5)
    if bridge:
        axis.axvline(bridge, color=style.GREY, ls=":", lw=1.2)
        text = f"score {targets[0]:.3f} up to here, {targets[1]:.3f} from here"
        axis.text(
            bridge, 1.02, text, transform=axis.get_xaxis_transform(), fontsize=7.5, ha="center"
        )
        axis.set_title("Time to a score\n")
    else:
        axis.set_title(f"Time to a score of {targets[0]:.3f}")
    _workers_axis(axis, counts)
    axis.set_yscale("log", base=2)
    looks.plain_numbers(axis.yaxis, base=2)
    axis.set_ylabel(f"times as fast as {counts[0]} worker{'s' if counts[0] > 1 else ''}")
    axis.legend(loc="upper left")


def _workers_axis(axis: Axes, workers: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_locator(FixedLocator(list(workers)))
    axis.set_xlabel("workers")
