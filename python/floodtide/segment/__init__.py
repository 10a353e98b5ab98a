# SPDX-License-Identifier: Apache-2.0
"""Segmentation by flood filling, and U-Net predictions (`floodtide.segment.predict`), for volumes of any size."""

from floodtide.config import SegmentOptions
from floodtide.segment.blocks import in_subvolumes, segment_block, segment_blocks, segment_on_ranks
from floodtide.segment.canvas_image import Image
from floodtide.segment.checkpoints import remove_checkpoints
from floodtide.segment.coarse import CoarseCounts
from floodtide.segment.commands import segment_subvolumes, segment_volume
from floodtide.segment.cut import Cut
from floodtide.segment.estimating import estimate
from floodtide.segment.flooding import (
    Move,
    Object,
    Origin,
    Overlap,
    Segmentation,
    Segmenter,
    output,
)
from floodtide.segment.pieces import Pieces
from floodtide.segment.predict import Predictor
from floodtide.segment.predicting import predict_volume
from floodtide.segment.reconciling import (
    Reconciled,
    read_probabilities,
    read_reconciled,
    reconcile,
    write_probabilities,
    write_reconciled,
)
from floodtide.segment.seeds import Seeded, read_origins, read_seeds
from floodtide.segment.settings import load_options
from floodtide.segment.split_consensus import consensus, write_consensus

__all__ = [
    "CoarseCounts",
    "Cut",
    "Image",
    "Move",
    "Object",
    "Origin",
    "Overlap",
    "Pieces",
    "Predictor",
    "Reconciled",
    "Seeded",
    "SegmentOptions",
    "Segmentation",
    "Segmenter",
    "consensus",
    "estimate",
    "in_subvolumes",
    "load_options",
    "output",
    "predict_volume",
    "read_origins",
    "read_probabilities",
    "read_reconciled",
    "read_seeds",
    "reconcile",
    "remove_checkpoints",
    "segment_block",
    "segment_blocks",
    "segment_on_ranks",
    "segment_subvolumes",
    "segment_volume",
    "write_consensus",
    "write_probabilities",
    "write_reconciled",
]
