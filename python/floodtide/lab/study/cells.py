# SPDX-License-Identifier: Apache-2.0
"""The trainings of a sweep, read from their run directories and sorted by configuration, walkers, rate and seed.

The scores of a study can also be read from the file `curves.csv` that an earlier report of the same trainings wrote.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import config
from floodtide.base.tasks import FloodTask, Task
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.lab.study.scores import SMOOTHING, Floats, Score, series
from floodtide.lab.sweep.grid import flat_keys
from floodtide.report import curves
from floodtide.train import Run, read_run

_RUN_FILES = ("config.toml", "log.jsonl")
# What a training may differ in without being another line of the study.
_AXES = ("optimizer.lr", "training.walkers", "training.noise_scale")  # the last one only measures
_OWN = (
    "run.",
)  # seed, directory, threads, records: nothing that changes what a walker learns on average
# Keys that a label names only if the other keys do not tell the lines apart.
_QUIET = ("comm.exactness", "training.steps")
TRAINING = ("line", "batch", "walkers", "ranks", "rate", "seed", "state")  # columns of curves.csv
_NAMED = ("optimizer", "schedule")  # sections whose further keys depend on their name


def _is_run(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in _RUN_FILES)


def _run_folders(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
    return [path for path in found if _is_run(path)]


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training of a sweep.

    Attributes:
        run: Its run directory.
        walkers: Number of walkers: ranks, or walkers that emulate them.
        rate: Base learning rate.
        seed: Seed.
    """

    run: Run
    walkers: int
    rate: float
    seed: int

    @property
    def diverged(self) -> bool:
        """True if the loss or a gradient was not finite."""
        return "not finite" in self.run.failure or "the loss is" in self.run.failure

    @property
    def given_up(self) -> bool:
        """True if the training was stopped early because it was no better than a trivial predictor."""
        return any(record.get("given_up") for record in self.run.validation)

    @property
    def last_step(self) -> int:
        """The last validated training step; 0 without validation."""
        return int(self.run.validation[-1]["step"]) if self.run.validation else 0

    def value(self, score: Score, step: int) -> float:
        """Return the smoothed score at the last validation up to a step; NaN if the training ended before."""
        steps, values = series(score, self.run.validation)
        known = steps <= step
        if self.diverged or self.given_up or not known.any() or self.last_step < step:
            return float("nan")
        return float(curves.smoothed(values[known], SMOOTHING)[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Trainings that differ only in walkers, rate and seed.

    Attributes:
        label: What distinguishes this line from the others, such as "adam".
        trainings: The trainings.
        share: Share of the walkers that a training step waits for, in mode partial; else 1.
        batch: Examples of a walker's gradient: `training.batch` x `training.accumulate`.
    """

    label: str
    trainings: tuple[Training, ...]
    share: float
    batch: int

    def examples(self, walkers: int) -> int:
        """Return the examples whose gradients make a training step."""
        return self.batch * max(1, round(self.share * walkers))

    @cached_property
    def walkers(self) -> tuple[int, ...]:
        """The numbers of walkers, ascending."""
        return tuple(sorted({training.walkers for training in self.trainings}))

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """The base rates above 0, ascending."""
        return tuple(sorted({training.rate for training in self.trainings if training.rate > 0}))

    @cached_property
    def _cells(self) -> dict[tuple[int, float], dict[int, Training]]:
        cells: dict[tuple[int, float], dict[int, Training]] = {}
        for one in sorted(self.trainings, key=lambda one: one.run.ranks >= one.run.walkers):
            cells.setdefault((one.walkers, one.rate), {})[one.seed] = one
        for walkers in self.walkers:  # rates are compared on the same seeds
            column = [cell for (number, _), cell in cells.items() if number == walkers]
            counts = Counter(seed for cell in column for seed in cell)
            rare = {seed for seed, count in counts.items() if 2 * count < len(column)}
            if rare != set(counts):
                for cell in column:
                    for seed in rare & set(cell):
                        del cell[seed]
        return cells

    def cell(self, walkers: int, rate: float) -> tuple[Training, ...]:
        """Return the trainings of a cell, one for each seed. A training with a rank for each walker comes first.

        Seeds that fewer than half of the rates of this number of walkers have are left out, unless all are like that.
        """
        cell = self._cells.get((walkers, rate), {})
        return tuple(cell[seed] for seed in sorted(cell))

    def ended(self, walkers: int, rate: float) -> bool:
        """Return True if there is such a cell, and none of its trainings goes on."""
        cell = self.cell(walkers, rate)
        ends = [one.diverged or one.given_up or one.last_step >= self.step for one in cell]
        return bool(ends) and all(ends)

    @property
    def is_grid(self) -> bool:
        """True if some number of walkers was trained with three rates or more, so that one can be the best."""
        return any(
            sum(bool(self.cell(walkers, rate)) for rate in self.rates) >= 3
            for walkers in self.walkers
        )

    @cached_property
    def step(self) -> int:
        """The last training step that a training validated."""
        return max((one.last_step for one in self.trainings), default=0)

    def values(self, score: Score, step: int) -> list[list[Floats]]:
        """Return the smoothed scores at a step, [rate][walkers] (seeds,). A cell is empty if one of its seeds has none.

        The mean of the seeds that are left would be too good.
        """
        table = []
        for rate in self.rates:
            row = []
            for walkers in self.walkers:
                values = np.array([one.value(score, step) for one in self.cell(walkers, rate)])
                row.append(values if np.isfinite(values).all() else np.zeros(0))
            table.append(row)
        return table


@dataclass(frozen=True, kw_only=True)
class Study:
    """The trainings of one or several sweeps: `task` is what they learn, `lines` the different configurations."""

    task: type[Task]
    lines: tuple[Line, ...]
    differing: tuple[str, ...]

    @property
    def trainings(self) -> tuple[Training, ...]:
        """All trainings."""
        return tuple(training for line in self.lines for training in line.trainings)

    @property
    def unit(self) -> str:
        """What the trainings count."""
        return self.trainings[0].run.unit


def read_study(folders: Sequence[Path]) -> Study:
    """Read the run directories in some folders; a folder may also be a run directory itself, or a table of scores.

    Trainings without a validation are left out, unless they diverged before it.

    Args:
        folders: Folders; or one file `curves.csv`.

    Raises:
        InvalidFileError: If a run directory or a table is malformed, if the trainings learn several tasks, or if none
            was validated.
    """
    if len(folders) == 1 and folders[0].suffix == ".csv":
        return _read_curves(folders[0])
    paths = [
        path
        for folder in folders
        for path in ([folder] if _is_run(folder) else _run_folders(folder))
    ]
    runs = [read_run(path) for path in dict.fromkeys(path.resolve() for path in paths)]
    runs = [run for run in runs if run.config and (run.validation or run.failure)]
    where = ", ".join(str(folder) for folder in folders)
    if not any(run.validation for run in runs):
        raise InvalidFileError(
            f"{where}: no training was validated; expected runs with a [validation] section"
        )
    kinds = {run.task.kind: run.task for run in runs}
    if len(kinds) > 1:
        raise InvalidFileError(f"{where}: trainings of {' and '.join(kinds)}, expected one task")
    flat = {id(run): _flat(run) for run in runs}
    differing = _differing(list(flat.values()))
    if len({_volumes(table) for table in flat.values()}) == 1:  # the same names in other folders
        differing = [key for key in differing if key != "data.volumes"]
    lines: dict[str, list[Run]] = {}
    for run in runs:
        key = json.dumps(_identity(flat[id(run)]), sort_keys=True, default=str)
        lines.setdefault(key, []).append(run)
    tables = [flat[id(members[0])] for members in lines.values()]
    made = [
        Line(
            label=label,
            trainings=tuple(_training(run, flat[id(run)]) for run in members),
            share=_waited_for(table),
            batch=_batch(table),
        )
        for members, table, label in zip(
            lines.values(), tables, _labels(tables, differing), strict=True
        )
    ]
    return Study(task=runs[0].task, lines=tuple(made), differing=tuple(differing))


def _read_curves(path: Path) -> Study:
    """Return the trainings of flood filling whose scores are in a table of `floodtide lab study --figures`."""
    lines: dict[tuple[str, int], list[Training]] = {}
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        for key, group in groupby(rows, key=lambda row: [row[name] for name in TRAINING]):
            label, batch, walkers, ranks, rate, seed, state = key
            records = [_record(row) for row in group]
            run = Run(
                folder=path,
                name=label,
                start={"ranks": int(ranks), "walkers": int(walkers)},
                validation=[record | {"given_up": state == "stopped early"} for record in records],
                failure="the loss is not finite" if state == "diverged" else "",
            )
            one = Training(run=run, walkers=int(walkers), rate=float(rate), seed=int(seed))
            lines.setdefault((label, int(batch)), []).append(one)
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError) as error:
        raise InvalidFileError(
            f"{path}: {type(error).__name__} {error}; expected curves.csv of floodtide lab study"
        ) from error
    if not lines:
        raise InvalidFileError(f"{path} has no rows; expected curves.csv of floodtide lab study")
    made = [
        Line(label=label, trainings=tuple(members), share=1.0, batch=batch)
        for (label, batch), members in lines.items()
    ]
    return Study(task=FloodTask, lines=tuple(made), differing=())


def _record(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the validation record of a row."""
    first = {
        name if name == "average_precision" else f"{name}_50": float(text)
        for name, text in row.items()
        if name not in (*TRAINING, "step", "trivial") and text
    }
    trivial = {"all_object": {"accuracy_50": float(row["trivial"])}}
    return {"step": int(row["step"]), "first_pass": first, "trivial": trivial}


def _with_defaults(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with all keys, so that runs of older versions are compared with newer ones.

    A configuration that this version cannot read is returned unchanged.
    """
    try:
        return config.to_dict(config.from_dict(dict(table)))
    except ConfigurationError:
        return table


def _flat(run: Run) -> dict[str, Any]:
    flat = flat_keys(_with_defaults(run.config)) | _share(run)
    own = f"{flat.get('run.dir')}/"  # for partitions that the training made: their name has a hash of their content
    if volumes := flat.get("data.volumes"):
        flat["data.volumes"] = [
            {key: x.removeprefix(own) if isinstance(x, str) else x for key, x in volume.items()}
            for volume in volumes
        ]
    return flat


def _training(run: Run, flat: Mapping[str, Any]) -> Training:
    walkers = run.walkers if run.start else int(flat.get("training.walkers") or 1)
    return Training(
        run=run,
        walkers=walkers,
        rate=float(flat.get("optimizer.lr", 0.0)),
        seed=int(flat.get("run.seed", 0)),
    )


def _share(run: Run) -> dict[str, str]:
    """Return `comm.contributors` as a share of the ranks, by which lines are compared over numbers of ranks."""
    contributors = run.config.get("comm", {}).get("contributors", 0)
    return (
        {"comm.contributors": f"{contributors / run.ranks:.3g} of the ranks"}
        if contributors
        else {}
    )


def _waited_for(flat: Mapping[str, Any]) -> float:
    return float(str(flat.get("comm.contributors") or "1").split()[0])


def _batch(flat: Mapping[str, Any]) -> int:
    return int(flat.get("training.batch", 1)) * int(flat.get("training.accumulate", 1))


def _identity(flat: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in flat.items() if key not in _AXES and not key.startswith(_OWN)
    }


def _differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys by which lines differ. Keys of an optimizer or a schedule are compared among the same name."""
    found = []
    for key in dict.fromkeys(key for table in configs for key in _identity(table)):
        section, _, word = key.partition(".")
        groups: dict[str, set[str]] = {}
        for table in configs:
            of_name = section in _NAMED and word not in ("name", "scale")
            if of_name and key not in table:
                continue
            name = str(table.get(f"{section}.name")) if of_name else ""
            groups.setdefault(name, set()).add(json.dumps(table.get(key), default=str))
        if any(len(values) > 1 for values in groups.values()):
            found.append(key)
    return found


def _volumes(flat: Mapping[str, Any]) -> str:
    return " and ".join(str(volume.get("name", "")) for volume in flat.get("data.volumes", []))


def _labels(tables: Sequence[Mapping[str, Any]], differing: Sequence[str]) -> list[str]:
    """Return what distinguishes each line, with as few keys of _QUIET as possible."""
    for hidden in range(len(_QUIET), 0, -1):
        shown = [key for key in differing if key not in _QUIET[:hidden]]
        labels = [_label(table, shown) for table in tables]
        if len(set(labels)) == len(labels):
            return labels
    return [_label(table, differing) for table in tables]


def _label(flat: Mapping[str, Any], differing: Sequence[str]) -> str:
    words = [str(flat.get("optimizer.name", ""))]
    for key in differing:
        if key == "optimizer.name" or key not in flat:
            continue
        if key == "comm.contributors" and not flat[key]:  # all ranks
            continue
        value = flat[key]
        if key == "data.volumes":
            value = _volumes(flat)
        elif key.startswith(("data.", "validation.")):
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        words.append(
            text if key == "data.volumes" else f"{key.rpartition('.')[2]} {text or 'none'}"
        )
    return ", ".join(words)
