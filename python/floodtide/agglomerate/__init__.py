# SPDX-License-Identifier: Apache-2.0
"""Which segments belong to one object: decision points, pairwise resegmentation, and merged segmentations."""

from floodtide.agglomerate.merging import Merged, merge, should_merge, write_merged
from floodtide.agglomerate.pairs import Pairs
from floodtide.agglomerate.points import DecisionPoint, decision_points
from floodtide.agglomerate.resegmenting import (
    PairScores,
    Regrown,
    resegment_on_ranks,
    resegment_pair,
)

__all__ = [
    "DecisionPoint",
    "Merged",
    "PairScores",
    "Pairs",
    "Regrown",
    "decision_points",
    "merge",
    "resegment_on_ranks",
    "resegment_pair",
    "should_merge",
    "write_merged",
]
