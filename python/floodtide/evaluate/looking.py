# SPDX-License-Identifier: Apache-2.0
"""How many of the places that a person should look at first are mistakes, next to two other orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data import Vec3
from floodtide.data.boxes import grown, is_inside, slices
from floodtide.data.places import END, REACH, SPLIT, Place, table_of
from floodtide.errors import InvalidFileError
from floodtide.evaluate.voxels import ContingencyTable

FIRST = (20, 100)
"""Numbers of first places that are scored."""


@dataclass(frozen=True)
class Looked:
    """Mistakes among the first places of a table.

    Attributes:
        table: The file.
        listed: Places of the table.
        judged: Those in the compared box whose truth is known.
        mistakes: Those of them that are mistakes.
        first: {number of first places: mistakes in the order of the table, in random order (the expected number), and
            from the smallest piece on}.
    """

    table: str
    listed: int
    judged: int
    mistakes: int
    first: dict[int, tuple[int, float, int]]


def looked_at(
    name: str,
    places: Sequence[Place],
    labels: NDArray[Any],
    objects: NDArray[Any],
    table: ContingencyTable,
) -> Looked:
    """Judge the places of a segmentation.

    A split is a mistake if the truth on both sides is the same object, a merge if it differs. An end is a mistake if
    more than half of its object lies outside the segment.

    Args:
        name: The segmentation.
        places: Its places, in voxels of the arrays.
        labels: The segmentation (z, y, x).
        objects: The truth of the same voxels; 0: unknown.
        table: The contingency table of both.
    """
    one_voxel = (1, 1, 1)
    inside = [p for p in places if all(is_inside((a, one_voxel), labels.shape) for a in p.sides)]
    rows = table.rows().astype(np.int64)
    rows = rows[(rows[:, :2] > 0).all(axis=1)]
    judged = []
    for place in inside:
        sides = list(zip(place.sides, place.segments, strict=True))[: 1 if place.kind == END else 2]
        found = [_object_at(side, segment, labels, objects) for side, segment in sides]
        if None in found:
            raise InvalidFileError(
                f"{table_of(name)}: a place of segment {place.segments[0]} lies in other segments of {name}, expected"
                " the table of this segmentation; remove it"
            )
        if 0 not in found:
            judged.append((place, _is_mistake(place, found, rows)))
    wrong = np.array([mistake for _, mistake in judged], bool)
    sizes = [min(filter(None, place.voxels), default=0) for place, _ in judged]
    smallest = wrong[np.argsort(sizes, kind="stable")] if judged else wrong
    share = float(wrong.mean()) if judged else 0.0
    first = {
        n: (int(wrong[:n].sum()), share * min(n, len(wrong)), int(smallest[:n].sum()))
        for n in FIRST
    }
    return Looked(str(table_of(name)), len(places), len(judged), int(wrong.sum()), first)


def _object_at(
    voxel: Vec3, segment: int, labels: NDArray[Any], objects: NDArray[Any]
) -> int | None:
    """Return the object that most voxels of a segment around a voxel have; 0: none; None: no voxel of the segment."""
    box = slices(grown((voxel, (1, 1, 1)), (REACH,) * 3, labels.shape))
    own = labels[box] == segment
    if not own.any():
        return None
    ids, counts = np.unique(objects[box][own & (objects[box] > 0)], return_counts=True)
    return int(ids[counts.argmax()]) if len(ids) else 0


def _is_mistake(place: Place, objects: Sequence[int | None], rows: NDArray[np.int64]) -> bool:
    if place.kind == END:
        of_object = rows[rows[:, 1] == objects[0]]
        inside = of_object[of_object[:, 0] == place.segments[0], 2].sum()
        return bool(2 * inside < of_object[:, 2].sum())
    return (objects[0] == objects[1]) == (place.kind == SPLIT)
