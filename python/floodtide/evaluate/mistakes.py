# SPDX-License-Identifier: Apache-2.0
"""The worst splits and mergers of a segmentation, and how many of the places to look at first are mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.data import Vec3
from floodtide.data.boxes import Progress, grown, is_inside, slices, total
from floodtide.data.places import END, REACH, SPLIT, Place
from floodtide.errors import InvalidFileError
from floodtide.evaluate.voxels import ContingencyTable, Pair

FIRST = (20, 100)
"""Numbers of first places that are scored."""

_PARTS = 3


@dataclass(frozen=True)
class Part:
    """What a segment and an object have in common."""

    segment: int
    object: int
    voxels: int
    zyx: Vec3  # one of the voxels, in voxels of the whole volume


@dataclass(frozen=True)
class Mistake:
    """An object that is split over several segments, or a segment that merges several objects.

    Attributes:
        kind: "split" or "merge".
        id: The object that is split, or the segment that merges.
        voxels: Voxels outside the largest part.
        parts: The largest parts, at most three, the largest first.
    """

    kind: str
    id: int
    voxels: int
    parts: tuple[Part, ...]


def worst_mistakes(
    pair: Pair,
    *,
    count: int = 20,
    table: ContingencyTable | None = None,
    progress: Progress | None = None,
) -> list[Mistake]:
    """Return the worst splits and mergers of a segmentation: those with most voxels outside the largest part.

    Unsegmented voxels and voxels without object do not count.

    Args:
        pair: The segmentation and the truth.
        count: Most splits, and most mergers, to return.
        table: What `pair.table` returns; None: it is counted first.
        progress: Called as progress(voxels done, voxels) while places are looked for.

    Returns:
        The splits, then the mergers, each from the worst on.

    Raises:
        ShapeError, OutOfRangeError: As `Pair.places`.
        InvalidFileError: If a volume is damaged, or changes meanwhile.
    """
    limits.COUNT.check(count, "worst_mistakes: count")
    rows = (pair.table() if table is None else table).rows()
    rows = rows[(rows[:, :2] > 0).all(axis=1)]
    found = [
        (kind, column, chosen)
        for kind, column in (("split", 1), ("merge", 0))
        for chosen in _largest_losses(rows, column, count)
    ]
    shown = [[tuple(row) for row in chosen[:_PARTS].tolist()] for _, _, chosen in found]
    places = _places(pair, {(s, o): n // 2 for few in shown for s, o, n in few}, progress)
    return [
        Mistake(
            kind=kind,
            id=int(chosen[0, column]),
            voxels=int(chosen[1:, 2].sum()),
            parts=tuple(Part(s, o, n, places[s, o]) for s, o, n in few),
        )
        for (kind, column, chosen), few in zip(found, shown, strict=True)
    ]


def _largest_losses(rows: NDArray[np.uint64], column: int, count: int) -> list[NDArray[np.uint64]]:
    """Return the rows (segment, object, voxels) of the ids of a column that lose most voxels, largest part first."""
    order = np.lexsort((rows[:, 1 - column], -rows[:, 2].astype(np.int64), rows[:, column]))
    rows = rows[order]
    groups = np.split(rows, np.flatnonzero(np.diff(rows[:, column])) + 1) if len(rows) else []
    several = [group for group in groups if len(group) > 1]
    several.sort(key=lambda group: -int(group[1:, 2].sum()))
    return several[:count]


def _places(
    pair: Pair, before: dict[tuple[int, int], int], progress: Progress | None
) -> dict[tuple[int, int], Vec3]:
    """Return a voxel of each pair (segment, object): the one after `before` others in the order of reading."""
    found: dict[tuple[int, int], Vec3] = {}
    for start, labels, objects in pair.blocks(progress):
        for key in before.keys() - found.keys():
            at = np.flatnonzero((labels == key[0]) & (objects == key[1]))
            if before[key] < len(at):
                place = np.unravel_index(at[before[key]], labels.shape)
                found[key] = total([int(n) for n in place], start)
            before[key] -= len(at)
    if before.keys() != found.keys():
        raise InvalidFileError("evaluate: the volumes changed while they were read")
    return found


class Looked(NamedTuple):
    """Mistakes among the first places of a table."""

    table: str  # the file
    listed: int  # places of the table
    judged: int  # those in the compared box whose truth is known
    mistakes: int  # number of judged places that are mistakes
    first: dict[int, dict[str, float]]
    """{number of first places: numbers of mistakes}: `mistakes` in the order of the table, `random_order` (the expected
    number), and `smallest_first`, from the smallest piece on."""


def looked_at(
    file: Path,
    places: Sequence[Place],
    labels: NDArray[Any],
    objects: NDArray[Any],
    table: ContingencyTable,
) -> Looked:
    """Judge the places of a segmentation.

    A split is a mistake if the truth on both sides is the same object, a merge if it differs. An end is a mistake if
    more than half of its object lies outside the segment.

    Args:
        file: The table of the places.
        places: The places, in voxels of the arrays.
        labels: The segmentation (z, y, x).
        objects: The truth of the same voxels; 0: unknown.
        table: The contingency table of both.
    """
    rows = table.rows().astype(np.int64)
    rows = rows[(rows[:, :2] > 0).all(axis=1)]
    wrong, sizes = list[bool](), list[int]()
    for place in places:
        sides = list(zip(place.sides, place.segments, strict=True))[: 1 if place.kind == END else 2]
        found = [_object_at(side, segment, labels, objects) for side, segment in sides]
        if 0 not in found:
            wrong.append(_is_mistake(place, found, rows))
            sizes.append(min(filter(None, place.voxels), default=0))
    smallest = [wrong[at] for at in np.argsort(sizes, kind="stable")]
    first = {
        n: {
            "mistakes": sum(wrong[:n]),
            "random_order": sum(wrong) / max(1, len(wrong)) * min(n, len(wrong)),
            "smallest_first": sum(smallest[:n]),
        }
        for n in FIRST
    }
    return Looked(str(file), len(places), len(wrong), sum(wrong), first)


def _object_at(voxel: Vec3, segment: int, labels: NDArray[Any], objects: NDArray[Any]) -> int:
    """Return the object that most voxels of a segment around a voxel have; 0: none, or the voxel is outside."""
    if not is_inside((voxel, (1, 1, 1)), labels.shape):
        return 0
    box = slices(grown((voxel, (1, 1, 1)), (REACH,) * 3, labels.shape))
    known = objects[box][(labels[box] == segment) & (objects[box] > 0)]
    ids, counts = np.unique(known, return_counts=True)
    return int(ids[counts.argmax()]) if len(ids) else 0


def _is_mistake(place: Place, objects: Sequence[int], rows: NDArray[np.int64]) -> bool:
    if place.kind == END:
        of_object = rows[rows[:, 1] == objects[0]]
        inside = of_object[of_object[:, 0] == place.segments[0], 2].sum()
        return bool(2 * inside < of_object[:, 2].sum())
    return (objects[0] == objects[1]) == (place.kind == SPLIT)
