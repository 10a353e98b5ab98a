# SPDX-License-Identifier: Apache-2.0
"""Two-dimensional U-Nets, whose kernels and pools are 1 along z."""

from __future__ import annotations

from typing import Any

from golden.unets import SLICES as FLAT

from floodtide import nn


def flat_unet(
    depth: int = 2, *, classes: int = 2, in_channels: int = 1, seed: int = 0, **options: Any
) -> nn.UNet:
    """Return a two-dimensional network; `options` are further fields of UNetOptions."""
    made = nn.UNetOptions(depth=depth, **FLAT, **options)
    return nn.UNet(made, classes=classes, in_channels=in_channels, seed=seed)
