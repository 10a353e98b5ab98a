# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` prints: scores next to those of trivial answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from floodtide.evaluate import trivial

if TYPE_CHECKING:
    from floodtide.evaluate.reporting import Report

_COLUMNS = (
    ("Rand error", "all_adapted_rand_error"),
    ("coverage", "coverage"),
    ("VOI split", "all_voi_split"),
    ("VOI merge", "all_voi_merge"),
)
_WIDTH, _NAME = 12, 24


def compared(report: Report) -> str:
    """Return the verdict, and a table of the scores and of the scores of trivial answers, for a terminal."""
    scores = report.table.scores()
    found = trivial.verdict(scores, report.answers)
    lines = [found.text, ""] if found else []
    lines += table({"segmentation": scores, **report.others, **report.answers})
    return "\n".join([*lines, *report.notes])


def table(rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the main scores over all voxels as lines of a table, one for each name."""
    head = f"{'all voxels':{_NAME}}" + "".join(f"{title:>{_WIDTH}}" for title, _ in _COLUMNS)
    lines = [head]
    for name, scores in rows.items():
        cells = "".join(f"{_text(scores[key]):>{_WIDTH}}" for _, key in _COLUMNS)
        lines.append(f"{name[: _NAME - 1]:{_NAME}}{cells}")
    return lines


def _text(value: float) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4f}"
    return str(value)
