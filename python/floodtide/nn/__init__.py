# SPDX-License-Identifier: Apache-2.0
"""Networks and their losses. Arrays are C-contiguous float32 with axes (z, y, x). Other types raise, without a cast."""

from floodtide.base.network_options import UNetOptions
from floodtide.nn.ffn import FFN
from floodtide.nn.load import load
from floodtide.nn.losses import SegmentationLoss
from floodtide.nn.network import Network
from floodtide.nn.unet import UNet

__all__ = [
    "FFN",
    "Network",
    "SegmentationLoss",
    "UNet",
    "UNetOptions",
    "load",
]
