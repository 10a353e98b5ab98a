# SPDX-License-Identifier: Apache-2.0
"""Skeletons of objects, by kimimaro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.libraries import library
from floodtide.base.options import Arguments
from floodtide.data.skeletons import Skeleton
from floodtide.shapes.meshes import compact, require_ids

_BYTES_PER_VOXEL = 40  # of kimimaro: labels as 32 bits, distances, and copies of objects
_CHECKED = Arguments(voxel_size=limits.VOXEL_SIZE, min_voxels=limits.SOME_VOXELS)


def skeletons_of(
    truth: NDArray[np.integer[Any]],
    *,
    voxel_size: Sequence[float] = (1.0, 1.0, 1.0),
    min_voxels: int = 1000,
) -> list[Skeleton]:
    """Return the skeletons of all objects with at least `min_voxels` voxels, by TEASAR (kimimaro).

    Branches that are shorter than 1.5 times the local radius plus 30 edges of a voxel are left out.

    Args:
        truth: Objects (z, y, x); values <= 0 are no object.
        voxel_size: Edges of a voxel (z, y, x), in nm or any other unit.
        min_voxels: Smaller objects have no skeleton.

    Raises:
        InvalidArgumentError: If an argument is out of range, or the memory does not suffice.
        UnsupportedError: If kimimaro is not installed.
    """
    _CHECKED.check("skeletons", voxel_size=list(voxel_size), min_voxels=min_voxels)
    limits.require_memory(
        f"skeletons: {' x '.join(map(str, truth.shape))} voxels need",
        _BYTES_PER_VOXEL * truth.size,
        "a smaller box (--box)",
    )
    require_ids(truth, "skeletons")
    kimimaro = library("kimimaro", "skeletons", "skeletons")
    ids, labels = compact(truth)
    found = kimimaro.skeletonize(
        labels,
        teasar_params={"scale": 1.5, "const": 30.0 * max(voxel_size)},
        anisotropy=tuple(map(float, voxel_size)),
        dust_threshold=min_voxels,
        progress=False,
        parallel=1,
    )
    return [
        Skeleton(
            id=int(ids[label]),
            nodes=np.asarray(skeleton.vertices, np.float64) / np.asarray(voxel_size, np.float64),
            edges=np.asarray(skeleton.edges, np.int64).reshape(-1, 2),
        )
        for label, skeleton in sorted(found.items())
    ]
