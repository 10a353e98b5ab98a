# SPDX-License-Identifier: Apache-2.0
"""Which segments belong to one object: pairwise resegmentation and merges; and segments of affinities."""

from floodtide.agglomerate.affinity_blocks import agglomerate, agglomerate_on_ranks, write_segments
from floodtide.agglomerate.merging import Merged, merge, should_merge, write_merged
from floodtide.agglomerate.objects import resegment
from floodtide.agglomerate.pairs import Pairs
from floodtide.agglomerate.points import DecisionPoint, decision_points
from floodtide.agglomerate.predicted import segment_affinities
from floodtide.agglomerate.resegmenting import (
    PairScores,
    Regrown,
    resegment_on_ranks,
    resegment_pair,
)
from floodtide.segment.affinities import AffinityFile, AffinityOptions, segments_of

__all__ = [
    "AffinityFile",
    "AffinityOptions",
    "DecisionPoint",
    "Merged",
    "PairScores",
    "Pairs",
    "Regrown",
    "agglomerate",
    "agglomerate_on_ranks",
    "decision_points",
    "merge",
    "resegment",
    "resegment_on_ranks",
    "resegment_pair",
    "segment_affinities",
    "segments_of",
    "should_merge",
    "write_merged",
    "write_segments",
]
