# SPDX-License-Identifier: Apache-2.0
"""Rules for U-Nets. Those for affinities are the rules of examples/evening.toml (scores: docs/real_em.md)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.data import Vec3
from floodtide.data.boxes import as_vec3
from floodtide.data.formats.geometry import SizeNm
from floodtide.plan import geometry, networks
from floodtide.plan.wish import ZERO_BOUNDARY, Recipe, Wish

FEATURES, WALKERS = 16, 4
CLASS_WALKERS, CLASS_BATCH = 2, 4
PATCH, FLAT_PATCH = 32, 256
"""Voxels of a patch along the axes with the smallest voxels: of three-dimensional and two-dimensional networks."""

COARSE_NM = 16.0
"""Voxels below this size are merged two by two along each axis, if enough voxels are left."""
# voxels along each axis that must be left: of the image, and of boxes with labels
_LEFT, _LEFT_LABELLED = 96, 16

_FLAT = 4.0  # ratio of the section thickness to a pixel from which sections are seen alone
_FEW_SECTIONS = 8
_FAR, _FLAT_FAR = (0.1, 0.25), (0.03, 0.08)  # distances of far affinities, as shares of a patch
_HALF = 0.75  # half the width of a ball, divided by the mean length of a line through it
_SAME = 1.5  # ratio of voxel sizes along two axes up to which both are pooled, and kernels are 3 voxels long
_AVERAGE = 0.99  # over 100 steps
_FLAT_DEPTH, _DEPTH = 5, 4


def coarser(shape: Vec3, labelled: Vec3, voxel_size_nm: SizeNm) -> SizeNm:
    """Return the voxel size (z, y, x) to train at: small voxels are doubled, while enough of them are left.

    Args:
        shape: Size (z, y, x) of the image in voxels.
        labelled: Smallest extents (z, y, x) of the boxes with labels.
        voxel_size_nm: That of the image.
    """
    extents, boxes, sizes = list(shape), list(labelled), list(voxel_size_nm)
    while True:
        small = [axis for axis in range(3) if sizes[axis] < COARSE_NM]
        if not small or any(
            extents[axis] // 2 < _LEFT or boxes[axis] // 2 < _LEFT_LABELLED for axis in small
        ):
            return sizes[0], sizes[1], sizes[2]
        for axis in small:
            extents[axis] //= 2
            boxes[axis] //= 2
            sizes[axis] *= 2


def unet_recipe(wish: Wish) -> Recipe:
    """Return the rules for a U-Net of random weights. Raise InvalidArgumentError if the images are too small."""
    flat, why = _flat(wish)
    classes = not wish.task.of_objects
    depth = _FLAT_DEPTH if flat else _DEPTH
    # sections are never pooled
    size = (1e9, *wish.edges[1:]) if flat else wish.edges
    pools, kernels = _levels(size, depth)
    total = [math.prod(pool[axis] for pool in pools) for axis in range(3)]
    patch = _patch(wish.shape, size, total, flat)
    runs = np.mean([one.run for one in wish.labels_seen], axis=0)
    half = np.clip(_HALF * runs, 1, np.maximum(1, np.divide(patch, 4))).round(1).tolist()
    separated = max(one.zero_between for one in wish.labels_seen) > ZERO_BOUNDARY
    keys = {
        "offsets": _offsets(patch, _FLAT_FAR if flat else _FAR),
        "window": half,
        "scale": half[2],
        "zero_is_boundary": separated,
        "balance": True,
        "class_weights": dict.fromkeys(getattr(wish.task, "channels", ()), 1.0),
    }
    own = {field.name for field in dataclasses.fields(wish.task)}
    task: Any = dataclasses.replace(wish.task, **{k: v for k, v in keys.items() if k in own})
    reach = [max((-one[axis] for one in task.affinity_offsets), default=0) for axis in range(3)]
    loss = "dice+cross_entropy" if classes else "cross_entropy"
    options = nn.UNetOptions(depth=depth, features=FEATURES, kernels=kernels, pools=pools)
    model = nn.UNet(options, classes=len(task.channels), output=task.output)
    shown = {
        "model": options,
        "patch": patch,
        "why_flat": why,
        "separated": separated,
        "loss": loss,
        "alike": all(pool == (2, 2, 2) for pool in pools),
        "pools": pools if len(set(pools)) > 1 else pools[:1],
        "kernels": kernels if len(set(kernels)) > 1 else kernels[:1],
    }
    return Recipe(
        template="unet.toml",
        task=task,
        unit="patches",
        needs=geometry.Needs(
            patch=patch,
            guard=as_vec3([1 if flat else max(1, n // 2) for n in patch]),
            inside=False,
            sections=flat,
            reach=as_vec3(reach),
        ),
        extents=(patch,),
        shown=shown,
        rate=lambda: networks.patch_rate(model, patch, loss),
        walkers=CLASS_WALKERS if classes else max(WALKERS, _core.num_threads()),
        batch=CLASS_BATCH if classes else 1,
        average=_AVERAGE,
    )


def _flat(wish: Wish) -> tuple[bool, str]:
    """Return True if a network should see sections alone, and why."""
    if all(size[0] == 1 for own in wish.boxes for _, size in own):
        return True, "labels are in single sections"
    if wish.voxel_size_nm is None:
        return True, "the voxel size is not known, so that sections may lie far apart"
    z, *others = wish.voxel_size_nm
    if z >= _FLAT * min(others) and not wish.task.of_objects:
        return True, f"sections are {z / min(others):.0f} times as thick as a pixel"
    if wish.shape[0] < _FEW_SECTIONS:
        return True, "there are only a few sections"
    return False, "neighbouring sections show the same structures"


def _levels(
    voxel_size_nm: Sequence[float], depth: int
) -> tuple[tuple[Vec3, ...], tuple[Vec3, ...]]:
    """Return pooling factors and kernels of the levels. Axes with larger voxels wait until the others are as large."""
    sizes = list(voxel_size_nm)
    pools, kernels = [], []
    for _ in range(depth):
        near = [size <= _SAME * min(sizes) for size in sizes]
        kernels.append(as_vec3([3 if one else 1 for one in near]))
        pools.append(as_vec3([2 if one else 1 for one in near]))
        sizes = [size * pool for size, pool in zip(sizes, pools[-1], strict=True)]
    return tuple(pools[:-1]), tuple(kernels)


def _patch(shape: Vec3, voxel_size_nm: Sequence[float], total: Sequence[int], flat: bool) -> Vec3:
    """Return the largest patch, about a cube of tissue or a square of a section, that the images hold."""
    least = min(voxel_size_nm)
    for extent in (FLAT_PATCH, 128, 64, 32, 16) if flat else (PATCH, 24, 16, 8):
        patch = []
        for whole, size, pool in zip(shape, voxel_size_nm, total, strict=True):
            wanted = max(pool, 8, round(extent * least / size / pool) * pool)
            patch.append(min(wanted, whole // pool * pool))
        if flat:
            patch[0] = 1
        if min(patch) > 0:
            return as_vec3(patch)
    raise geometry.too_small(shape)


def _offsets(patch: Vec3, shares: Sequence[float]) -> tuple[Vec3, ...]:
    """Return the nearest neighbours along each axis, then farther voxels, nearest first."""
    found: list[Vec3] = []
    for share in (0.0, *shares):
        for axis, extent in enumerate(patch):
            step = 1 if share == 0 else min(max(2, round(share * extent)), extent // 2)
            if extent > 1:
                found.append(as_vec3([-step if axis == other else 0 for other in range(3)]))
    return tuple(dict.fromkeys(found))
