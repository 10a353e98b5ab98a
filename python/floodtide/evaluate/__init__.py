# SPDX-License-Identifier: Apache-2.0
"""Scores against the ground truth: of voxels, of skeletons and of class masks; and the worst mistakes."""

from floodtide.evaluate.classes import DiceCounts, dice
from floodtide.evaluate.mistakes import Mistake, Part, worst_mistakes
from floodtide.evaluate.skeletons import (
    RunLengths,
    Skeleton,
    run_lengths,
    run_lengths_of_volumes,
    skeletons_of,
)
from floodtide.evaluate.voxels import (
    ContingencyTable,
    count_on_ranks,
    count_volumes,
    matching,
    rand_error,
    score_volumes,
    scores,
    variation_of_information,
)

__all__ = [
    "ContingencyTable",
    "DiceCounts",
    "Mistake",
    "Part",
    "RunLengths",
    "Skeleton",
    "count_on_ranks",
    "count_volumes",
    "dice",
    "matching",
    "rand_error",
    "run_lengths",
    "run_lengths_of_volumes",
    "score_volumes",
    "scores",
    "skeletons_of",
    "variation_of_information",
    "worst_mistakes",
]
