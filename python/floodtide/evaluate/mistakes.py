# SPDX-License-Identifier: Apache-2.0
"""The worst splits and mergers of a segmentation, with their places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.data import Vec3
from floodtide.data.boxes import Progress, total
from floodtide.errors import InvalidFileError
from floodtide.evaluate.voxels import ContingencyTable, Pair

_WORST = Arguments(count=limits.COUNT, parts=limits.COUNT)


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
        parts: The largest parts, largest first.
    """

    kind: str
    id: int
    voxels: int
    parts: tuple[Part, ...]


def worst_mistakes(
    pair: Pair,
    *,
    count: int = 20,
    parts: int = 3,
    table: ContingencyTable | None = None,
    progress: Progress | None = None,
) -> list[Mistake]:
    """Return the worst splits and mergers of a segmentation: those with most voxels outside the largest part.

    Unsegmented voxels and voxels without object do not count.

    Args:
        pair: The segmentation and the truth.
        count: Most splits, and most mergers, to return.
        parts: Most parts of each.
        table: What `pair.table` returns; None: it is counted first.
        progress: Called as progress(voxels done, voxels) while places are looked for.

    Returns:
        The splits, then the mergers, each from the worst on.

    Raises:
        ShapeError: As `Pair.places`.
        OutOfRangeError: As `Pair.places`.
        InvalidFileError: If a volume is damaged, or changes meanwhile.
    """
    _WORST.check("worst_mistakes", count=count, parts=parts)
    rows = (pair.table() if table is None else table).rows()
    rows = rows[(rows[:, :2] > 0).all(axis=1)]
    found = [
        (kind, chosen)
        for kind, column in (("split", 1), ("merge", 0))
        for chosen in _largest_losses(rows, column, count)
    ]
    shown = [chosen[:parts] for _, chosen in found]
    middle = {(int(s), int(o)): int(n) // 2 for few in shown for s, o, n in few}
    places = _places(pair, middle, progress)
    return [
        Mistake(
            kind=kind,
            id=int(chosen[0, 1 if kind == "split" else 0]),
            voxels=int(chosen[1:, 2].sum()),
            parts=tuple(Part(int(s), int(o), int(n), places[int(s), int(o)]) for s, o, n in few),
        )
        for (kind, chosen), few in zip(found, shown, strict=True)
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
