# SPDX-License-Identifier: Apache-2.0
"""The paper's figure 4: scores over learning rate and walkers, relative to the best of the same number of walkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floodtide.base import style
from floodtide.lab.study import looks
from floodtide.lab.study.optimum import Optima
from floodtide.lab.study.scores import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINEAR, _ROOT = "#0072B2", "#D55E00"  # blue and red, as in the paper
_LIGHT = 0.6  # relative colour from which text is dark
_DARKEST = 0.9  # relative score with the darkest colour; lower ones have the same


def draw(drawn: Figure, results: Sequence[Optima], noise_scale: float | None) -> None:
    """Draw one panel for each line of the study.

    Args:
        drawn: The figure.
        results: The best rates of each line, at least one.
        noise_scale: Measured gradient noise scale in units per walker; None: not measured.
    """
    axes = drawn.subplots(1, len(results), squeeze=False)[0]
    for axis, found in zip(axes, results, strict=True):
        _panel(axis, found, noise_scale)
    looks.legend_below(drawn, axes[0])


def _panel(axis: Axes, found: Optima, noise_scale: float | None) -> None:
    line = found.line
    x, y = np.log2(np.array(line.walkers)), np.log2(np.array(line.rates))
    relative = found.means / np.nanmax(
        np.where(np.isfinite(found.means).any(axis=0), found.means, 1.0), axis=0
    )
    half = 0.5 * min(np.diff(x), default=1.0)  # of the width of a column
    mesh: Any = None
    for place, scores in zip(x, relative.T, strict=True):
        sides = [place - half, place + half]
        colours: Any = {"cmap": "cividis", "vmin": _DARKEST, "vmax": 1.0}
        mesh = axis.pcolormesh(sides, _edges(y), scores[:, None], **colours)
    key = axis.figure.colorbar(mesh, ax=axis, extend="min", shrink=0.85)
    key.set_label(f"score / best of the column ({_DARKEST:.2f} and less: darkest)")
    right = 0.6 * half  # rates are drawn beside the numbers of the cells
    _rules(axis, found, (x[-1] + half - right, right), noise_scale)
    _best(axis, found, right)
    _texts(axis, found, relative, mesh, half)
    axis.set_title(f"{style.plain(line.label)}: the best rates are yellow")
    axis.set_xlabel("walkers")
    axis.set_ylabel("learning rate")
    axis.set_xticks(x, [str(n) for n in line.walkers])
    axis.set_yticks(y, [f"{rate:g}" for rate in line.rates])
    axis.set_xlim(x[0] - half, x[-1] + half)
    axis.set_ylim(_edges(y)[0], _edges(y)[-1])
    axis.grid(False)


def _edges(middles: Floats) -> Floats:
    """Return the edges (n + 1,) of cells about (n,) values."""
    if middles.size == 1:
        return np.array([middles[0] - 0.5, middles[0] + 0.5])
    between = (middles[1:] + middles[:-1]) / 2.0
    return np.concatenate(
        [[2.0 * middles[0] - between[0]], between, [2.0 * middles[-1] - between[-1]]]
    )


def _texts(axis: Axes, found: Optima, relative: Floats, mesh: Any, half: float) -> None:
    from matplotlib.patheffects import withStroke

    line, edges = found.line, _edges(np.log2(np.array(found.line.rates)))
    for row, rate in enumerate(line.rates):
        for column, walkers in enumerate(line.walkers):
            cell = line.cell(walkers, rate)
            value = relative[row, column]
            text, dark = "", True
            if np.isfinite(value):
                text, dark = f"{value:.3f}", mesh.norm(value) > _LIGHT
            elif any(one.diverged for one in cell):
                text = "diverged"
            elif any(one.given_up for one in cell):
                text = "stopped\nearly"
            elif cell:
                text = "unfinished"
            shown = axis.text(
                np.log2(walkers) - 0.94 * half,
                edges[row] + 0.06 * (edges[row + 1] - edges[row]),
                text,
                ha="left",
                va="bottom",
                fontsize=7.0,
                color="black" if dark else "white",
                zorder=4,
            )
            around = mesh.cmap(mesh.norm(value)) if np.isfinite(value) else "white"
            shown.set_path_effects([withStroke(linewidth=2.5, foreground=around)])


def _rules(
    axis: Axes, found: Optima, places: tuple[float, float], noise_scale: float | None
) -> None:
    """Draw the rules from the best rate of the fewest walkers.

    Args:
        places: log2 of the last number of walkers, and how far to the right the lines are drawn.
    """
    if not found.best:
        return
    first = found.best[0]
    last, right = places
    fine = np.linspace(np.log2(first.walkers), last, 100)
    start, more, x = np.log2(first.rate), fine - np.log2(first.walkers), fine + right
    axis.plot(x, start + more, color=_LINEAR, label="linear rule")
    axis.plot(x, start + 0.5 * more, color=_ROOT, ls="--", label="square-root rule")
    if noise_scale:
        growth = np.log2(1.0 + noise_scale / first.walkers) - np.log2(1.0 + noise_scale / 2**fine)
        name = f"predicted from a noise scale of {noise_scale:.0f}"
        axis.plot(x, start + growth, color="white", lw=3.0)
        axis.plot(x, start + growth, color="black", ls=":", label=name)


def _best(axis: Axes, found: Optima, right: float) -> None:
    """Draw the best rates with their intervals at the right of each column; a triangle points beyond the grid."""
    for one in found.best:
        x, y = np.log2(one.walkers) + right, np.log2(one.rate)
        marker = {"lowest": "v", "highest": "^"}.get(one.at_edge, "o")
        low, high = np.log2(one.low), np.log2(one.high)
        axis.plot([x, x], [low, high], color="white", lw=4.0, solid_capstyle="butt")
        axis.plot([x, x], [low, high], color="black", lw=2.0, solid_capstyle="butt")
        axis.plot(x, y, marker=marker, ms=7.0, mfc="white", mec="black", mew=1.5, ls="")
    axis.plot(
        [],
        [],
        marker="o",
        mfc="white",
        mec="black",
        color="black",
        label="best rate, 95 % interval",
    )
    if any(one.at_edge for one in found.best):
        axis.plot(
            [],
            [],
            marker="^",
            mfc="white",
            mec="black",
            ls="",
            label="best at the edge of the grid",
        )
