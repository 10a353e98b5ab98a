# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` prints: scores next to those of trivial answers, as text or as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floodtide.evaluate import trivial

if TYPE_CHECKING:
    from floodtide.evaluate import ContingencyTable
    from floodtide.evaluate.mistakes import Mistake
    from floodtide.evaluate.skeletons import RunLengths

Scores = Mapping[str, float]

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


@dataclasses.dataclass
class Report:
    """The scores of a segmentation, next to those of an earlier one and of trivial answers.

    Attributes:
        table: Voxels of each pair of segment and object.
        others: {name: scores} of an earlier segmentation, if there is one.
        answers: {name: scores} of the trivial answers.
        level: The grey level of the answer `best grey level`; None if it is not among the answers.
        notes: Sentences below the table.
    """

    table: ContingencyTable
    others: dict[str, Scores]
    answers: dict[str, Scores]
    level: trivial.GreyLevel | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    runs: RunLengths | None = None
    unit: str = "nm"
    mistakes: list[Mistake] | None = None

    def json(self, matching: bool) -> str:
        """Return one JSON object: the scores by name, and the other parts under a name each."""
        plain: dict[str, Any] = _plain(self.table.scores())
        answers = {name: _plain(scores) for name, scores in self.answers.items()}
        if self.level is not None:
            answers[trivial.GREY_LEVEL] |= self.level._asdict()
        plain["trivial"] = answers
        plain["notes"] = self.notes
        if self.others:
            plain["before"] = next(_plain(scores) for scores in self.others.values())
        if self.runs is not None:
            plain["run_lengths"] = dataclasses.asdict(self.runs)
        if matching:
            plain["matching"] = self.table.matching()
        if self.mistakes is not None:
            plain["worst"] = [dataclasses.asdict(mistake) for mistake in self.mistakes]
        return json.dumps(plain)

    def text(self, matching: bool) -> str:
        """Return tables and sentences for a terminal."""
        scores = self.table.scores()
        lines = []
        if found := trivial.verdict(scores, self.answers):
            lines += [found.text, ""]
        lines += table({"segmentation": scores, **self.others, **self.answers})
        lines += [*self.notes, ""]
        lines.append(f"{'segmentation':{_NAME}}{'all voxels':>{_WIDTH}}{'segmented':>{_WIDTH}}")
        for title, name, note in _DETAILS:
            values = (_text(scores["all_" + name]), _text(scores[name]))
            cells = "".join(f"{value:>{_WIDTH}}" for value in values)
            lines.append(f"{title:{_NAME}}{cells}  {note}".rstrip())
        if self.runs is not None:
            lines.append(_run_line(self.runs, self.unit))
        lines += [_line(mistake) for mistake in self.mistakes or []]
        if matching:
            found_ids = self.table.matching()
            lines.append(
                f"ids matched one to one: {100 * found_ids['same_voxels'] / found_ids['voxels']:.4f} % of"
                f" {found_ids['voxels']} voxels are the same; {found_ids['identical']} of {found_ids['objects']}"
                " objects are equal in every voxel"
            )
        return "\n".join(lines)


def dice_json(rows: Sequence[Mapping[str, float]]) -> str:
    """Return the Dice scores of class masks as one JSON object."""
    return json.dumps({"classes": [_plain(row) for row in rows]})


def dice_text(rows: Sequence[Mapping[str, float]]) -> str:
    """Return the Dice scores of class masks as a table."""
    head = f"{'':10}{'Dice':>10}{'everything':>12}{'true voxels':>14}{'predicted':>14}"
    lines = [head]
    lines += [
        f"class {row['class']:<4}{_text(row['dice']):>10}{_text(row['dice_everything']):>12}"
        f"{row['true_voxels']:>14}{row['predicted_voxels']:>14}"
        for row in rows
    ]
    return "\n".join([*lines, "everything: the Dice of predicting this class everywhere"])


def table(rows: Mapping[str, Scores]) -> list[str]:
    """Return the main scores over all voxels as lines of a table, one for each name."""
    head = f"{'all voxels':{_NAME}}" + "".join(f"{title:>{_WIDTH}}" for title, _ in _COLUMNS)
    lines = [head]
    for name, scores in rows.items():
        cells = "".join(f"{_text(scores[key]):>{_WIDTH}}" for _, key in _COLUMNS)
        lines.append(f"{name[: _NAME - 1]:{_NAME}}{cells}")
    return lines


def _plain(scores: Mapping[str, float]) -> dict[str, Any]:
    """Return the scores with None for undefined ones, as JSON can hold them."""
    return {name: None if math.isnan(value) else value for name, value in scores.items()}


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
