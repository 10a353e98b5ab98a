# SPDX-License-Identifier: Apache-2.0
"""Looks that the figures of a study share: series that differ in print, legends, and logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floodtide.base import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_CHARACTERS = 13  # of a legend in an inch


def line_style(index: int) -> dict[str, Any]:
    """Return colour, line style and marker of a series, so that series differ in print, too."""
    place = index % len(_LINES)
    return {
        "color": style.series_colour(index),
        "ls": _LINES[place],
        "marker": style.MARKERS[place],
        "ms": 5.0,
    }


def legend_below(figure: Figure, axis: Axes) -> None:
    """Draw the legend of a subplot below all subplots, in as many columns as its longest text leaves room for."""
    handles, labels = axis.get_legend_handles_labels()
    longest = max(map(len, labels), default=0) + 6  # with the line beside the text
    columns = int(figure.get_figwidth() * _CHARACTERS // longest)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(max(columns, 1), 3))


def plain_numbers(axis: Axis, base: int = 10) -> None:
    """Label a logarithmic axis with plain numbers: 1, 2 and 5 of each decade, or the powers of another base."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(base, subs=(1.0, 2.0, 5.0) if base == 10 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
