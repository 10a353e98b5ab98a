# SPDX-License-Identifier: Apache-2.0
"""Which segments belong to one object: pairwise resegmentation and merges; and segments of affinities."""

from floodtide.agglomerate.predicted import Stack
from floodtide.agglomerate.resegmenting import resegment
from floodtide.segment.affinities import agglomerate

__all__ = ["Stack", "agglomerate", "resegment"]
