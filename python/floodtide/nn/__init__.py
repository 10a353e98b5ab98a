# SPDX-License-Identifier: Apache-2.0
"""Networks and their losses. Arrays are C-contiguous float32 with axes (z, y, x). Other types raise, without a cast."""

from floodtide.base.networks import UNetOptions
from floodtide.nn.ffn import FFN
from floodtide.nn.load import load
from floodtide.nn.losses import SegmentationLoss
from floodtide.nn.network import Network
from floodtide.nn.unet import PatchNetwork, UNet

__all__ = ["FFN", "Network", "PatchNetwork", "SegmentationLoss", "UNet", "UNetOptions", "load"]
