# SPDX-License-Identifier: Apache-2.0
"""Parts of a volume that stand for the whole: a regular grid of boxes, the same for every volume of a shape."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import Box, Progress, Vec3, as_vec3, reported, tiles, total
from floodtide.data.volumes import Volume
from floodtide.errors import InvalidFileError

FULL = 1 << 26
"""Voxels that `floodtide inspect` reads of a volume. Smaller volumes are read whole."""

QUICK = 1 << 21
"""Voxels that checks at the start of a command read of a volume."""

CUBE = 64  # voxels along each side of the cubes that are compared with each other
SMALL = 32  # the same for statistics of single voxels, which profit from many places
_TILE = 64  # voxels along y and x of a column
_SLAB = 1 << 21  # voxels that are processed at a time
_LARGEST = 1e15  # grey level; sums of the squares of FULL voxels fit into a float32

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The part of a volume that statistics were made from.

    Attributes:
        shape: Size (z, y, x) of the box in voxels.
        dtype: Type of the voxels: "uint8", ...
        sampled: Number of voxels that were read. The other numbers refer to them.
    """

    name: str
    shape: Vec3
    dtype: str
    sampled: int

    @property
    def whole(self) -> bool:
        """True if every voxel of the box was read."""
        return self.sampled == math.prod(self.shape)


def starts(extent: int, edge: int, count: int) -> list[int]:
    """Return the first voxels of up to `count` intervals of `edge` voxels, spread evenly and symmetric to the middle.

    Intervals do not overlap. A volume of one interval gives [0] or the middle.
    """
    count = max(1, min(count, extent // edge))
    half = [round((2 * i + 1) * extent / (2 * count) - edge / 2) for i in range(count // 2)]
    middle = [(extent - edge) // 2] if count % 2 else []
    return [*half, *middle, *(extent - edge - first for first in reversed(half))]


def edge_of(extent: int, cube: int = CUBE) -> int:
    """Return the side of a cube along an axis: such that a cube in the middle is its own mirror image.

    Where one cube and a half fit, two shorter cubes tell more about the volume than a single one.
    """
    edge = extent // 2 if 3 * cube <= 2 * extent < 4 * cube else min(extent, cube)
    return edge - (extent - edge) % 2 if edge > 1 else edge


def cubes(whole: Box, per_axis: int, cube: int = CUBE) -> list[Box]:
    """Return a grid of up to `per_axis` cubes along each axis of a box. Mirroring maps the grid to itself."""
    first, size = whole
    edges = [edge_of(n, cube) for n in size]
    grids = [starts(n, edge, per_axis) for n, edge in zip(size, edges, strict=True)]
    return [(total(first, place), as_vec3(edges)) for place in itertools.product(*grids)]


def cubes_within(whole: Box, budget: int, cube: int = CUBE) -> list[Box]:
    """Return as many cubes as `budget` voxels allow, at least one along each axis."""
    per_axis = max(1, int((budget / cube**3) ** (1 / 3) + 1e-9))
    return cubes(whole, per_axis, cube)


def columns(whole: Box, budget: int) -> list[Box]:
    """Return boxes through all sections (z).

    They are strips that cover the box, if it has at most `budget` voxels, else a grid of columns.
    """
    first, (depth, height, width) = whole
    if depth * height * width <= budget:
        return list(tiles(whole, (depth, max(1, _SLAB // width), width)))
    tile_y, tile_x = min(height, _TILE), min(width, _TILE)
    count = max(4, budget // (depth * tile_y * tile_x))
    rows = min(max(1, height // tile_y), max(1, int(count**0.5)))
    across = max(1, count // rows)
    places = itertools.product([0], starts(height, tile_y, rows), starts(width, tile_x, across))
    return [(total(first, place), (depth, tile_y, tile_x)) for place in places]


def sample(whole: Box, budget: int, sections: bool = False) -> list[Box]:
    """Return the boxes that statistics of a box read: all of a small box, else small cubes, or columns along z."""
    if sections or math.prod(whole[1]) <= budget:
        return columns(whole, budget)
    return cubes_within(whole, budget, SMALL)


def slabs(
    volume: Volume, boxes: Sequence[Box], progress: Progress | None
) -> Iterator[tuple[int, Array]]:
    """Yield (number of the first section, voxels) for slabs of whole sections of each box, in order of z."""
    parts: list[Box] = []
    chunk = volume.chunks[0]
    for (z, y, x), (depth, height, width) in boxes:
        step = max(1, min(depth, _SLAB // (height * width)))
        step -= step % chunk if chunk <= step else 0  # so that no chunk is decoded twice
        cuts = [z, *range(z - z % step + step, z + depth, step), z + depth]
        parts += [((a, y, x), (b - a, height, width)) for a, b in itertools.pairwise(cuts)]
    for part in reported(parts, progress):
        yield part[0][0], read(volume, part)


def read(volume: Volume, box: Box) -> Array:
    """Return the voxels of a box.

    Raises:
        InvalidFileError: If a voxel is not finite, or so large that statistics overflow.
    """
    voxels = volume.read(box)
    if voxels.dtype.kind == "f" and not (np.abs(voxels) <= _LARGEST).all():
        place = np.argwhere(~(np.abs(voxels) <= _LARGEST))[0]
        value = voxels[tuple(place)]
        what = f"is {value:g}" if np.isfinite(value) else "is not a finite number"
        raise InvalidFileError(
            f"{volume.name}: the voxel at {', '.join(map(str, place + box[0]))} (z, y, x) {what}; expected grey levels"
            f" from {-_LARGEST:g} to {_LARGEST:g}: replace such voxels by 0 or by the mean"
        )
    return voxels


def whole_of(shape: Vec3) -> Box:
    """Return the box of a whole volume."""
    return (0, 0, 0), shape
