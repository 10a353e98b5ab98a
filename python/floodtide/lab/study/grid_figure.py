# SPDX-License-Identifier: Apache-2.0
"""The paper's figure 4: scores over learning rate and workers, relative to the best of the same number of workers."""

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
        noise_scale: Measured gradient noise scale in units per worker; None: not measured.
    """
    axes = drawn.subplots(1, len(results), squeeze=False)[0]
    for axis, found in zip(axes, results, strict=True):
        _panel(axis, found, noise_scale)
    looks.legend_below(drawn, axes[0])


def _panel(axis: Axes, found: Optima, noise_scale: float | None) -> None:
    line = found.line
    x, y = np.log2(np.array(line.workers)), np.log2(np.array(line.rates))
    relative = found.means / np.nanmax(
        np.where(np.isfinite(found.means).any(axis=0), found.means, 1.0), axis=0
    )
    mesh: Any = axis.pcolormesh(
        _edges(x), _edges(y), relative, cmap="cividis", vmin=_DARKEST, vmax=1.0
    )
    colours = axis.figure.colorbar(mesh, ax=axis, extend="min", shrink=0.85)
    colours.set_label("score / best of the same number of workers")
    _texts(axis, found, relative, mesh)
    _rules(axis, found, x, noise_scale)
    _best(axis, found)
    axis.set_title(style.plain(line.label))
    axis.set_xlabel("workers")
    axis.set_ylabel("learning rate")
    axis.set_xticks(x, [str(n) for n in line.workers])
    axis.set_yticks(y, [f"{rate:g}" for rate in line.rates])
    axis.set_xlim(_edges(x)[0], _edges(x)[-1])
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


def _texts(axis: Axes, found: Optima, relative: Floats, mesh: Any) -> None:
    line, edges = found.line, _edges(np.log2(np.array(found.line.rates)))
    sides = _edges(np.log2(np.array(line.workers, dtype=np.float64)))
    for row, rate in enumerate(line.rates):
        for column, workers in enumerate(line.workers):
            cell = line.cell(workers, rate)
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
            # On the left, beside the interval of the best rate.
            axis.text(
                sides[column] + 0.03 * (sides[column + 1] - sides[column]),
                edges[row] + 0.06 * (edges[row + 1] - edges[row]),
                text,
                ha="left",
                va="bottom",
                fontsize=6.3,
                color="black" if dark else "white",
            )


def _rules(axis: Axes, found: Optima, x: Floats, noise_scale: float | None) -> None:
    """Draw the rules from the best rate of the fewest workers."""
    if not found.best:
        return
    first = found.best[0]
    fine = np.linspace(np.log2(first.workers), _edges(x)[-1], 100)
    start, more = np.log2(first.rate), fine - np.log2(first.workers)
    axis.plot(fine, start + more, color=_LINEAR, label="linear")
    axis.plot(fine, start + 0.5 * more, color=_ROOT, ls="--", label="square root")
    if noise_scale:
        growth = np.log2(1.0 + noise_scale / first.workers) - np.log2(1.0 + noise_scale / 2**fine)
        name = f"from the noise scale, {noise_scale:.0f}"
        axis.plot(fine, start + growth, color="white", lw=3.0)
        axis.plot(fine, start + growth, color="black", ls=":", label=name)


def _best(axis: Axes, found: Optima) -> None:
    """Draw the best rates with their intervals; a triangle points beyond the grid."""
    for one in found.best:
        x, y = np.log2(one.workers), np.log2(one.rate)
        marker = {"lowest": "v", "highest": "^"}.get(one.at_edge, "o")
        low, high = np.log2(one.low), np.log2(one.high)
        axis.plot([x, x], [low, high], color="white", lw=4.0, solid_capstyle="butt")
        axis.plot([x, x], [low, high], color="black", lw=2.0, solid_capstyle="butt")
        axis.plot(x, y, marker=marker, ms=7.0, mfc="white", mec="black", mew=1.5, ls="")
    axis.plot(
        [], [], marker="o", mfc="white", mec="black", color="black", label="best, 95 % interval"
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
