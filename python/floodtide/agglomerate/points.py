# SPDX-License-Identifier: Apache-2.0
"""Decision points: where two segments come so close that they may belong to one object."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress
from floodtide.data.formats.writers import blocks
from floodtide.errors import InvalidArgumentError

_BLOCK = 256  # voxels along each axis of a block, without what surrounds it
# Of a block: labels as they are stored and as 64 bits, grown labels, distances, queue.
_BYTES_PER_VOXEL = 60
_CHECKED = Arguments(voxel_size=limits.VOXEL_SIZE, max_distance=limits.NANOMETRES)


class DecisionPoint(NamedTuple):
    """Where two segments come closest to each other."""

    a: int  # the smaller id
    b: int
    point_zyx: Vec3  # a voxel between the segments, in voxels of the segmentation
    distance: float  # about half of the gap between the segments, in nm


def decision_points(
    segmentation: Volume | NDArray[np.integer[Any]],
    *,
    voxel_size: Sequence[float] = (1.0, 1.0, 1.0),
    max_distance: float,
    progress: Progress | None = None,
) -> list[DecisionPoint]:
    """Return a decision point for each pair of segments that come close, in the order of their ids. Collective.

    All segments grow at the same speed into the empty space, up to `max_distance`. Where two of them touch with the
    smallest mean distance, at the place nearest to the centroid of all such places, is the decision point of the pair.
    The volume is read in blocks, which the ranks share; the result does not depend on their number. If a pair comes
    close in several blocks, the place with the smallest distance counts. Source: google/ffn, decision_point.py.

    Args:
        segmentation: Labels (z, y, x) of integers; values <= 0 are unsegmented voxels.
        voxel_size: Edges of a voxel (z, y, x) in nm, or in another unit.
        max_distance: In the unit of `voxel_size`.
        progress: Called as progress(voxels done, voxels of this rank).

    Raises:
        InvalidArgumentError: If an argument is out of range, or the labels are not integers.
    """
    _CHECKED.check("decision points", voxel_size=list(voxel_size), max_distance=max_distance)
    volume = segmentation if isinstance(segmentation, Volume) else Volume(segmentation)
    if not np.issubdtype(volume.dtype, np.integer):
        raise InvalidArgumentError(
            f"decision points: {volume.name} holds {volume.dtype}, expected integers"
        )
    halo = [min(math.ceil(max_distance / edge) + 1, limits.EXTENT.maximum) for edge in voxel_size]
    cores = list(blocks(volume.shape, (_BLOCK, _BLOCK, _BLOCK), _BLOCK**3))
    mine = cores[world.rank() :: world.size()]
    found, done = [], 0
    with world.agreed():
        for core in mine:
            found += _in_block(volume, core, halo, voxel_size, max_distance)
            done += math.prod(core[1])
            if progress is not None:
                progress(done, sum(math.prod(size) for _, size in mine))
    nearest: dict[tuple[int, int], DecisionPoint] = {}
    for point in sorted(point for points in allgather_object(found) for point in points):
        pair = point.a, point.b
        best = nearest.get(pair)
        if best is None or (point.distance, point.point_zyx) < (best.distance, best.point_zyx):
            nearest[pair] = point
    return list(nearest.values())


def _in_block(
    volume: Volume,
    core: Box,
    halo: Sequence[float],
    voxel_size: Sequence[float],
    max_distance: float,
) -> list[DecisionPoint]:
    low = [max(0, int(a - h)) for a, h in zip(core[0], halo, strict=True)]
    high = [int(min(n, a + m + h)) for a, m, h, n in zip(*core, halo, volume.shape, strict=True)]
    size = [b - a for a, b in zip(low, high, strict=True)]
    limits.require_memory(
        f"decision points: {' x '.join(map(str, size))} voxels need",
        _BYTES_PER_VOXEL * math.prod(size),
        "a smaller max_distance",
    )
    box = (low[0], low[1], low[2]), (size[0], size[1], size[2])
    labels = np.ascontiguousarray(np.maximum(volume.read(box), 0), dtype=np.uint64)
    start = [a - b for a, b in zip(core[0], low, strict=True)]
    rows = _core.agglomerate.decision_points(labels, list(voxel_size), max_distance, start, core[1])
    return [
        DecisionPoint(a, b, (z + low[0], y + low[1], x + low[2]), distance)
        for a, b, (z, y, x), distance in rows
    ]
