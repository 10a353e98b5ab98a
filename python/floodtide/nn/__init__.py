# SPDX-License-Identifier: Apache-2.0
"""Networks and their losses. Arrays are C-contiguous float32 with axes (z, y, x). Other types raise, without a cast."""

from floodtide.nn.ffn import FFN
from floodtide.nn.load import load, load_ffn
from floodtide.nn.losses import SegmentationLoss, segmentation_loss
from floodtide.nn.network import Array, Network
from floodtide.nn.unet import SLICE_KERNELS, SLICE_POOLS, UNet, UNet2D, UNet3D

__all__ = [
    "FFN",
    "SLICE_KERNELS",
    "SLICE_POOLS",
    "Array",
    "Network",
    "SegmentationLoss",
    "UNet",
    "UNet2D",
    "UNet3D",
    "load",
    "load_ffn",
    "segmentation_loss",
]
