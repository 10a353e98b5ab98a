# SPDX-License-Identifier: Apache-2.0
"""Scores against the ground truth: of voxels, of skeletons and of class masks; and the worst mistakes."""

from floodtide.evaluate.classes import DiceCounts, dice
from floodtide.evaluate.mistakes import Mistake, Part, worst_mistakes
from floodtide.evaluate.skeletons import (
    RunLengths,
    run_lengths,
)
from floodtide.evaluate.voxels import (
    ContingencyTable,
    Difference,
    count_on_ranks,
    count_volumes,
    differing_objects,
    matching,
    rand_error,
    read_both,
    score_volumes,
    scores,
    variation_of_information,
)

__all__ = [
    "ContingencyTable",
    "DiceCounts",
    "Difference",
    "Mistake",
    "Part",
    "RunLengths",
    "count_on_ranks",
    "count_volumes",
    "dice",
    "differing_objects",
    "matching",
    "rand_error",
    "read_both",
    "run_lengths",
    "score_volumes",
    "scores",
    "variation_of_information",
    "worst_mistakes",
]
