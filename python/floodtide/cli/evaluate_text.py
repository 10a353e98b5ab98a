# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` prints: scores next to those of trivial answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from floodtide.evaluate import trivial

if TYPE_CHECKING:
    from floodtide.evaluate.mistakes import Mistake
    from floodtide.evaluate.reporting import Report
    from floodtide.evaluate.skeletons import RunLengths

_COLUMNS = (
    ("Rand error", "all_adapted_rand_error"),
    ("coverage", "coverage"),
    ("VOI split", "all_voi_split"),
    ("VOI merge", "all_voi_merge"),
)
_DETAILS = (
    ("adapted Rand error", "adapted_rand_error", "0 is perfect"),
    ("Rand precision", "rand_precision", "mergers lower it"),
    ("Rand recall", "rand_recall", "splits lower it"),
    ("VOI split (bits)", "voi_split", "H(segmentation | truth)"),
    ("VOI merge (bits)", "voi_merge", "H(truth | segmentation)"),
    ("CREMI score", "cremi", "geometric mean of VOI and Rand error"),
    ("voxels", "voxels", "with truth > 0"),
    ("segments", "segments", ""),
    ("objects", "objects", ""),
)
_WIDTH, _NAME = 12, 24


def of_objects(report: Report) -> str:
    """Return tables and sentences for a terminal."""
    scores = report.table.scores()
    lines = []
    if found := trivial.verdict(scores, report.answers):
        lines += [found.text, ""]
    lines += table({"segmentation": scores, **report.others, **report.answers})
    lines += [*report.notes, ""]
    lines.append(f"{'segmentation':{_NAME}}{'all voxels':>{_WIDTH}}{'segmented':>{_WIDTH}}")
    for title, name, note in _DETAILS:
        values = (_text(scores["all_" + name]), _text(scores[name]))
        cells = "".join(f"{value:>{_WIDTH}}" for value in values)
        lines.append(f"{title:{_NAME}}{cells}  {note}".rstrip())
    if report.runs is not None:
        lines.append(_run_line(report.runs, report.unit))
    lines += [_line(mistake) for mistake in report.mistakes or []]
    return "\n".join(lines)


def of_classes(rows: Sequence[Mapping[str, float]]) -> str:
    """Return the Dice scores of class masks as a table."""
    head = f"{'':10}{'Dice':>10}{'everything':>12}{'true voxels':>14}{'predicted':>14}"
    lines = [head]
    lines += [
        f"class {row['class']:<4}{_text(row['dice']):>10}{_text(row['dice_everything']):>12}"
        f"{row['true_voxels']:>14}{row['predicted_voxels']:>14}"
        for row in rows
    ]
    return "\n".join([*lines, "everything: the Dice of predicting this class everywhere"])


def table(rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the main scores over all voxels as lines of a table, one for each name."""
    head = f"{'all voxels':{_NAME}}" + "".join(f"{title:>{_WIDTH}}" for title, _ in _COLUMNS)
    lines = [head]
    for name, scores in rows.items():
        cells = "".join(f"{_text(scores[key]):>{_WIDTH}}" for _, key in _COLUMNS)
        lines.append(f"{name[: _NAME - 1]:{_NAME}}{cells}")
    return lines


def _run_line(runs: RunLengths, unit: str) -> str:
    return (
        f"expected run length {runs.expected:.0f} of {runs.best:.0f} {unit} ({100 * runs.normalised:.1f} %) on"
        f" {runs.skeletons} skeletons of {runs.length:.0f} {unit}: {100 * runs.correct:.1f} % of the length correct,"
        f" {100 * runs.split:.1f} % split, {100 * runs.merged:.1f} % in mergers,"
        f" {100 * runs.omitted:.1f} % in no segment"
    )


def _line(mistake: Mistake) -> str:
    whole = "object" if mistake.kind == "split" else "segment"
    parts = ", ".join(
        f"{part.voxels} in {part.segment if mistake.kind == 'split' else part.object} at"
        f" {','.join(map(str, part.zyx))}"
        for part in mistake.parts
    )
    return f"{mistake.kind} of {whole} {mistake.id}: {mistake.voxels} voxels beside the largest part: {parts}"


def _text(value: float) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4f}"
    return str(value)
