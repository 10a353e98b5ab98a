# SPDX-License-Identifier: Apache-2.0
"""Segmentation by flood filling, and U-Net predictions (`floodtide.segment.predict`), for volumes of any size."""

from floodtide.config import SegmentOptions
from floodtide.segment.blocks import in_subvolumes, segment_block, segment_blocks, segment_on_ranks
from floodtide.segment.cut import Cut
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
from floodtide.segment.pieces import Pieces
from floodtide.segment.reconciling import (
    Reconciled,
    read_reconciled,
    reconcile,
    write_reconciled,
)

__all__ = [
    "Cut",
    "Image",
    "Move",
    "Object",
    "Origin",
    "Overlap",
    "Pieces",
    "Reconciled",
    "SegmentOptions",
    "Segmentation",
    "Segmenter",
    "in_subvolumes",
    "output",
    "read_reconciled",
    "reconcile",
    "segment_block",
    "segment_blocks",
    "segment_on_ranks",
    "write_reconciled",
]
