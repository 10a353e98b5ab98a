# SPDX-License-Identifier: Apache-2.0
"""The worst mistakes of a segmentation, and a picture of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from floodtide import evaluate
from floodtide.base import style
from floodtide.data import Volume
from floodtide.data.boxes import total
from floodtide.evaluate.mistakes import Mistake
from floodtide.report import drawing, mistake_colours, planes
from floodtide.report.segmented import Segmented

_COUNT = 10
_COLUMNS = 5


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
    with style.figure(2.2 * _COLUMNS, 2.5 * rows + 0.35) as drawn:
        axes = drawn.subplots(rows, _COLUMNS, squeeze=False)
        for axis in axes.flat[len(mistakes) :]:
            axis.set_axis_off()
        for number, (axis, mistake) in enumerate(zip(axes.flat, mistakes, strict=False), start=1):
            place = mistake.parts[1].zyx
            plane = found.planes(voxel_size_nm, place)[0]
            truth = np.asarray(plane.truth)
            kinds = mistake_colours.kinds(np.asarray(plane.segmentation), truth, found.pairs)
            picture = mistake_colours.painted(planes.grey(plane), kinds)
            picture[style.boundaries(truth)] *= 0.55
            planes.show_plane(axis, plane, picture)
            drawing.mark(axis, *plane.marked, "o", 11)
            kind = "merger" if mistake.kind == "merge" else mistake.kind
            axis.set_title(f"{number}: {kind}, z = {place[0]}", fontsize=8.5)
            axis.set_xlabel(f"y = {place[1]}, x = {place[2]}", fontsize=8)
        mistake_colours.legend(drawn, columns=3, loc="outside lower center")
        return style.data_uri(drawn, "png", dpi=130)


def _placed(mistake: Mistake, found: Segmented) -> Mistake:
    """Return a mistake with its places in voxels of the whole volume."""
    parts = tuple(
        dataclasses.replace(part, zyx=total(part.zyx, found.start)) for part in mistake.parts
    )
    return dataclasses.replace(mistake, parts=parts)
