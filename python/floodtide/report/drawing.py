# SPDX-License-Identifier: Apache-2.0
"""What pictures have in common: the list of curves; planes in grey and in colours, and outlines.

Mistakes of a segmentation are splits, mergers and unsegmented voxels. They differ in lightness and in pattern as well
as in hue, and stay apart in grey print and for colour-blind readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from floodtide.base import style
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, WAIT_S, reserved
from floodtide.train.recorded_run import Run

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

# Outlines: colour and line style, so that they differ in grey print, too.
_TRUTH, _PREDICTED = ("#56B4E9", "solid"), ("#E69F00", "dashed")

CORRECT, UNSEGMENTED, SPLIT, MERGED = range(4)

_STRIPE = 4  # pixels between two stripes of unsegmented voxels

Picture = tuple[npt.NDArray[Any], npt.NDArray[Any] | None, npt.NDArray[Any] | None]
"""A picture (y, x, 3) in [0, 1], and true and predicted classes to outline; None: none."""

Draw = Callable[[Sequence[Run]], str | None]

CURVES: dict[str, Draw] = {}
"""The curves by name, that of their SVG file and of the line in run.html with their texts: functions that draw a curve
of all runs, an SVG as data URI, or None if they have no data for it."""


def curve(draw: Draw) -> Draw:
    """Register the function NAME_figure, which draws a curve. Used as a decorator."""
    CURVES[draw.__name__.removesuffix("_figure")] = draw
    return draw


@contextmanager
def grid(
    rows: int, columns: int, width_in: float, height_in: float, **more: Any
) -> Iterator[tuple[Figure, Any]]:
    """Give a figure and its axes (rows, columns), which are empty until `show` shows a picture on them."""
    with style.figure(width_in, height_in) as drawn:
        drawn.set_layout_engine("compressed")  # for axes of a fixed aspect
        axes = drawn.subplots(rows, columns, squeeze=False, **more)
        for axis in axes.flat:
            axis.set_axis_off()
        yield drawn, axes


@contextmanager
def columns(
    shown: Sequence[tuple[str, Mapping[str, Picture]]],
    width_in: float,
    pixel: tuple[float, float],
    *,
    in_nm: bool,
) -> Iterator[Figure]:
    """Give a figure with a column for each title: its pictures by name, one below the other.

    Args:
        width_in: Width of a column.
        pixel: Height and width of a pixel, in nanometres if `in_nm`.
    """
    aspect, names = pixel[0] / pixel[1], list(shown[0][1])
    rows, wide, _ = shown[0][1][names[0]][0].shape
    height = width_in * style.bounded_ratio(aspect * rows / wide)
    size = (width_in * len(shown) + 0.3, len(names) * height + 1.0)
    with grid(len(names), len(shown), *size) as (drawn, axes):
        for column, (title, pictures) in zip(axes.T, shown, strict=True):
            for axis, (picture, truth, predicted) in zip(column, pictures.values(), strict=True):
                if truth is None or predicted is None:
                    show(axis, np.clip(picture, 0.0, 1.0), aspect)
                else:
                    outlined(axis, picture, truth, predicted, aspect)
            column[0].set_title("\n".join(map(style.plain, title.split("\n"))), fontsize=9)
            style.scale_bar(column[0], wide, rows, pixel[1] if in_nm else None)
        for axis, name in zip(axes[:, 0], names, strict=True):
            axis.set_ylabel(name)
        if any(truth is not None for _, some in shown for _, truth, _ in some.values()):
            looks = ((_TRUTH, "truth"), (_PREDICTED, "prediction"))
            handles = [Line2D([], [], color=c, ls=line, label=what) for (c, line), what in looks]
            drawn.legend(handles=handles, loc="outside lower center", ncols=2)
        yield drawn


def save(drawn: Figure, path: Path) -> None:
    """Write a figure to a PNG file."""
    with reserved("picture", path, PICTURES[".png"], wait_s=WAIT_S):
        replace_bytes(path, style.rendered(drawn, "png", dpi=130))


def grey(plane: npt.NDArray[Any], levels: npt.NDArray[Any] | None = None) -> Floats:
    """Return a plane in shades of grey, RGB in [0, 1]: the lowest 0.5 % of the voxels are black, the highest white.

    Args:
        plane: Intensities, any shape. Those that are not finite count as 0.
        levels: The intensities that decide what is black and white; None: those of the plane.
    """
    shown, deciding = (
        np.nan_to_num(one.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        for one in (plane, plane if levels is None else levels)
    )
    low, high = np.percentile(deciding, (0.5, 99.5))
    shown = np.clip((shown - low) / max(float(high - low), 1e-9), 0.0, 1.0)
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
    axis.set_axis_on()
    axis.imshow(picture, aspect=aspect, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)


def outlined(
    axis: Axes,
    image: Floats,
    truth: npt.NDArray[Any],
    predicted: npt.NDArray[Any],
    aspect: float = 1.0,
) -> None:
    """Show an image with outlines of true and predicted classes above 0 (rows, columns), between the pixels.

    Voxels whose truth is below 0 (no label) are darker.
    """
    show(axis, np.where((truth < 0)[..., None], 0.6 * image, image), aspect)
    y, x = (np.arange(n + 2) - 1.0 for n in truth.shape)
    for classes, (colour, line) in ((truth, _TRUTH), (predicted, _PREDICTED)):
        look: Any = {"colors": [colour], "linewidths": 1.3, "linestyles": line}
        for number in np.unique(classes[classes > 0]).tolist():
            inside = np.pad((classes == number).astype(float), 1)
            axis.contour(x, y, inside, levels=[0.5], **look)
    axis.set_xlim(-0.5, truth.shape[1] - 0.5)
    axis.set_ylim(truth.shape[0] - 0.5, -0.5)


def kinds(
    segments: npt.NDArray[np.int64], objects: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Return the kind of mistake of each voxel: CORRECT, UNSEGMENTED, SPLIT or MERGED.

    A voxel is merged if its segment has more voxels of another object. Otherwise it is split if its object has more
    voxels in another segment. Voxels without object are correct.

    Args:
        segments: Segment ids, any shape; 0 is no segment.
        objects: Object ids of the same shape; 0 is no object.
        pairs: Rows (segment, object, voxels) from which the largest parts are taken.
    """
    main_object = _largest(pairs, 0)
    main_segment = _largest(pairs, 1)
    found = np.zeros(segments.shape, np.uint8)
    found[(objects > 0) & (segments <= 0)] = UNSEGMENTED
    both = (objects > 0) & (segments > 0)
    here = np.stack([segments[both], objects[both]], axis=1)
    unique, places = np.unique(here, axis=0, return_inverse=True)
    named = [
        MERGED
        if main_object.get(segment, obj) != obj
        else SPLIT
        if main_segment.get(obj, segment) != segment
        else CORRECT
        for segment, obj in unique.tolist()
    ]
    found[both] = np.array(named, np.uint8)[places.ravel()]
    return found


def _largest(pairs: npt.NDArray[np.int64], column: int) -> dict[int, int]:
    """Return {id of the column: id of the other column with which it has most voxels}. Ids 0 are left out."""
    kept = pairs[(pairs[:, :2] > 0).all(axis=1)]
    order = np.argsort(kept[:, 2], kind="stable")
    return dict(kept[order][:, [column, 1 - column]].tolist())


def painted(grey: npt.NDArray[np.float64], kind: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return the picture (rows, columns, 3) of a plane: the image, pale, under the colours of the mistakes."""
    picture = 0.62 + 0.38 * grey
    for which, colour in ((SPLIT, style.SPLIT), (MERGED, style.MERGED)):
        where = kind == which
        picture[where] = 0.15 * picture[where] + 0.85 * np.array(to_rgb(colour))
    rows, columns = np.indices(kind.shape)
    striped = (kind == UNSEGMENTED) & ((rows + columns) % _STRIPE < _STRIPE // 2)
    picture[striped] = to_rgb(style.NOT_SEGMENTED)
    return picture


def mistakes_legend(drawn: Figure, loc: Any) -> None:
    """Draw the legend of the three kinds of mistakes."""
    look: Any = {"facecolor": "white", "edgecolor": style.NOT_SEGMENTED, "hatch": "////"}
    handles = [
        Patch(label="not segmented (striped)", **look),
        Patch(facecolor=style.SPLIT, label="split"),
        Patch(facecolor=style.MERGED, label="merged"),
    ]
    drawn.legend(handles=handles, ncols=3, loc=loc)
