# SPDX-License-Identifier: Apache-2.0
"""Segmentation by flood filling, and U-Net predictions (`floodtide.segment.predict`), for volumes of any size."""

from floodtide.config import SegmentOptions
from floodtide.segment.flooding import (
    Image,
    Move,
    Object,
    Origin,
    Overlap,
    Segmentation,
    Segmenter,
    output,
)

__all__ = [
    "Image",
    "Move",
    "Object",
    "Origin",
    "Overlap",
    "SegmentOptions",
    "Segmentation",
    "Segmenter",
    "output",
]
