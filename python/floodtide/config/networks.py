# SPDX-License-Identifier: Apache-2.0
"""The [model] section of a configuration: one dataclass for each kind of network."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.base import limits
from floodtide.base.data_options import FLOOD, PATCHES, SLICES
from floodtide.base.network_options import FfnOptions, UNet3DOptions, UNetOptions, Vec3
from floodtide.base.options import FOLDER, Checked, option


@dataclass(frozen=True, kw_only=True)
class _Kind(Checked):
    """The keys of every network beside its architecture."""

    kind: str = option("", "Kind of network")
    initial_weights: str = option(
        "",
        "Start from the weights of this checkpoint; empty: random (He-normal) weights",
        path=True,
        differs=FOLDER,
    )


@dataclass(frozen=True, kw_only=True)
class FfnConfig(FfnOptions, _Kind):
    """A flood-filling network."""

    kind: str = option(FLOOD, "Flood-filling network", choices=(FLOOD,))
    initial_weights: str = option(
        "",
        "Start from these weights: a floodtide checkpoint, or the prefix of a TensorFlow checkpoint; empty: random"
        " (Glorot-uniform) weights",
        path=True,
        differs=FOLDER,
    )


@dataclass(frozen=True, kw_only=True)
class UNet2DConfig(UNetOptions, _Kind):
    """A 2-D U-Net that assigns a class to every pixel of a slice."""

    kind: str = option(SLICES, "2-D U-Net for slices", choices=(SLICES,))
    classes: int = option(
        2, "Number of classes, including the background", range=limits.EXCLUSIVE_CLASSES
    )


@dataclass(frozen=True, kw_only=True)
class UNet3DConfig(UNet3DOptions, _Kind):
    """A 3-D U-Net that predicts affinities: whether two voxels at some offset belong to one object."""

    kind: str = option(PATCHES, "3-D U-Net for patches of volumes", choices=(PATCHES,))
    offsets: tuple[Vec3, ...] = option(
        ((-1, 0, 0), (0, -1, 0), (0, 0, -1)),
        "Offsets (z, y, x) in voxels of the affinities: whether a voxel and the one at the offset belong to one object;"
        " the nearest neighbours along each axis, and for a mutex watershed also far ones",
        range=limits.OFFSET,
    )

    @property
    def classes(self) -> int:
        """Return the number of outputs: one affinity for each offset."""
        return len(self.offsets)
