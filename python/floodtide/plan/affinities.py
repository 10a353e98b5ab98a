# SPDX-License-Identifier: Apache-2.0
"""Rules for a 3-D U-Net that predicts affinities. They are those of examples/evening.toml (scores: docs/real_em.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from floodtide import config, nn
from floodtide.data import Box, Vec3, Volume, box_text, look
from floodtide.data.boxes import as_vec3
from floodtide.errors import InvalidArgumentError
from floodtide.plan import geometry, judging, measuring
from floodtide.plan.document import Choice
from floodtide.plan.geometry import Split
from floodtide.plan.known import SizeNm
from floodtide.plan.wish import FEW_STEPS, VALIDATIONS, Wish, axes, rows

DEPTH, FEATURES, WALKERS = 4, 16, 4
PATCH = 32
"""Voxels of a patch along the axes with the smallest voxels."""

COARSE_NM = 16.0
"""Voxels below this size are merged two by two along each axis, if enough voxels are left."""
_LEFT = 96  # voxels along each axis that must be left

_DISTANCES_NM = (60.0, 160.0)  # of far affinities
_SAME = 1.5  # ratio of voxel sizes along two axes up to which both are pooled, and kernels are 3 voxels long
_ZERO_BOUNDARY = (
    0.25  # share of the voxels at changes of label that are 0, above which 0 separates objects
)
_PATCHES = 256  # of an epoch
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


@dataclass(frozen=True, kw_only=True)
class AffinitiesRecipe:
    """Rules for a U-Net of random weights that predicts affinities. See `Recipe`."""

    wish: Wish
    patch: Vec3
    pools: tuple[Vec3, ...]
    kernels: tuple[Vec3, ...]
    offsets: tuple[Vec3, ...]

    unit = "patches"

    @property
    def guard(self) -> Vec3:
        return as_vec3([n // 2 for n in self.patch])

    def data(self, labels: Volume, box: Box) -> list[Choice]:
        found = look.label_statistics(labels, box=box, budget=look.QUICK)
        separated = found.boundary_zero > _ZERO_BOUNDARY
        values: list[tuple[str, Any, str]] = [
            ("patch", list(self.patch), self._patch_reason()),
            ("patches", _PATCHES, "Patches of an epoch; each is at another random place."),
            (
                "zero_is_boundary",
                separated,
                "Voxels of label 0 lie between the objects, so they are boundaries."
                if separated
                else "Objects touch each other, so voxels of label 0 are unlabelled and are ignored.",
            ),
            (
                "balance",
                True,
                "Boundaries are rare: they get as much weight as the inside of objects.",
            ),
        ]
        return [*axes(self.wish.voxel_size_nm, self.patch), *rows("data", values)]

    def _patch_reason(self) -> str:
        sizes = [n * size for n, size in zip(self.patch, self.wish.voxel_size_nm, strict=True)]
        return f"About a cube of tissue where the volume allows it: {judging.size_text(sizes)} nm."

    def model(self) -> list[Choice]:
        alike = all(pool == (2, 2, 2) for pool in self.pools)
        reason = (
            "Voxels are alike along all axes."
            if alike
            else "Along the axes with larger voxels, pooling and kernels begin where the voxels have become alike."
        )
        values: list[tuple[str, Any, str]] = [
            (
                "kind",
                "unet3d",
                "A U-Net for affinities: its segments are useful after minutes. A flood-filling network from random"
                " weights needs hours to days (docs/real_em_training.md).",
            ),
            (
                "offsets",
                [list(offset) for offset in self.offsets],
                "Neighbours, and voxels about 60 and 160 nm away (at most half a patch), which show where"
                " membranes are faint.",
            ),
            ("depth", DEPTH, "As in examples/evening.toml."),
            ("features", FEATURES, "As in examples/evening.toml."),
            ("pools", [list(pool) for pool in self.pools], reason),
            ("kernels", [list(kernel) for kernel in self.kernels], reason),
        ]
        return rows("model", values)

    def rate(self, settings: config.Config) -> float:
        model = nn.UNet3D(
            nn.UNet3DOptions(
                depth=DEPTH, features=FEATURES, kernels=self.kernels, pools=self.pools
            ),
            classes=len(self.offsets),
        )
        return measuring.patch_rate(model, self.patch)

    def walkers(self, examples: float) -> int:
        return max(WALKERS, measuring.threads())

    def training(self, walkers: int, steps: int, rate: float) -> list[Choice]:
        average = max(0.0, round(min(_AVERAGE, 1 - 5 / steps), 4))
        return [
            *rows(
                "training",
                [
                    (
                        "walkers",
                        walkers,
                        "The global batch: enough patches at a time for a steady gradient.",
                    ),
                    (
                        "steps",
                        steps,
                        f"What 80 % of the time allow at the measured {rate:.1f} patches per second; the rest is for"
                        " validation and checkpoints.",
                    ),
                    ("loss", "cross_entropy", "As in examples/evening.toml."),
                    (
                        "average",
                        average,
                        "Validation and prediction use a moving average of the parameters.",
                    ),
                ],
            ),
            *rows(
                "optimizer",
                [
                    ("name", "adam", "As in examples/evening.toml."),
                    ("lr", 1e-3, "As in examples/evening.toml."),
                ],
            ),
            *rows(
                "schedule",
                [
                    ("name", "cosine", "The rate falls to 0 at the last step."),
                    (
                        "warmup_steps",
                        min(50, max(1, steps // 10)),
                        "The first gradients are the largest.",
                    ),
                    ("warmup_start", "zero", "As above."),
                ],
            ),
        ]

    def validation(self, split: Split, steps: int) -> list[Choice]:
        few = steps < FEW_STEPS
        return rows(
            "validation",
            [
                (
                    "box",
                    box_text(split.validation),
                    "Held out: no training patch reads a voxel of it.",
                ),
                (
                    "every",
                    0 if few else -(-steps // VALIDATIONS),
                    "Only at the end: there are few steps."
                    if few
                    else f"{VALIDATIONS} validations in the training.",
                ),
            ],
        )

    def segment(self, split: Split) -> list[Choice]:
        return []  # `floodtide segment` takes network, volume and box from the training


def affinities_recipe(image: Volume, wish: Wish) -> AffinitiesRecipe:
    """Return the rules for affinities on a volume.

    Raises:
        InvalidArgumentError: If the volume is too small.
    """
    pools, kernels = _levels(wish.voxel_size_nm)
    total = [math.prod(pool[axis] for pool in pools) for axis in range(3)]
    patch = _patch(image.shape, wish.voxel_size_nm, total)
    return AffinitiesRecipe(
        wish=wish,
        patch=patch,
        pools=pools,
        kernels=kernels,
        offsets=_offsets(wish.voxel_size_nm, patch),
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
    raise InvalidArgumentError(
        f"init: a volume of {judging.size_text(shape)} voxels is too small for a training and a validation part;"
        " expected more voxels along one axis"
    )


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
