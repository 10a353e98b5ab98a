# SPDX-License-Identifier: Apache-2.0
"""Read run directories for reports. Missing parts stay empty, and are listed by name."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from floodtide.base import reading
from floodtide.base.options import FLOOD, Range, shown
from floodtide.base.tasks import BY_KIND, TASKS, Task
from floodtide.errors import InvalidFileError
from floodtide.optim import advice
from floodtide.train.learners.learner import Record as Record

_LARGEST = 1e30  # of any figure: beyond, drawings overflow
_MOST = 1 << 53  # whole numbers that a float holds
_FINITE = Range(-_LARGEST, _LARGEST)
_COUNT, _POSITIVE = Range(0, _MOST), Range(1, _MOST)
_SECONDS = Range(0.0, 1e12)
_SIZE = Range(0.0, _LARGEST, above=True)


def _number(value: Any) -> bool:
    """A figure; a loss may be infinite or not a number."""
    return value in _FINITE or (type(value) is float and not math.isfinite(value))


def _text(value: Any) -> bool:
    """A text without halves of surrogate pairs, which cannot be written."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _optional(form: Any) -> Callable[[Any], bool]:
    """Null, or what has the form."""
    return lambda value: value is None or _follows(value, form)


def _table_of(form: Any) -> Callable[[Any], bool]:
    """An object all whose values have the form."""
    return lambda value: (
        isinstance(value, dict) and all(_follows(one, form) for one in value.values())
    )


def _complete(form: Mapping[str, Any]) -> Callable[[Any], bool]:
    """An object of this form with all of its keys."""
    return lambda value: _follows(value, form) and form.keys() <= value.keys()


def _follows(value: Any, form: Any) -> bool:
    """Return True if a value has a form.

    A form is a text of a tuple, a number in a range, a list, an object (dict), or what a function accepts. Keys of an
    object may be absent, and there may be others.
    """
    if isinstance(form, tuple):
        return isinstance(value, str) and value in form
    if isinstance(form, Range):
        return value in form
    if isinstance(form, list):
        return isinstance(value, list) and all(_follows(item, form[0]) for item in value)
    if isinstance(form, dict):
        return isinstance(value, dict) and all(
            _follows(value[key], inner) for key, inner in form.items() if key in value
        )
    return bool(form(value))


# What the report relies on in records and configurations. A key may be absent (older logs), and there may be others.
_FIGURES = _table_of(_number)
_COMMON: dict[str, Any] = {"step": _COUNT, "time_s": _SECONDS}
_START: dict[str, Any] = {
    "unit": tuple({task.unit for task in TASKS}),
    **dict.fromkeys(("ranks", "walkers", "threads", "cores", "hosts"), _POSITIVE),
    "parameters": _COUNT,
    "examples_per_epoch": _number,
    **dict.fromkeys(("kernels", "transport", "rate", "resumed_from"), _text),
    **dict.fromkeys(("date", "version", "processor"), _text),
}
_CLASS = {
    "class": _COUNT,
    "name": _text,
    "dice_pooled": _optional(_FINITE),
    "dice_mean": _optional(_FINITE),
    "dice_everything": _FINITE,
    "dice_groups": [_optional(_FINITE)],
}
_BINARY = _complete(
    dict.fromkeys(
        ("average_precision", "boundary_average_precision", "share_of_ones", "f1", "mcc"), _number
    )
)
_SOFT = _complete(dict.fromkeys(("mean_squared_error", "variance"), _number))
_VALIDATION: dict[str, Any] = {
    "cross_entropy": _number,
    "first_pass": _FIGURES,
    "moves": _FIGURES,
    "trivial": _table_of(_FIGURES),
    "trivial_moves": _table_of(_FIGURES),
    "groups": [_text],
    "classes": [_complete(_CLASS)],
    "confusion": [[_COUNT]],
    "channels": lambda value: (
        value != {} and _table_of(lambda row: _BINARY(row) or _SOFT(row))(value)
    ),
}
_NOISE = dict.fromkeys(("noise_scale", "noise_scale_low", "noise_scale_high"), _optional(_FINITE))
_FORMS = {"start": _START, "validation": _VALIDATION, "train": {**_NOISE, "lr_share": _number}}
_VOLUME = {
    "name": _text,
    "image": _text,
    "labels": _text,
    "labels_start": lambda value: _follows(value, [_COUNT]) and len(value) == 3,
    "voxel_size_nm": lambda value: _follows(value, [_SIZE]) and len(value) == 3,
}
_CONFIGURATION: dict[str, Any] = {
    "data": {"volumes": [_VOLUME], "unlabelled": lambda value: type(value) is int},
    "run": {"seed": _COUNT},
    "task": {"kind": tuple(task.kind for task in TASKS), "classes": _table_of(_text)},
    "model": {},
    "training": {
        "steps": _COUNT,
        "corrections": lambda value: (
            _follows(value, [[_COUNT]]) and all(len(row) == 2 for row in value)
        ),
        "loss": _text,
        "walkers": _COUNT,
        "batch": _POSITIVE,
        "accumulate": _POSITIVE,
    },
    "optimizer": {"name": _text, "lr": Range(0.0, _LARGEST)},
    "schedule": {},
    "validation": {},
    "segment": {"image": _text},
    "comm": {"mode": _text, "contributors": _COUNT},
}
_FAILURE = _complete({"reason": _text})

_RECORD_OF_FAILURE = re.compile(r"failure-rank-(\d{1,9})\.json")
SEGMENTATION = "segmentation.h5"
"""The file of a segmentation in a run directory, dataset `segmentation`."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The contents of one run directory.

    Attributes:
        name: Name of the run in legends.
        config: The resolved configuration (`config.toml`); empty if the file is missing.
        start: The last `start` record of the log: network, ranks, kernels.
        train: `train` records, one per logged step, in ascending order of steps.
        validation: `validation` records, in ascending order of steps.
        failure: Why the run failed, from the record of the lowest rank (`failure-rank-<r>.json`); empty if it did not.
        absent: The missing parts, as texts.
    """

    folder: Path
    name: str
    config: Record = field(default_factory=dict)
    config_text: str = ""
    start: Record = field(default_factory=dict)
    train: list[Record] = field(default_factory=list)
    validation: list[Record] = field(default_factory=list)
    failure: str = ""
    absent: tuple[str, ...] = ()

    @property
    def task(self) -> type[Task]:
        """The task that the run learns: `task.kind` of its configuration."""
        return BY_KIND[self.config.get("task", {}).get("kind", FLOOD)]

    @property
    def unit(self) -> str:
        """Unit in which the log counts: `fovs` or `patches`."""
        return self.task.unit

    @property
    def ranks(self) -> int:
        """Number of ranks that trained; 1 if the log does not say."""
        return int(self.start.get("ranks", 1))

    @property
    def walkers(self) -> int:
        """Number of walkers. Each training step averages the gradients of all walkers."""
        return int(self.start.get("walkers", self.ranks))

    @property
    def total(self) -> int | None:
        """Number of steps of the training, that of the last correction; None if the configuration does not say."""
        training = self.config.get("training", {})
        corrections = training.get("corrections")
        total: int | None = corrections[-1][1] if corrections else training.get("steps")
        return total

    @property
    def cut_short(self) -> str:
        """The end of a sentence about an incomplete run: how far its rate has fallen, and what that means."""
        last = self.train[-1] if self.train else {}
        if self.total is None or last.get("step", self.total) >= self.total:
            return ""
        return advice.cut_short(float(last.get("lr_share", 0)))

    @property
    def emulated(self) -> bool:
        """True if a rank computed several walkers, one after another, in place of more ranks."""
        return self.ranks < self.walkers

    @property
    def source(self) -> Record:
        """Return the table of the volume of the run's segmentation; only `image`, "" if unknown, without a table."""
        wanted = self.config.get("segment", {}).get("image", "")
        volumes = self.config.get("data", {}).get("volumes", [])
        own = (one for one in volumes if wanted in ("", one.get("name"), one.get("image")))
        return next(own, {"image": wanted})

    @property
    def sources(self) -> tuple[str, str]:
        """Return the names of image and labels of the run's segmentation, "" if unknown."""
        return self.source.get("image", ""), self.source.get("labels", "")

    @property
    def voxel_size_nm(self) -> tuple[float, float, float] | None:
        """Voxel size (z, y, x) in nanometres of the first training volume whose table states one; None if none does."""
        for volume in self.config.get("data", {}).get("volumes", []):
            if size := volume.get("voxel_size_nm"):
                return (float(size[0]), float(size[1]), float(size[2]))
        return None


def read_run(folder: Path, name: str | None = None) -> Run:
    """Read the text parts of a run directory.

    Args:
        folder: A run directory with `config.toml`, `log.jsonl`, or both.
        name: Name of the run; None: the name of the folder.

    Raises:
        InvalidFileError: If the folder is no run directory or one of its files is malformed.
    """
    if not os.path.isdir(folder):
        raise InvalidFileError(f"no run directory at {folder}")
    file, log = folder / "config.toml", folder / "log.jsonl"
    configured, logged = map(os.path.lexists, (file, log))
    if not configured and not logged:
        raise InvalidFileError(
            f"{folder} has neither config.toml nor log.jsonl; expected a run directory of floodtide train"
        )
    config_text = reading.read_text(file) if configured else ""
    config = reading.parse_toml(config_text, str(file))
    _require_forms(config, _CONFIGURATION, str(file))
    records = _read_log(log) if logged else []
    train, validation = (_series(records, kind) for kind in ("train", "validation"))
    starts = [record for record in records if record.get("kind") == "start"]
    absent = []
    if not configured or not logged:
        absent.append("settings and curves: config.toml or log.jsonl of the training is missing")
    if logged and not train:
        absent.append(
            "training curves: no training step yet (run.log_every_s sets how often one is recorded)"
        )
    if logged and not validation:
        absent.append(
            "validation: none yet (validation.box names what to hold out, validation.every how often)"
        )
    run = Run(
        folder=folder,
        # File systems allow names of folders that are not UTF-8 text.
        name=(name or folder.resolve().name).encode("utf-8", "replace").decode("utf-8"),
        config=config,
        config_text=config_text,
        start=starts[-1] if starts else {},
        train=train,
        validation=validation,
        failure=read_failure(folder),
        absent=tuple(absent),
    )
    _check_task(run, str(log))
    return run


def read_failure(folder: Path) -> str:
    """Return the reason in the failure record of the lowest rank; empty if there is none, as after a resumption."""
    paths = folder.glob("failure-rank-*.json")
    found = [(int(rank[1]), p) for p in paths if (rank := _RECORD_OF_FAILURE.fullmatch(p.name))]
    if not found:
        return ""
    path = min(found)[1]
    expected = "an object with a reason"
    failure = reading.read_json(path, expected)
    if not _follows(failure, _FAILURE):
        raise InvalidFileError(f"{path}: expected {expected}")
    return str(failure["reason"])


def _read_log(path: Path) -> list[Record]:
    """Return all records. A last line without an end is a write in progress, and is left out."""
    rows = reading.read_json_lines(path, "a log of floodtide train")
    for where, record in rows:
        kind = str(record.get("kind"))
        _require_forms(record, {**_COMMON, **_FORMS.get(kind, {})}, where)
        if kind == "train":
            figures = [key for key, value in record.items() if isinstance(value, int | float)]
            _require_forms(record, dict.fromkeys(figures, _number), where)
    return [record for _, record in rows]


def _series(records: list[Record], kind: str) -> list[Record]:
    """Return the records of a kind by step. If a resumed run repeated steps, return the later records."""
    by_step: dict[int, Record] = {}
    for record in records:
        if record.get("kind") != kind or "step" not in record:
            continue
        step = record["step"]
        if by_step and step <= max(by_step):
            by_step = {key: value for key, value in by_step.items() if key < step}
        by_step[step] = record
    return [by_step[step] for step in sorted(by_step)]


def _require_forms(values: Mapping[str, Any], forms: Mapping[str, Any], where: str) -> None:
    """Raise InvalidFileError that names the first value of another form."""
    for key, form in forms.items():
        if key in values and not _follows(values[key], form):
            raise InvalidFileError(
                f"{where}: {key} is {shown(values[key])}, expected what floodtide train writes"
            )


def _check_task(run: Run, where: str) -> None:
    """Refuse a log that does not count, or has not validated, what the task of the configuration says."""
    unit = run.start.get("unit", run.unit)
    if unit != run.unit:
        raise InvalidFileError(
            f"{where}: counts {unit}, expected a config.toml with a task.kind that is learnt from {unit}"
        )
    for record in run.validation:
        what = f"{where}: the validation of step {record['step']} has"
        try:
            run.task.scores_of(record)
            fits = not run.task.scores_groups or _one_of_each(record)
        except KeyError as missing:
            raise InvalidFileError(
                f"{what} no {missing.args[0]}, expected the scores of task '{run.task.kind}'"
            ) from missing
        if not fits:
            raise InvalidFileError(
                f"{what} {len(record['classes'])} classes, expected a Dice of each group for each, and their confusion"
            )


def _one_of_each(record: Record) -> bool:
    """Return True if classes have a Dice of each group, and the confusion a row and a column of each class."""
    classes, groups, confusion = (record[key] for key in ("classes", "groups", "confusion"))
    sizes = {len(confusion), *map(len, confusion)}
    dice = {len(row["dice_groups"]) for row in classes}
    return sizes == {len(classes) + 1} and dice <= {len(groups)}
