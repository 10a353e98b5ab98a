# SPDX-License-Identifier: Apache-2.0
"""Which segments belong to one object: pairwise resegmentation and merges; and segments of affinities."""

from floodtide.agglomerate.affinity_blocks import agglomerate, agglomerate_on_ranks, write_segments
from floodtide.agglomerate.merging import merge, write_merged
from floodtide.agglomerate.objects import resegment
from floodtide.agglomerate.points import decision_points
from floodtide.agglomerate.predicted import segment_affinities
from floodtide.agglomerate.resegmenting import resegment_on_ranks, resegment_pair

__all__ = [
    "agglomerate",
    "agglomerate_on_ranks",
    "decision_points",
    "merge",
    "resegment",
    "resegment_on_ranks",
    "resegment_pair",
    "segment_affinities",
    "write_merged",
    "write_segments",
]
