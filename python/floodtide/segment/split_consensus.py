# SPDX-License-Identifier: Apache-2.0
"""Consensus of two segmentations of the same voxels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.base.outputs import files_of
from floodtide.data import Box, Volume
from floodtide.data.boxes import Progress, as_vec3, part_of
from floodtide.data.copies import BLOCK_BYTES, write_blocks
from floodtide.data.formats.geometry import Geometry
from floodtide.data.formats.writers import CHUNK, Plan, blocks
from floodtide.data.volumes import require_same_grid, whole_geometry
from floodtide.errors import InvalidArgumentError, ShapeError

_CONSENSUS = Arguments(min_size=limits.VOXELS)


def consensus(
    a: NDArray[np.integer[Any]], b: NDArray[np.integer[Any]], *, min_size: int = 1000
) -> NDArray[np.int32]:
    """Return the split consensus of two segmentations: voxels have the same id only if both give them the same id.

    Of the parts into which `b` splits a segment of `a`, the largest keeps its id, the others get new ids. Parts of
    fewer than `min_size` voxels, and voxels without segment in `a`, become 0. Source: google/ffn, consensus.py.

    Args:
        a: Segmentation (z, y, x) of integers; values <= 0 are unsegmented voxels.
        b: Segmentation of the same shape. Its unsegmented voxels count as one segment.
        min_size: Least number of voxels of a part.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If an array does not hold integers of at most 31 bits.
    """
    _CONSENSUS.check("consensus", min_size=min_size)
    labels: NDArray[np.int32] = _core.segment.split_consensus(_int32(a), _int32(b), min_size)
    return labels


def write_consensus(
    a: Volume, b: Volume, destination: str, min_size: int = 1000, progress: Progress | None = None
) -> int:
    """Write the split consensus of two volumes to a volume of any format, block by block. Not collective.

    Args:
        a: Segmentation of unsigned integers.
        b: Segmentation of the same voxels: same shape, same offset if both have one.
        destination: The name of the volume, as for `floodtide.data.convert`.
        min_size: As for `consensus`.
        progress: Called as progress(voxels done, voxels); each voxel counts twice.

    Returns:
        The largest id, at most. Ids are unsigned integers of 32 bits, or 64 if they need them.

    Raises:
        ShapeError: If the volumes have different shapes or offsets.
        InvalidArgumentError: If a volume does not hold unsigned integers, or the destination cannot be written.
    """
    _CONSENSUS.check("consensus", min_size=min_size)
    require_same_grid("consensus", a, b)
    if a.shape != b.shape:
        raise ShapeError(
            f"consensus: {a.name} has {a.shape} voxels, {b.name} {b.shape}; expected the same voxels"
        )
    for volume in (a, b):
        if not np.issubdtype(volume.dtype, np.unsignedinteger):
            raise InvalidArgumentError(
                f"consensus: {volume.name} holds {volume.dtype}, expected unsigned integers"
            )
    first = None if progress is None else part_of(progress, 0, 2)
    second = None if progress is None else part_of(progress, 1, 2)
    table, done = _core.evaluate.ContingencyTable(), 0
    for box in blocks(a.shape, as_vec3([min(CHUNK, n) for n in a.shape]), BLOCK_BYTES // 8):
        table.add(a.read(box), b.read(box))
        done += math.prod(box[1])
        if first is not None:
            first(done, math.prod(a.shape))
    found = _core.segment.SplitConsensus(table.rows(), min_size)
    dtype = np.dtype(np.uint32 if found.largest_id < 2**32 else np.uint64)

    def read(box: Box) -> NDArray[Any]:
        return found.apply(a.read(box).astype(np.uint64), b.read(box).astype(np.uint64)).astype(
            dtype
        )

    stated = [whole_geometry(one.geometry, one.text("image")) for one in (a, b)]
    geometry = Geometry(
        voxel_size_nm=stated[0].voxel_size_nm or stated[1].voxel_size_nm,
        offset=stated[0].offset or stated[1].offset,
    )
    plan = Plan(
        shape=a.shape,
        dtype=dtype,
        geometry=geometry,
        command="floodtide lab consensus",
        notes={"a": a.name, "b": b.name, "min_size": str(min_size)},
    )
    write_blocks(destination, plan, read, inputs=files_of([a.name, b.name]), progress=second)
    return int(found.largest_id)


def _int32(labels: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    if not np.issubdtype(labels.dtype, np.integer) or labels.max(initial=0) >= 2**31:
        raise InvalidArgumentError(
            f"consensus: a segmentation of {labels.dtype}, expected integers below 2^31"
        )
    return np.ascontiguousarray(np.maximum(labels, 0), dtype=np.int32)
