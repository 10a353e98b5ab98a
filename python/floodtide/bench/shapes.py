# SPDX-License-Identifier: Apache-2.0
"""Shapes of the networks that benchmarks measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FfnShape:
    """The flood-filling network and the batch that a benchmark measures.

    Attributes:
        depth: Number of modules.
        fov: Size (z, y, x) of the field of view in voxels.
        features: Number of feature maps.
        batch: Number of examples in a pass.
        compute, parallel: As for `floodtide.nn.FFN`.
    """

    depth: int = 9
    fov: tuple[int, int, int] = (33, 33, 33)
    features: int = 32
    batch: int = 1
    compute: str = "fp32"
    parallel: str = "fovs"

    def __str__(self) -> str:
        z, y, x = self.fov
        return f"depth {self.depth}, fov {z}x{y}x{x}, {self.features} features, batch {self.batch}"


@dataclass(frozen=True, kw_only=True)
class UNetShape:
    """The 2-D U-Net (batch normalisation, softmax, Dice and cross-entropy) and the batch that a benchmark measures.

    Attributes:
        depth, features, classes, compute: As for `floodtide.nn.UNet2D`.
        size: Size (y, x) of a slice in pixels.
        batch: Number of slices in a pass.
    """

    depth: int = 5
    features: int = 16
    classes: int = 2
    size: tuple[int, int] = (240, 240)
    batch: int = 8
    compute: str = "fp32"

    def __str__(self) -> str:
        y, x = self.size
        return (
            f"depth {self.depth}, {self.features} features, {self.classes} classes, {y}x{x}, "
            f"batch {self.batch}"
        )
