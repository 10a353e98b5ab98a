# SPDX-License-Identifier: Apache-2.0
"""Figure of throughput and efficiency against the number of ranks, with the figures that the paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floodtide.base import style
from floodtide.lab.simulate import paper
from floodtide.lab.simulate.rows import STALL, STALL_PREFETCH, STRAGGLER, STRAGGLER_PARTIAL, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colour and line style of the paper's scenarios. An explanation and its remedy have the same colour.
_PAPER_LINES = {
    STALL: (style.SERIES[1], "-"),
    STALL_PREFETCH: (style.SERIES[1], "--"),
    STRAGGLER: (style.SERIES[3], "-"),
    STRAGGLER_PARTIAL: (style.SERIES[3], "--"),
}
# The paper's text gives only its largest run; smaller runs would show which explanation is right.
_TOLD_APART = (
    "The explanations differ for smaller runs.\n"
    "Stalls: little loss on few nodes, then a sharp drop,\n"
    "then constant. Stragglers: the loss keeps growing."
)
# Colours and markers of forecasts. The markers tell networks apart in grey print, too.
_OWN_LOOKS = (
    (style.SERIES[0], "o"),
    (style.SERIES[2], "s"),
    (style.SERIES[5], "^"),
    (style.SERIES[4], "D"),
)


def draw(rows: Sequence[Row], kind: str) -> bytes:
    """Return the picture of the rows as a file of kind "svg", "png" or "pdf".

    Stars are measured by the paper, on its nodes. Lines are computed by the model.
    """
    with style.figure(11.0, 4.8) as drawn:
        left, right = drawn.subplots(1, 2)
        _draw(left, right, rows)
        drawn.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return style.rendered(drawn, kind, dpi=130)


def _draw(left: Axes, right: Axes, rows: Sequence[Row]) -> None:
    series: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        series.setdefault((row.scenario, row.network), []).append(row)
    present = {scenario for scenario, _ in series}
    of_paper = not present.isdisjoint(_PAPER_LINES)
    if of_paper:
        _draw_anchors(left, right, max(row.ranks for row in rows))
    networks = list(dict.fromkeys(network for name, network in series if name not in _PAPER_LINES))
    for (scenario, network), points in series.items():
        is_paper = scenario in _PAPER_LINES
        if is_paper:
            colour, line = _PAPER_LINES[scenario]
            marker = "x" if scenario in (STRAGGLER, STRAGGLER_PARTIAL) else None
        else:
            colour, marker = _OWN_LOOKS[networks.index(network) % len(_OWN_LOOKS)]
            line = "-"
        _draw_series(left, right, points, color=colour, ls=line, marker=marker, ms=4.5)
        name = scenario if is_paper or network == "-" else f"{scenario}, {network}"
        left.lines[-1].set_label(name.replace("paper: ", "model: "))
    _finish(left, right, "nodes" if present <= set(_PAPER_LINES) else "ranks")
    if {STALL, STRAGGLER} <= present:
        right.text(0.03, 0.04, _TOLD_APART, transform=right.transAxes, color="#374151", va="bottom")


def _draw_series(left: Axes, right: Axes, points: Sequence[Row], **look: Any) -> None:
    if len(points) == 1:
        look["marker"] = look["marker"] or "o"
    ranks = [row.paid_ranks for row in points]
    left.plot(ranks, [row.fovs_per_s for row in points], **look)
    known = [row for row in points if row.paid_efficiency is not None]
    if known:
        shares = [100 * (row.paid_efficiency or 0.0) for row in known]
        right.plot([row.paid_ranks for row in known], shares, **look)


def _draw_anchors(left: Axes, right: Axes, most: int) -> None:
    """Draw the throughput and efficiency that the paper prints, and the line that the paper calls ideal."""
    ranks = np.array([1, max(most, paper.NODES)])
    left.plot(
        ranks,
        ranks / paper.ONE_NODE_STEP_S,
        color="black",
        ls=":",
        lw=1.0,
        zorder=2.5,
        label="ideal: one node times the number of nodes",
    )
    left.plot(
        [1, paper.NODES],
        [1 / paper.ONE_NODE_STEP_S, paper.FOVS_PER_S],
        color="black",
        ls="",
        marker="*",
        ms=9,
        label="measured by the paper (one node: derived)",
        zorder=3,
    )
    left.axhline(paper.FOVS_PER_S, color=style.GREY, lw=0.8)
    text = f"{paper.FOVS_PER_S:.0f}: the paper's largest run"
    left.text(1, paper.FOVS_PER_S, text, va="bottom", color="#374151")
    right.plot([paper.NODES], [100 * paper.EFFICIENCY], color="black", marker="*", ms=9, zorder=3)


def _finish(left: Axes, right: Axes, unit: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{unit}, backup {unit} included")
    left.set_yscale("log")
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.set_title("Throughput")
    left.set_ylabel("fields of view / s")
    right.set_title("Efficiency")
    right.set_ylabel(f"% of one {unit.removesuffix('s')} times the number of {unit}")
    lowest = min((float(np.min(line.get_ydata())) for line in right.lines), default=0.0)
    right.set_ylim(max(0.0, 10.0 * np.floor(lowest / 10.0 - 1.0)), 102.0)
