# SPDX-License-Identifier: Apache-2.0
"""Segmentation by flood filling, and U-Net predictions (`floodtide.segment.predict`), for volumes of any size."""

from floodtide.config import SegmentOptions
from floodtide.segment.canvas import Seeded, read_origins
from floodtide.segment.commands import Flooding
from floodtide.segment.flooding import Move, Object, Segmentation, Segmenter
from floodtide.segment.pieces import Pieces
from floodtide.segment.predict import Predictor, predict_volume
from floodtide.segment.reconciling import reconcile, write_reconciled

__all__ = [
    "Flooding", "Move", "Object", "Pieces", "Predictor", "Seeded", "SegmentOptions",
    "Segmentation", "Segmenter", "predict_volume", "read_origins", "reconcile",
    "write_reconciled",
]  # fmt: skip
