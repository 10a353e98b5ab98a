# SPDX-License-Identifier: Apache-2.0
"""Which segments belong to one object: pairwise resegmentation and merges; and segments of affinities."""

from floodtide.agglomerate.affinity_blocks import agglomerate
from floodtide.agglomerate.objects import resegment
from floodtide.agglomerate.predicted import segment_affinities

__all__ = ["agglomerate", "resegment", "segment_affinities"]
