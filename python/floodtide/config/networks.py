# SPDX-License-Identifier: Apache-2.0
"""The [model] section of a configuration: one dataclass for each kind of network."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.base import limits
from floodtide.base.options import FOLDER, Checked, option

Vec3 = tuple[int, int, int]
FLOOD, SLICES, PATCHES = "ffn", "unet2d", "unet3d"  # kinds of networks, by what they are trained on


@dataclass(frozen=True, kw_only=True)
class FfnConfig(Checked):
    """A flood-filling network."""

    kind: str = option(FLOOD, "Flood-filling network", choices=(FLOOD,))
    depth: int = option(
        9, "Modules: one input module and depth - 1 residual modules", range=limits.FFN_DEPTH
    )
    features: int = option(32, "Feature maps of each convolution", range=limits.FFN_FEATURES)
    fov: Vec3 = option(
        (33, 33, 33), "Field of view (z, y, x) in voxels, odd", range=limits.FIELD_OF_VIEW
    )
    deltas: Vec3 = option(
        (8, 8, 8), "Step of the field of view (z, y, x) in voxels", range=limits.DELTA
    )
    initial_weights: str = option(
        "",
        "Checkpoint of ours or TensorFlow prefix to start from; empty: Glorot-uniform weights",
        path=True,
        differs=FOLDER,
    )

    @property
    def patch_size(self) -> Vec3:
        """Size (z, y, x) in voxels of a training example: the field of view and one step to each side."""
        z, y, x = (f + 2 * d for f, d in zip(self.fov, self.deltas, strict=True))
        return z, y, x


@dataclass(frozen=True, kw_only=True)
class UNet2DConfig(Checked):
    """A U-Net that tells classes of pixels in slices."""

    kind: str = option(SLICES, "U-Net of slices", choices=(SLICES,))
    classes: int = option(2, "Classes, background included", range=limits.EXCLUSIVE_CLASSES)
    depth: int = option(
        5, "Levels of resolution, each half as fine as the one before", range=limits.UNET_DEPTH
    )
    features: int = option(
        16,
        "Feature maps of the first level, a multiple of 16; twice as many each level",
        range=limits.UNET_FEATURES,
    )
    batch_norm: bool = option(True, "Normalise each convolution's output over the batch")
    synchronised: bool = option(
        False, "Statistics of that over all walkers' batches, instead of each walker's own"
    )
    dropout: float = option(
        0.0, "Share of the lowest level's outputs that training leaves out", range=limits.DROPOUT
    )
    initial_weights: str = option(
        "", "Checkpoint to start from; empty: He-normal weights", path=True, differs=FOLDER
    )


@dataclass(frozen=True, kw_only=True)
class UNet3DConfig(Checked):
    """A U-Net that predicts affinities: whether a voxel and the one before it along z, y, x are of the same object."""

    kind: str = option(PATCHES, "U-Net of volumes", choices=(PATCHES,))
    depth: int = option(4, "Levels of resolution", range=limits.UNET_DEPTH)
    features: int = option(
        16,
        "Feature maps of the first level, a multiple of 16; twice as many each level",
        range=limits.UNET_FEATURES,
    )
    kernels: tuple[Vec3, ...] = option(
        ((3, 3, 3),),
        "Kernels (z, y, x) of 1 or 3: one for all levels, or one a level",
        range=limits.KERNEL,
    )
    pools: tuple[Vec3, ...] = option(
        ((2, 2, 2),),
        "Steps (z, y, x) from level to level: one for all, or depth - 1 of them",
        range=limits.POOL,
    )
    batch_norm: bool = option(True, "Normalise each convolution's output over the batch")
    synchronised: bool = option(
        False, "Statistics of that over all walkers' batches, instead of each walker's own"
    )
    dropout: float = option(
        0.0, "Share of the lowest level's outputs that training leaves out", range=limits.DROPOUT
    )
    initial_weights: str = option(
        "", "Checkpoint to start from; empty: He-normal weights", path=True, differs=FOLDER
    )
