# SPDX-License-Identifier: Apache-2.0
"""Rules for a 3-D U-Net that predicts affinities. They are those of examples/evening.toml (scores: docs/real_em.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from floodtide import _core, nn
from floodtide.data import Box, Vec3, Volume, look
from floodtide.data.boxes import as_vec3
from floodtide.data.formats.geometry import SizeNm
from floodtide.plan import geometry, measuring
from floodtide.plan.wish import Recipe, Wish, average_over

DEPTH, FEATURES, WALKERS = 4, 16, 4
PATCH = 32
"""Voxels of a patch along the axes with the smallest voxels."""

COARSE_NM = 16.0
"""Voxels below this size are merged two by two along each axis, if enough voxels are left."""
_LEFT = 96  # voxels along each axis that must be left

_DISTANCES_NM = (60.0, 160.0)  # of far affinities
_SAME = 1.5  # ratio of voxel sizes along two axes up to which both are pooled, and kernels are 3 voxels long
# Share of the voxels at changes of label that are 0, above which 0 separates objects.
_ZERO_BOUNDARY = 0.25
_AVERAGE = 0.99  # over 100 steps


def coarser(shape: Vec3, voxel_size_nm: SizeNm) -> SizeNm:
    """Return the voxel size (z, y, x) to train at: small voxels are doubled, while enough of them are left."""
    extents, sizes = list(shape), list(voxel_size_nm)
    while True:
        small = [axis for axis in range(3) if sizes[axis] < COARSE_NM]
        if not small or any(extents[axis] // 2 < _LEFT for axis in small):
            return sizes[0], sizes[1], sizes[2]
        for axis in small:
            extents[axis] //= 2
            sizes[axis] *= 2


def affinities_recipe(image: Volume, wish: Wish) -> Recipe:
    """Return the rules for a U-Net of random weights that predicts affinities on a volume.

    Raises:
        InvalidArgumentError: If the volume is too small.
    """
    pools, kernels = _levels(wish.voxel_size_nm)
    total = [math.prod(pool[axis] for pool in pools) for axis in range(3)]
    patch = _patch(image.shape, wish.voxel_size_nm, total)
    offsets = _offsets(wish.voxel_size_nm, patch)

    def rate() -> float:
        options = nn.UNet3DOptions(depth=DEPTH, features=FEATURES, kernels=kernels, pools=pools)
        return measuring.patch_rate(nn.UNet3D(options, classes=len(offsets)), patch)

    def look_at(labels: Volume, box: Box, steps: int) -> dict[str, Any]:
        found = look.label_statistics(labels, box=box, budget=look.QUICK)
        return {
            "separated": found.zero_between > _ZERO_BOUNDARY,
            "average": average_over(steps, _AVERAGE),
        }

    return Recipe(
        unit="patches",
        patch=patch,
        guard=as_vec3([n // 2 for n in patch]),
        extents=(patch,),
        shown={
            "depth": DEPTH,
            "features": FEATURES,
            "patch": patch,
            "patch_nm": [n * nm for n, nm in zip(patch, wish.voxel_size_nm, strict=True)],
            "pools": pools,
            "kernels": kernels,
            "alike": all(pool == (2, 2, 2) for pool in pools),
            "offsets": offsets,
        },
        rate=rate,
        walkers=lambda _: max(WALKERS, _core.num_threads()),
        look=look_at,
    )


def _levels(voxel_size_nm: SizeNm) -> tuple[tuple[Vec3, ...], tuple[Vec3, ...]]:
    """Return pooling factors and kernels of the levels. Axes with larger voxels wait until the others are as large."""
    sizes = list(voxel_size_nm)
    pools, kernels = [], []
    for _ in range(DEPTH):
        near = [size <= _SAME * min(sizes) for size in sizes]
        kernels.append(as_vec3([3 if one else 1 for one in near]))
        pools.append(as_vec3([2 if one else 1 for one in near]))
        sizes = [size * pool for size, pool in zip(sizes, pools[-1], strict=True)]
    return tuple(pools[:-1]), tuple(kernels)


def _patch(shape: Vec3, voxel_size_nm: SizeNm, total: Sequence[int]) -> Vec3:
    """Return the largest patch, about a cube of tissue, with which the volume can be split."""
    least = min(voxel_size_nm)
    for extent in (PATCH, 24, 16, 8):
        patch = [
            max(pool, 8, round(extent * least / size / pool) * pool)
            for size, pool in zip(voxel_size_nm, total, strict=True)
        ]
        found = as_vec3(
            [
                min(n, whole // pool * pool)
                for n, whole, pool in zip(patch, shape, total, strict=True)
            ]
        )
        if min(found) > 0 and geometry.splits(shape, found, as_vec3([n // 2 for n in found])):
            return found
    raise geometry.too_small(shape)


def _offsets(voxel_size_nm: SizeNm, patch: Vec3) -> tuple[Vec3, ...]:
    """Return the nearest neighbours along each axis, then farther voxels, nearest first."""
    found: list[Vec3] = []
    for nm in (0.0, *_DISTANCES_NM):
        for axis, size in enumerate(voxel_size_nm):
            step = 1 if nm == 0 else min(max(2, round(nm / size)), patch[axis] // 2)
            offset = as_vec3([-step if axis == other else 0 for other in range(3)])
            if offset not in found:
                found.append(offset)
    return tuple(found)
