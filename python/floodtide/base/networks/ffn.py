# SPDX-License-Identifier: Apache-2.0
"""Flood-filling networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from floodtide import _core
from floodtide.base import limits
from floodtide.base.networks.network import Architecture, NetworkConfig, Vec3
from floodtide.base.options import FLOOD, option


@dataclass(frozen=True, kw_only=True)
class FfnOptions(Architecture):
    """Architecture of a flood-filling network."""

    examples: ClassVar[str] = FLOOD
    core_options = _core.FfnOptions
    core_network = _core.Ffn

    depth: int = option(
        9, "Modules: one input module and depth - 1 residual modules", range=limits.FFN_DEPTH
    )
    features: int = option(32, "Feature maps of each convolution", range=limits.FFN_FEATURES)
    fov: Vec3 = option(
        (33, 33, 33), "Field of view (z, y, x) in voxels; odd numbers", range=limits.FIELD_OF_VIEW
    )
    deltas: Vec3 = option(
        (8, 8, 8), "Distance (z, y, x) in voxels that the field of view moves", range=limits.DELTA
    )

    @property
    def patch_size(self) -> Vec3:
        """Return the size (z, y, x) in voxels of a training example: the field of view plus `deltas` on each side."""
        z, y, x = (f + 2 * d for f, d in zip(self.fov, self.deltas, strict=True))
        return z, y, x

    @property
    def moves(self) -> dict[str, Any]:
        return {"fov": self.fov, "deltas": self.deltas}

    @property
    def context(self) -> Vec3:
        return (2 * self.depth,) * 3  # each module has two convolutions that see one voxel further


@dataclass(frozen=True, kw_only=True)
class FfnConfig(FfnOptions, NetworkConfig):
    """A flood-filling network."""

    kind: str = option("ffn", "Flood-filling network", choices=("ffn",))
