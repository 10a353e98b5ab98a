# SPDX-License-Identifier: Apache-2.0
"""Tables of settings and scores."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floodtide.train.recorded_run import PATCHES, SLICES, Record, Run

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
    "objects": "Objects",
    "adapted_rand_error": "Adapted Rand error, segmented voxels",
}
_SETTINGS: tuple[tuple[str, str], ...] = (
    ("Network", "model.kind"),
    ("Depth", "model.depth"),
    ("Features", "model.features"),
    ("Classes", "model.classes"),
    ("Kernels (z, y, x)", "model.kernels"),
    ("Pools (z, y, x)", "model.pools"),
    ("Batch norm", "model.batch_norm"),
    ("Synchronised statistics", "model.synchronised"),
    ("Dropout", "model.dropout"),
    ("Field of view (z, y, x)", "model.fov"),
    ("Step (z, y, x)", "model.deltas"),
    ("Size of slices (y, x)", "data.size"),
    ("Size of patches (z, y, x)", "data.patch"),
    ("Batch of a worker", "training.batch"),
    ("Loss", "training.loss"),
    ("Dice over", "training.dice"),
    ("Steps", "training.steps"),
    ("Optimizer", "optimizer.name"),
    ("Base learning rate", "optimizer.lr"),
    ("Scaling of the rate", "schedule.scale"),
    ("Warm-up steps", "schedule.warmup_steps"),
    ("Allreduce", "comm.algorithm"),
    ("Whose gradients make an update", "comm.mode"),
    ("Seed", "run.seed"),
)
_FOUND: tuple[tuple[str, str], ...] = (
    ("Ranks", "ranks"),
    ("Walkers", "walkers"),
    ("Parameters", "parameters"),
    ("Examples in an epoch", "examples_per_epoch"),
    ("Imbalance of the walkers' shards", "shard_imbalance"),
    ("Threads a rank", "threads"),
    ("Kernels", "kernels"),
    ("Transport", "transport"),
)


@dataclass(frozen=True)
class Table:
    """A table of texts: a head and rows. The first column holds the names of the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary_table(runs: Sequence[Run]) -> Table:
    """Return a table of the most important settings. Settings that no run has are omitted."""
    rows = []
    for name, key in _SETTINGS:
        values = [text(_look_up(run.config, key)) for run in runs]
        if any(value != "-" for value in values):
            rows.append((name, *values))
    rows.append(("Trained on", *(_sources(run) for run in runs)))
    for name, key in _FOUND:
        values = [text(run.start.get(key)) for run in runs]
        if any(value != "-" for value in values):
            rows.append((name, *values))
    last = (text(run.train[-1]["step"] if run.train else None) for run in runs)
    rows.append(("Last step in the log", *last))
    return Table(("", *(run.name for run in runs)), tuple(rows))


def score_table(answers: Mapping[str, Mapping[str, Any]]) -> Table | None:
    """Return a table of scores with one row for each answer {name: scores}, or None without scores."""
    keys = [key for key in _SCORES if any(key in row for row in answers.values())]
    if not keys:
        return None
    rows = ((name, *(text(row.get(key)) for key in keys)) for name, row in answers.items())
    return Table(("", *(_SCORES[key] for key in keys)), tuple(rows))


def validation_table(run: Run) -> Table:
    """Return a table of the last validation and the trivial predictors."""
    last = run.validation[-1]
    head = f"step {last['step']}"
    if run.unit == SLICES:
        return _dice_table(last, head)
    if run.unit == PATCHES:
        return _affinity_table(last, head)
    columns: list[tuple[str, Record]] = []
    for part, trivial, title in PARTS:
        columns.append((title, last.get(part, {})))
        predictors = last.get(trivial, {})
        columns += [(label, predictors.get(name, {})) for name, label, _ in TRIVIAL]
    rows = [
        (
            f"{name} ({'higher' if more else 'lower'} is better)",
            *(text(values.get(key)) for _, values in columns),
        )
        for key, name, more in METRICS
    ]
    return Table((head, *(name for name, _ in columns)), tuple(rows))


def _dice_table(last: Record, head: str) -> Table:
    """Return a table with one row for each class: Dice over all pixels, and over the patients with the class."""
    titles = ("Dice, pixels pooled", "everything this class", "Dice, mean of patients")
    spread = ("standard deviation", "lowest", "median", "highest", "patients")
    rows = []
    for row in last.get("classes", []):
        patients = [value for value in row["dice_patients"] if value is not None]
        over = (
            statistics.pstdev(patients) if patients else None,
            min(patients, default=None),
            statistics.median(patients) if patients else None,
            max(patients, default=None),
            len(patients),
        )
        cells = (row["dice_pooled"], row["dice_everything"], row["dice_mean"], *over)
        rows.append((f"class {row['class']}", *(text(cell) for cell in cells)))
    return Table((head, *titles, *spread), tuple(rows))


def _affinity_table(last: Record, head: str) -> Table:
    """Return a table with one row for each offset. The base rate is the average precision of a constant prediction."""
    titles = (
        "average precision",
        "base rate",
        "of boundaries",
        "base rate",
        "F1",
        "Matthews correlation",
    )
    rows = []
    for name, row in last.get("affinities", {}).items():
        share = row["share_of_ones"]
        boundary = row["boundary_average_precision"]
        cells = (row["average_precision"], share, boundary, 1.0 - share, row["f1"], row["mcc"])
        rows.append((f"affinity along {name}", *(text(cell) for cell in cells)))
    return Table((head, *titles), tuple(rows))


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


def _look_up(config: Mapping[str, Any], dotted: str) -> object:
    value: object = config
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _sources(run: Run) -> str:
    data = run.config.get("data", {})
    named = [
        str(volume.get("name", volume.get("image", "?"))) for volume in data.get("volumes", [])
    ]
    named += [str(stack.get("images", "?")) for stack in data.get("slices", [])]
    return ", ".join(named) or "-"
