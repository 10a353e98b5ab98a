# SPDX-License-Identifier: Apache-2.0
"""The architecture of networks: options that a configuration, a script and the core share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Checked, option

Vec3 = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class FfnOptions(Checked):
    """Architecture of a flood-filling network."""

    depth: int = option(
        9,
        "Number of modules: one input module and depth - 1 residual modules",
        range=limits.FFN_DEPTH,
    )
    features: int = option(
        32, "Number of feature maps of each convolution", range=limits.FFN_FEATURES
    )
    fov: Vec3 = option(
        (33, 33, 33),
        "Size (z, y, x) of the field of view in voxels; odd numbers",
        range=limits.FIELD_OF_VIEW,
    )
    deltas: Vec3 = option(
        (8, 8, 8),
        "Distance (z, y, x) in voxels by which the field of view moves",
        range=limits.DELTA,
    )

    @property
    def patch_size(self) -> Vec3:
        """Return the size (z, y, x) in voxels of a training example: the field of view plus `deltas` on each side."""
        z, y, x = (f + 2 * d for f, d in zip(self.fov, self.deltas, strict=True))
        return z, y, x

    def core(self, **others: Any) -> _core.FfnOptions:
        """Return the options of the core's network: these, and `others` by their names in the core."""
        return _core.FfnOptions(
            depth=self.depth,
            features=self.features,
            fov=list(self.fov),
            deltas=list(self.deltas),
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class UNetOptions(Checked):
    """Architecture of a U-Net. It is two-dimensional if all kernels and pools are 1 along z."""

    depth: int = option(4, "Number of resolution levels", range=limits.UNET_DEPTH)
    features: int = option(
        16,
        "Number of feature maps of the first level, a multiple of 16; each further level has twice as many",
        range=limits.UNET_FEATURES,
    )
    kernels: tuple[Vec3, ...] = option(
        ((3, 3, 3),),
        "Kernel sizes (z, y, x), each 1 or 3: one entry for all levels, or one entry for each level; [[1, 3, 3]] sees"
        " single sections",
        range=limits.KERNEL,
    )
    pools: tuple[Vec3, ...] = option(
        ((2, 2, 2),),
        "Pooling factors (z, y, x) from each level to the next: one entry for all, or depth - 1 entries",
        range=limits.POOL,
    )
    batch_norm: bool = option(
        True, "Normalise the output of each convolution over the batch (batch normalisation)"
    )
    synchronised: bool = option(
        False,
        "Compute the statistics of batch normalisation over the batches of all walkers, not over each walker's batch",
    )
    dropout: float = option(
        0.0,
        "Dropout: share of the lowest level's outputs that training sets to zero",
        range=limits.DROPOUT,
    )

    def core(self, **others: Any) -> _core.UNetOptions:
        """Return the options of the core's network: these, and `others` by their names in the core."""
        return _core.UNetOptions(
            depth=self.depth,
            features=self.features,
            kernels=[tuple(kernel) for kernel in self.kernels],
            pools=[tuple(pool) for pool in self.pools],
            batch_norm=self.batch_norm,
            synchronised=self.synchronised,
            dropout=self.dropout,
            **others,
        )
