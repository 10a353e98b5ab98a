# SPDX-License-Identifier: Apache-2.0
"""The worst mistakes of a segmentation, and a picture of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from floodtide import evaluate
from floodtide.base import style
from floodtide.data import Volume
from floodtide.data.boxes import total
from floodtide.evaluate.mistakes import Mistake
from floodtide.report import drawing, mistake_colours, planes
from floodtide.report.drawing import Ids
from floodtide.report.segmented import Segmented

_COUNT = 10
_COLUMNS = 5
_PANEL = 2.1  # width of a picture in inches
_WINDOW = 80  # voxels along each side of a picture


def worst_of(found: Segmented) -> list[Mistake]:
    """Return the ten mistakes that cost most voxels, splits and mergers together; empty without truth."""
    if not isinstance(found.truth, Volume):
        return []
    labels = Volume(found.segmentation.read())  # as an array: without a position, like the truth
    mistakes = evaluate.worst_mistakes(evaluate.Pair(labels, found.truth), count=_COUNT)
    mistakes.sort(key=lambda mistake: -mistake.voxels)
    first: dict[tuple[int, int], Mistake] = {}
    # If a segment takes a part of another object, this part is in a merger and in a split.
    for mistake in mistakes:
        first.setdefault((mistake.parts[1].segment, mistake.parts[1].object), mistake)
    return [_placed(mistake, found) for mistake in list(first.values())[:_COUNT]]


def worst_figure(
    found: Segmented, mistakes: Sequence[Mistake], voxel_size_nm: Sequence[float] | None
) -> str:
    """Return a figure with the plane z through each mistake, in the colours of the mistakes. PNG as data URI."""
    assert found.pairs is not None
    rows = -(-len(mistakes) // _COLUMNS)
    shown = [_window(found.planes(voxel_size_nm, one.parts[1].zyx)[0]) for one in mistakes]
    height, width = shown[0].shape
    ratio = style.bounded_ratio(shown[0].aspect * height / width)
    with style.figure(_PANEL * _COLUMNS, (_PANEL * ratio + 0.5) * rows + 0.35) as drawn:
        drawn.set_layout_engine("compressed")  # for axes of a fixed aspect
        axes = drawn.subplots(rows, _COLUMNS, squeeze=False)
        for axis in axes.flat[len(mistakes) :]:
            axis.set_axis_off()
        pairs = zip(axes.flat, mistakes, shown, strict=False)
        for number, (axis, mistake, plane) in enumerate(pairs, start=1):
            z, y, x = mistake.parts[1].zyx
            _show(axis, plane, found.pairs)
            kind = "merger" if mistake.kind == "merge" else mistake.kind
            axis.set_title(f"{number}: {kind}, z = {z}", fontsize=8.5)
            axis.set_xlabel(f"y = {y}, x = {x}", fontsize=8)
        mistake_colours.legend(drawn, columns=3, loc="outside lower center")
        return style.data_uri(drawn, "png", dpi=130)


def _show(axis: Axes, plane: planes.Plane, pairs: Ids) -> None:
    """Show the mistakes of a plane, a circle around its marked voxel, and a scale bar in another corner."""
    truth = np.asarray(plane.truth)
    kinds = mistake_colours.kinds(np.asarray(plane.segmentation), truth, pairs)
    picture = mistake_colours.painted(planes.grey(plane), kinds)
    picture[style.boundaries(truth)] *= 0.55
    drawing.show(axis, picture, plane.aspect)
    (row, column), (rows, columns) = plane.marked, plane.shape
    drawing.mark(axis, row, column, "o", 11)
    lower_left = row > rows / 2 and column < columns / 2
    style.scale_bar(axis, columns, rows, plane.pixel_nm, right=lower_left)


def _window(plane: planes.Plane) -> planes.Plane:
    """Return the part of a plane around its marked voxel."""
    size = [min(n, _WINDOW) for n in plane.shape]
    row, column = (
        min(max(int(at) - n // 2, 0), whole - n)
        for at, n, whole in zip(plane.marked, size, plane.shape, strict=True)
    )
    part = np.s_[row : row + size[0], column : column + size[1]]
    return dataclasses.replace(
        plane,
        shape=(size[0], size[1]),
        marked=(plane.marked[0] - row, plane.marked[1] - column),
        image=None if plane.image is None else plane.image[part],
        truth=np.asarray(plane.truth)[part],
        segmentation=np.asarray(plane.segmentation)[part],
    )


def _placed(mistake: Mistake, found: Segmented) -> Mistake:
    """Return a mistake with its places in voxels of the whole volume."""
    parts = tuple(
        dataclasses.replace(part, zyx=total(part.zyx, found.start)) for part in mistake.parts
    )
    return dataclasses.replace(mistake, parts=parts)
