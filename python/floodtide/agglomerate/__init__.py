# SPDX-License-Identifier: Apache-2.0
"""Which segments belong to one object: pairwise resegmentation and merges; and segments of affinities."""

from floodtide.agglomerate.merging import resegment
from floodtide.agglomerate.predicted import segment_predicted
from floodtide.segment.affinities import agglomerate

__all__ = ["agglomerate", "resegment", "segment_predicted"]
