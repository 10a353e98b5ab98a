# SPDX-License-Identifier: Apache-2.0
"""Segmentation by flood filling, and U-Net predictions (`floodtide.segment.predict`), for volumes of any size."""

from floodtide.config import SegmentOptions
from floodtide.segment.blocks import in_subvolumes, segment_block
from floodtide.segment.commands import segment_subvolumes, segment_volume
from floodtide.segment.estimating import estimate
from floodtide.segment.flooding import Move, Object, Segmentation, Segmenter
from floodtide.segment.pieces import Pieces
from floodtide.segment.predict import Predictor
from floodtide.segment.predicting import predict_volume
from floodtide.segment.reconciling import reconcile, write_reconciled
from floodtide.segment.seeds import Seeded, read_origins
from floodtide.segment.settings import load_options
from floodtide.segment.split_consensus import consensus, write_consensus

__all__ = [
    "Move",
    "Object",
    "Pieces",
    "Predictor",
    "Seeded",
    "SegmentOptions",
    "Segmentation",
    "Segmenter",
    "consensus",
    "estimate",
    "in_subvolumes",
    "load_options",
    "predict_volume",
    "read_origins",
    "reconcile",
    "segment_block",
    "segment_subvolumes",
    "segment_volume",
    "write_consensus",
    "write_reconciled",
]
