# SPDX-License-Identifier: Apache-2.0
"""What pictures have in common: the list of curves; planes in grey and in colours, and marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from floodtide.base import style
from floodtide.train.recorded_run import Run

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

# Outlines: colour and line style, so that they differ in grey print, too.
_TRUTH, _PREDICTED = ("#56B4E9", "solid"), ("#E69F00", "dashed")

Draw = Callable[[Sequence[Run]], str | None]
"""Draws a curve of all runs: an SVG as data URI, or None if they have no data for it."""

CURVES: dict[str, Draw] = {}
"""The curves by name: that of their SVG file, and of the line in run.html with their texts."""


def curve(draw: Draw) -> Draw:
    """Register the function NAME_figure, which draws a curve. Used as a decorator."""
    CURVES[draw.__name__.removesuffix("_figure")] = draw
    return draw


def grey(plane: npt.NDArray[Any], levels: npt.NDArray[Any] | None = None) -> Floats:
    """Return a plane in shades of grey, RGB in [0, 1]: the lowest 0.5 % of the voxels are black, the highest white.

    Args:
        plane: Intensities, any shape.
        levels: The intensities that decide what is black and white; None: those of the plane.
    """
    low, high = np.percentile(plane if levels is None else levels, (0.5, 99.5))
    shown = np.clip((plane.astype(np.float64) - low) / max(float(high - low), 1e-9), 0.0, 1.0)
    return np.repeat(shown[..., None], 3, axis=-1)


def colours(targets: npt.NDArray[Any]) -> Floats:
    """Return up to three targets (rows, columns, targets) as RGB: one as grey, red of two as the smaller one."""
    shown = targets[..., :3].astype(np.float64)
    if shown.shape[-1] == 1:
        return np.repeat(shown, 3, axis=-1)
    return np.concatenate([shown.min(-1, keepdims=True), shown], axis=-1)[..., -3:]


def overlay(background: Floats, labels: npt.NDArray[Any]) -> Floats:
    """Return a plane with its labels in colours, and with their borders; labels <= 0 have none."""
    ids = labels.astype(np.int64)
    picture = 0.45 * background + 0.55 * style.label_colours(ids)
    picture[style.boundaries(ids)] *= 0.35
    return np.where((ids > 0)[..., None], picture, background)


def show(axis: Axes, picture: npt.NDArray[Any], aspect: float = 1.0) -> None:
    """Show a picture at the aspect of its voxels, without frame and ticks."""
    axis.imshow(picture, aspect=aspect, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)


def outline(axis: Axes, mask: npt.NDArray[np.bool_], colour: str, line: str) -> None:
    """Draw the outline of a mask, between pixels and along the border of the picture."""
    if mask.any():
        inside = np.pad(mask.astype(float), 1)
        y, x = (np.arange(n) - 1.0 for n in inside.shape)
        look: Any = {"colors": [colour], "linewidths": 1.3, "linestyles": line}
        axis.contour(x, y, inside, levels=[0.5], **look)
    axis.set_xlim(-0.5, mask.shape[1] - 0.5)
    axis.set_ylim(mask.shape[0] - 0.5, -0.5)


def outlined(
    axes: Sequence[Axes],
    image: Floats,
    truth: npt.NDArray[Any],
    predicted: npt.NDArray[Any],
    aspect: float = 1.0,
) -> None:
    """Show an image on all axes, on the last ones with outlines of true and predicted classes above 0 (rows, columns).

    There, voxels whose truth is below 0 (no label) are darker.
    """
    for axis in axes[:-1]:
        show(axis, image, aspect)
    show(axes[-1], np.where((truth < 0)[..., None], 0.6 * image, image), aspect)
    for classes, (colour, line) in ((truth, _TRUTH), (predicted, _PREDICTED)):
        for number in np.unique(classes[classes > 0]).tolist():
            outline(axes[-1], classes == number, colour, line)


def outline_legend(figure: Figure) -> None:
    """Add the legend of `outlined` below the axes of a figure."""
    handles = [
        Line2D([], [], color=colour, ls=line, label=label)
        for (colour, line), label in ((_TRUTH, "truth"), (_PREDICTED, "prediction"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)


def mark(axis: Axes, row: float, column: float, shape: str, size: float = 9.0) -> None:
    """Draw a white mark with a black edge."""
    for colour, width in (("black", 2.6), ("white", 1.2)):
        axis.plot(column, row, shape, mfc="none", mec=colour, ms=size, mew=width)
