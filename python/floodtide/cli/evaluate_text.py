# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` prints: scores next to those of trivial answers."""

from __future__ import annotations

import math

from floodtide.base.notes import count_of
from floodtide.evaluate import trivial
from floodtide.evaluate.classes import ClassReport
from floodtide.evaluate.looking import Looked
from floodtide.evaluate.reporting import NERL, Report

_COLUMNS: tuple[tuple[str, str], ...] = (
    ("Rand error", "all_adapted_rand_error"),
    ("coverage", "coverage"),
    ("VOI split", "all_voi_split"),
    ("VOI merge", "all_voi_merge"),
)
_SCORES = (
    ("dice", "Dice"),
    ("iou", "IoU"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("average_precision", "average precision"),
)
_DETECTION = (
    ("true", "truth"),
    ("predicted", "prediction"),
    ("matched", "IoU > 0.5"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("f1", "F1"),
    ("average_precision_50", "AP at 0.5"),
    ("average_precision", "AP at 0.5 to 0.95"),
)


def compared(report: Report) -> str:
    """Return the verdict, and a table of the scores and of the scores of trivial answers, for a terminal."""
    scores = report.table.scores()
    interval = (report.intervals or {}).get(trivial.ERROR)
    found = trivial.verdict(scores, report.answers, interval)
    lines = [*report.first, ""] if report.first else []
    if found:
        lines += [_too_good(found.text) if report.too_good and found.better else found.text, ""]
    columns = _COLUMNS
    if report.runs is not None:
        columns, scores[NERL] = (*_COLUMNS, ("NERL", NERL)), report.runs.normalised
    rows = {"segmentation": scores, **report.answers}
    if report.before is not None:
        rows = {"segmentation": scores, "before": report.before, **report.answers}
    head = ["all voxels", *(title for title, _ in columns)]
    cells = [[name, *(_text(row[key]) for _, key in columns)] for name, row in rows.items()]
    if report.intervals is not None:
        ends = [report.intervals.get(key, ()) for _, key in columns]
        cells.insert(1, ["  95 % interval", *("-".join(map(_text, end)) for end in ends)])
    lines += [*aligned(head, cells), *report.notes]
    return "\n".join([*lines, *_looked(report.looked)])


def _too_good(verdict: str) -> str:
    return f"Too good a score, of voxels of the training: {verdict[0].lower()}{verdict[1:]}"


def _looked(found: Looked | None) -> list[str]:
    """Return a table of the mistakes among the first places."""
    if found is None:
        return []
    wrong, judged = count_of(found.mistakes, "mistake"), count_of(found.judged, "place")
    title = f"{found.table}: {wrong} among {judged} of known truth"
    head = ["first places", "mistakes", "in random order", "smallest first"]
    rows = [[str(n), str(a), f"{b:.1f}", str(c)] for n, (a, b, c) in found.first.items()]
    return ["", title, *aligned(head, rows)]


def _text(value: float) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4f}"
    return str(value)


def of_classes(report: ClassReport) -> str:
    """Return tables of the scores of classes, of the objects of classes, and of the confusion, for a terminal."""
    scores, everything, mean = report.scores(), report.everything(), report.mean()
    columns = [(name, title) for name, title in _SCORES if name in mean]
    head = ["class", *(title for _, title in columns), "truth", "prediction", "Dice of all"]
    rows = [
        [
            _class(report, number),
            *(_text(row[name]) for name, _ in columns),
            _text(row["true_voxels"]),
            _text(row["predicted_voxels"]),
            _text(everything[number]["dice"]),
        ]
        for number, row in scores.items()
    ]
    rows.append(["mean without 0", *(_text(mean[name]) for name, _ in columns), "", "", ""])
    lines = [*report.first, ""] if report.first else []
    lines += [*aligned(head, rows), ""]
    lines.append("Truth and prediction in voxels. Dice of all: if every voxel were of the class.")
    if report.objects:
        where = "in each section" if report.sections else "in 3-D"
        rows = [
            [_class(report, number), *(_text(row[name]) for name, _ in _DETECTION)]
            for number, row in report.objects.items()
        ]
        lines += ["", f"objects: voxels of a class that are connected by their faces, {where}"]
        lines += aligned(["class", *(title for _, title in _DETECTION)], rows)
    names = [_class(report, number) for number in report.names]
    counts = [[str(count) for count in row] for row in report.confusion.tolist()]
    rows = [[name, *row] for name, row in zip(names, counts, strict=True)]
    lines += ["", *aligned(["truth \\ prediction", *names], rows), ""]
    lines.append(
        f"{int(report.confusion.sum())} voxels compared, {report.unlabelled} without a label;"
        f" most wrong ones: {report.worst_voxels} in section z = {report.worst[0][0]}"
    )
    return "\n".join([*lines, *report.notes])


def aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table; the first column is aligned on the left, the others on the right."""
    table = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _class(report: ClassReport, number: int) -> str:
    return f"{number} {report.names[number]}".rstrip()
