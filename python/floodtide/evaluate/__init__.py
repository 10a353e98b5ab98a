# SPDX-License-Identifier: Apache-2.0
"""Scores against the ground truth: of voxels, of skeletons and of class masks; trivial answers; the worst mistakes."""

from floodtide.evaluate.classes import class_report
from floodtide.evaluate.mistakes import worst_mistakes
from floodtide.evaluate.reporting import report
from floodtide.evaluate.skeletons import run_lengths
from floodtide.evaluate.voxels import ContingencyTable, Pair, scores

__all__ = [
    "ContingencyTable", "Pair", "class_report", "report", "run_lengths", "scores", "worst_mistakes",
]  # fmt: skip
