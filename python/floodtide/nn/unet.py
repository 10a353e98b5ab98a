# SPDX-License-Identifier: Apache-2.0
"""U-Nets."""

from __future__ import annotations

from floodtide import _core
from floodtide.base import limits
from floodtide.base.networks import UNetOptions
from floodtide.base.options import Arguments
from floodtide.nn.patch_network import PatchNetwork

_UNET = Arguments(classes=limits.CLASSES, in_channels=limits.UNET_CHANNELS, seed=limits.SEED)


class UNet(PatchNetwork):
    """A U-Net. It is two-dimensional, for single sections, if all kernels and pools of its options are 1 along z.

    Sources: Ronneberger et al., MICCAI 2015; Çiçek et al., MICCAI 2016.

    Args:
        options: The architecture; None: the defaults of `UNetOptions`.
        classes: The number of outputs per voxel.
        in_channels: The number of channels of the images.
        output: "softmax" for mutually exclusive classes, "sigmoid" for independent outputs.
        seed: The random seed of the initial weights and of dropout.
        compute: "fp32"; "fp32-direct" for convolutions without Winograd transforms.

    Raises:
        InvalidArgumentError: If an argument is out of range.
    """

    core: _core.UNet

    def __init__(
        self,
        options: UNetOptions | None = None,
        *,
        classes: int = 2,
        in_channels: int = 1,
        output: str = "softmax",
        seed: int = 0,
        compute: str = "fp32",
    ) -> None:
        _UNET.check("UNet", classes=classes, in_channels=in_channels, seed=seed)
        made = (options or UNetOptions()).core(
            classes=classes, in_channels=in_channels, output=output, seed=seed, compute=compute
        )
        super().__init__(_core.UNet(made), seed=seed)

    def __repr__(self) -> str:
        options = self.core.options
        dimensions = 2 if self.flat else 3
        return (
            f"UNet({dimensions}-D, depth={options.depth}, features={options.features}, classes={options.classes},"
            f" in_channels={options.in_channels})"
        )
