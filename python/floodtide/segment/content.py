# SPDX-License-Identifier: Apache-2.0
"""What the volumes of a segmentation hold, in a short text: work that continues later must read the same voxels."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.config.segment_options import SegmentOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.data.look.sampling import starts
from floodtide.segment.masks import volumes_of
from floodtide.segment.seeds import read_seeds, seed_files

_WHOLE = 1 << 24  # voxels of a volume that is read whole
_GRID = (8, 4, 4)  # boxes that are read of a larger one, along each axis
_EDGE = 64  # voxels, the longest edge of such a box
_SLAB = 1 << 20  # voxels of a whole volume that are read at a time
_LETTERS = 16  # of a digest


def voxels_of(
    image: Volume, options: SegmentOptions | None = None, box: Box | None = None
) -> dict[str, str]:
    """Return texts that tell the voxels of a box of an image, and of all other volumes and seeds of the options.

    More than 2^24 voxels are sampled on a regular grid.

    Raises:
        InvalidFileError: If a volume cannot be read.
    """
    found = {f"voxels of {image.name}": _digest_of(image, box)}
    for name in filter(None, volumes_of(options)[1:] if options is not None else ()):
        found[f"voxels of {name}"] = _digest_of(Volume(name, channel=0))
    if options is not None and options.seeds:
        seeds = hashlib.sha256()
        for name in seed_files(options.seeds):
            _add(seeds, read_seeds(name))
        found[f"seeds in {options.seeds}"] = seeds.hexdigest()[:_LETTERS]
    return found


def _digest_of(volume: Volume, box: Box | None = None) -> str:
    return sampled_digest(volume.read, box or ((0, 0, 0), volume.shape), volume.chunks)


def sampled_digest(read: Callable[[Box], NDArray[Any]], whole: Box, chunks: Vec3) -> str:
    """Return a digest of the voxels of a box. For a large box, the digest covers small boxes in some of its chunks."""
    first, size = whole
    if math.prod(size) <= _WHOLE:
        edges = [max(chunks[0], _SLAB // max(1, size[1] * size[2])), size[1], size[2]]
        grid = [list(range(0, n, edge)) for n, edge in zip(size, edges, strict=True)]
    else:
        edges = [min(n, _EDGE, extent) for n, extent in zip(chunks, size, strict=True)]
        grid = [starts(*axis) for axis in zip(size, edges, _GRID, strict=True)]
    found = hashlib.sha256()
    for place in itertools.product(*grid):
        z, y, x = (a + b for a, b in zip(first, place, strict=True))
        k, j, i = (min(n, m - b) for n, m, b in zip(edges, size, place, strict=True))
        _add(found, read(((z, y, x), (k, j, i))))
    return found.hexdigest()[:_LETTERS]


def _add(found: Any, array: NDArray[Any]) -> None:
    found.update(f"{array.dtype.name} {array.shape}".encode())
    found.update(np.ascontiguousarray(array).tobytes())
