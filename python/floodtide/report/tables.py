# SPDX-License-Identifier: Apache-2.0
"""Tables of scores, and the values of tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floodtide.base.tasks.distance import explained
from floodtide.train.recorded_run import Record, Run

# Key in the log, name in figures and tables, and True if higher is better.
METRICS: tuple[tuple[str, str, bool], ...] = (
    ("cross_entropy", "Cross-entropy", False),
    ("f1_50", "F1 at probability 0.5", True),
    ("f1_90", "F1 at probability 0.9", True),
    ("mcc_50", "Matthews correlation at 0.5", True),
    ("mcc_90", "Matthews correlation at 0.9", True),
    ("average_precision", "Average precision", True),
)
# Key of a part of a validation record, key of its trivial predictors, and name of the part.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("first_pass", "trivial", "first pass"),
    ("moves", "trivial_moves", "after the moves"),
)
# Key of a trivial predictor, its name, and the style of its line.
TRIVIAL: tuple[tuple[str, str, str], ...] = (
    ("all_object", "everything is object", "-."),
    ("best_constant", "best constant", ":"),
)
_SCORES = {
    "all_adapted_rand_error": "Adapted Rand error, all voxels",
    "coverage": "Coverage",
    "all_voi_split": "VOI split, all voxels (bits)",
    "all_voi_merge": "VOI merge, all voxels (bits)",
    "all_rand_precision": "Rand precision, all voxels",
    "all_rand_recall": "Rand recall, all voxels",
    "segments": "Segments",
    "all_objects": "Objects",
    "adapted_rand_error": "Adapted Rand error, segmented voxels",
}


@dataclass(frozen=True)
class Table:
    """A table of texts: a head and rows. The first column holds the names of the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_of(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of values; the first of a row is its name. Columns without a value are left out."""
    rows = list(rows)
    used = [n for n in range(len(titles)) if n == 0 or any(row[n] is not None for row in rows)]
    head = tuple(titles[n] for n in used)
    return Table(head, tuple(tuple(text(row[n]) for n in used) for row in rows))


def score_table(answers: Mapping[str, Mapping[str, Any]]) -> Table | None:
    """Return a table of scores with one row for each answer {name: scores}, or None without scores."""
    rows = ((name, *(row.get(key) for key in _SCORES)) for name, row in answers.items())
    return table_of(("", *_SCORES.values()), rows) if answers else None


def validation_tables(run: Run) -> list[Table]:
    """Return tables of the last validation with the trivial predictors; for classes also their confusion."""
    last = run.validation[-1]
    head = f"step {last['step']}"
    if "classes" in last:
        return [_dice_table(last, head), _confusion_table(run)]
    if "channels" in last:
        return [_channel_table(last, head)]
    columns: list[tuple[str, Record]] = []
    for part, trivial, title in PARTS:
        predictors = last.get(trivial, {})
        columns += [(title, last.get(part, {}))]
        columns += [(label, predictors.get(name, {})) for name, label, _ in TRIVIAL]
    rows = (
        (f"{name} ({'higher' if more else 'lower'} is better)", *(v.get(key) for _, v in columns))
        for key, name, more in METRICS
    )
    return [table_of((head, *(name for name, _ in columns)), rows)]


def _dice_table(last: Record, head: str) -> Table:
    """Return a table with one row for each class: Dice over all voxels, and over the groups with the class."""
    titles = ("Dice, voxels pooled", "everything this class", "Dice, mean of groups")
    spread = ("standard deviation", "lowest", "median", "highest", "groups")
    rows = []
    for row in last["classes"]:
        groups = [value for value in row["dice_groups"] if value is not None]
        measures: Sequence[Any] = (statistics.pstdev, min, statistics.median, max, len)
        over = [measure(groups) if groups else None for measure in measures]
        names = ("name", "dice_pooled", "dice_everything", "dice_mean")
        rows.append((*(row[name] for name in names), *over))
    return table_of((head, *titles, *spread), rows)


def _confusion_table(run: Run) -> Table:
    """Return a table with a row for each true class: the shares of its voxels that were predicted as each class."""
    last = run.validation[-1]
    background = next(iter(run.config.get("task", {}).get("classes", {}).values()), "background")
    names = [background, *(row["name"] for row in last["classes"])]
    rows = []
    for name, counts in zip(names, last["confusion"], strict=True):
        shares = (f"{100 * n / sum(counts):.1f} %" if sum(counts) else "-" for n in counts)
        rows.append((name, *shares, sum(counts)))
    return table_of(("true class", *(f"predicted {name}" for name in names), "voxels"), rows)


def _channel_table(last: Record, head: str) -> Table:
    """Return a table with one row for each output, and the average precision of a constant prediction beside."""
    titles = (
        *(head, "average precision", "guessing", "average precision of boundaries", "guessing"),
        *("F1", "Matthews correlation", "explained variance", "mean squared error"),
    )
    rows: list[Sequence[object]] = []
    for name, row in last["channels"].items():
        if "share_of_ones" in row:
            share, boundary = row["share_of_ones"], row["boundary_average_precision"]
            found = (row["average_precision"], share, boundary, 1.0 - share, row["f1"], row["mcc"])
            where = f"at offset {name}" if "," in name else f"along {name}"
            rows.append((f"affinity {where}", *found, None, None))
        else:
            rows.append((name, *[None] * 6, explained(row), row["mean_squared_error"]))
    return table_of(titles, rows)


def text(value: object) -> str:
    """Return a value as text for a table: four digits, separated thousands, "-" for no value."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        nested = any(isinstance(item, list | tuple) for item in value)
        return ("; " if nested else ", ").join(text(item) for item in value)
    return str(value)


def setting(run: Run, key: str) -> str:
    """Return a value of the configuration ("model.depth") or of the start of a run ("start.ranks") as `text`."""
    value: object = {**run.config, "start": run.start}
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return text(None if value == [0, 0] else value)  # data.size: sections as they are


def sources(run: Run) -> str:
    """Return the names of the volumes that a run was trained on."""
    data = run.config.get("data", {})
    named = [str(one.get("name", one.get("image", "?"))) for one in data.get("volumes", [])]
    return ", ".join(named) or "-"
