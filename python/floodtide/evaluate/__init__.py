# SPDX-License-Identifier: Apache-2.0
"""Scores against the ground truth: of voxels, of skeletons and of class masks; trivial answers; the worst mistakes."""

from floodtide.evaluate import trivial
from floodtide.evaluate.classes import DiceCounts, dice, dice_of_table
from floodtide.evaluate.compared import Compared, compared
from floodtide.evaluate.mistakes import Mistake, Part, worst_mistakes
from floodtide.evaluate.reporting import Report, report
from floodtide.evaluate.skeletons import (
    RunLengths,
    run_lengths,
)
from floodtide.evaluate.voxels import (
    ContingencyTable,
    Difference,
    assumed_place,
    count_on_ranks,
    count_volumes,
    differing_objects,
    first_voxels,
    matching,
    rand_error,
    read_both,
    score_volumes,
    scores,
    variation_of_information,
)

__all__ = [
    "Compared",
    "ContingencyTable",
    "DiceCounts",
    "Difference",
    "Mistake",
    "Part",
    "Report",
    "RunLengths",
    "assumed_place",
    "compared",
    "count_on_ranks",
    "count_volumes",
    "dice",
    "dice_of_table",
    "differing_objects",
    "first_voxels",
    "matching",
    "rand_error",
    "read_both",
    "report",
    "run_lengths",
    "score_volumes",
    "scores",
    "trivial",
    "variation_of_information",
    "worst_mistakes",
]
