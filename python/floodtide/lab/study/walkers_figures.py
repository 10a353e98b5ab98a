# SPDX-License-Identifier: Apache-2.0
"""Figure of training steps and examples to a score against the number of walkers (Shallue et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from floodtide.base import style
from floodtide.lab.study import looks
from floodtide.lab.study.cells import Line
from floodtide.lab.study.targets import Reached
from floodtide.report import curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ByLine = Mapping[Line, Sequence[Reached]]


def to_target(drawn: Figure, by_line: ByLine, unit: str, score: str) -> None:
    """Draw training steps and examples to a score against walkers; bars are standard deviations over seeds."""
    steps, examples = drawn.subplots(1, 2)
    for index, (line, rows) in enumerate(by_line.items()):
        look = looks.line_style(index)
        beside = 2.0 ** (
            0.12 * (index - (len(by_line) - 1) / 2)
        )  # so that bars do not hide each other
        for target in sorted({row.target for row in rows}):
            here = [row for row in rows if row.target == target]
            counts = beside * np.array([row.walkers for row in here])
            mean = np.array([row.mean for row in here])
            error = np.array([row.deviation for row in here])
            name = f"{style.plain(line.label)}, score {target:.3f}"
            fill = {} if target == rows[0].target else {"mfc": "white"}
            steps.errorbar(counts, mean, error, capsize=3.0, label=name, **look, **fill)
            each = np.array([row.examples_per_update for row in here])
            examples.errorbar(counts, mean * each, error * each, capsize=3.0, **look, **fill)
    _ideal(steps, by_line)
    walkers = sorted({row.walkers for rows in by_line.values() for row in rows})
    for axis, title, unit_name in (
        (steps, f"Training steps to a score ({score})", "training steps, at the best rate"),
        (examples, "Examples to the same score", f"{curves.UNITS[unit]}, at the best rate"),
    ):
        walkers_axis(axis, walkers)
        axis.set_yscale("log")
        looks.plain_numbers(axis.yaxis)
        axis.set_title(title)
        axis.set_ylabel(unit_name)
    looks.legend_below(drawn, steps)


def _ideal(axis: Axes, by_line: ByLine) -> None:
    """Draw half the training steps for twice the walkers, from the first point of the first line."""
    rows = next((rows for rows in by_line.values() if rows), ())
    if rows:
        last = max(row.walkers for row in rows)
        ends = np.array([rows[0].walkers, last])
        values = rows[0].mean * rows[0].walkers / ends
        axis.plot(
            ends, values, color=style.GREY, ls=":", marker="", label="half for twice the walkers"
        )


def walkers_axis(axis: Axes, walkers: Sequence[int]) -> None:
    """Make the axis x of a panel that of numbers of walkers."""
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_locator(FixedLocator(list(walkers)))
    axis.set_xlabel("walkers")
