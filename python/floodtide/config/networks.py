# SPDX-License-Identifier: Apache-2.0
"""The [model] section of a configuration: one dataclass for each kind of network."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.base import limits
from floodtide.base.options import FOLDER, Checked, option

Vec3 = tuple[int, int, int]
FLOOD, SLICES, PATCHES = "ffn", "unet2d", "unet3d"  # model.kind, named here by the training data


@dataclass(frozen=True, kw_only=True)
class FfnConfig(Checked):
    """A flood-filling network."""

    kind: str = option(FLOOD, "Flood-filling network", choices=(FLOOD,))
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
    initial_weights: str = option(
        "",
        "Start from these weights: a floodtide checkpoint, or the prefix of a TensorFlow checkpoint; empty: random"
        " (Glorot-uniform) weights",
        path=True,
        differs=FOLDER,
    )

    @property
    def patch_size(self) -> Vec3:
        """Return the size (z, y, x) in voxels of a training example: the field of view plus `deltas` on each side."""
        z, y, x = (f + 2 * d for f, d in zip(self.fov, self.deltas, strict=True))
        return z, y, x


@dataclass(frozen=True, kw_only=True)
class UNet2DConfig(Checked):
    """A 2-D U-Net that assigns a class to every pixel of a slice."""

    kind: str = option(SLICES, "2-D U-Net for slices", choices=(SLICES,))
    classes: int = option(
        2, "Number of classes, including the background", range=limits.EXCLUSIVE_CLASSES
    )
    depth: int = option(
        5,
        "Number of resolution levels; each level has half the resolution of the one before",
        range=limits.UNET_DEPTH,
    )
    features: int = option(
        16,
        "Number of feature maps of the first level, a multiple of 16; each further level has twice as many",
        range=limits.UNET_FEATURES,
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
    initial_weights: str = option(
        "",
        "Start from the weights of this checkpoint; empty: random (He-normal) weights",
        path=True,
        differs=FOLDER,
    )


@dataclass(frozen=True, kw_only=True)
class UNet3DConfig(Checked):
    """A 3-D U-Net that predicts affinities: whether two voxels at some offset belong to one object."""

    kind: str = option(PATCHES, "3-D U-Net for patches of volumes", choices=(PATCHES,))
    depth: int = option(4, "Number of resolution levels", range=limits.UNET_DEPTH)
    features: int = option(
        16,
        "Number of feature maps of the first level, a multiple of 16; each further level has twice as many",
        range=limits.UNET_FEATURES,
    )
    kernels: tuple[Vec3, ...] = option(
        ((3, 3, 3),),
        "Kernel sizes (z, y, x), each 1 or 3: one entry for all levels, or one entry for each level",
        range=limits.KERNEL,
    )
    offsets: tuple[Vec3, ...] = option(
        ((-1, 0, 0), (0, -1, 0), (0, 0, -1)),
        "Offsets (z, y, x) in voxels of the affinities: whether a voxel and the one at the offset belong to one object;"
        " the nearest neighbours along each axis, and for a mutex watershed also far ones",
        range=limits.OFFSET,
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
    initial_weights: str = option(
        "",
        "Start from the weights of this checkpoint; empty: random (He-normal) weights",
        path=True,
        differs=FOLDER,
    )
