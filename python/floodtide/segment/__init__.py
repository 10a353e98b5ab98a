# SPDX-License-Identifier: Apache-2.0
"""Segmentation by flood filling, and U-Net predictions (`floodtide.segment.predict`), for volumes of any size."""

from floodtide.config import SegmentOptions
from floodtide.segment.blocks import in_subvolumes, segment_block
from floodtide.segment.canvas import Seeded, read_origins
from floodtide.segment.commands import estimate, load_options, segment_subvolumes, segment_volume
from floodtide.segment.flooding import Move, Object, Segmentation, Segmenter
from floodtide.segment.pieces import Pieces
from floodtide.segment.predict import Predictor, predict_volume
from floodtide.segment.reconciling import consensus, reconcile, write_reconciled

__all__ = [
    "Move", "Object", "Pieces", "Predictor", "Seeded", "SegmentOptions", "Segmentation",
    "Segmenter", "consensus", "estimate", "in_subvolumes", "load_options", "predict_volume",
    "read_origins", "reconcile", "segment_block", "segment_subvolumes", "segment_volume",
    "write_reconciled",
]  # fmt: skip
