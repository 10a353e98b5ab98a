# SPDX-License-Identifier: Apache-2.0
"""Read run directories for reports. Missing parts stay empty, and are listed by name."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from floodtide.base import reading
from floodtide.base.files import require_utf8
from floodtide.base.options import FLOOD, Range, converted, one_of, shown
from floodtide.base.tasks import BY_KIND, Task
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.optim import advice
from floodtide.train.learners.learner import Record as Record

_LARGEST = 1e30  # of any figure: beyond, drawings overflow
_COUNT, _POSITIVE = Range(0, 1 << 53), Range(1, 1 << 53)  # whole numbers that a float holds
_OPTIONAL = float | None
_ADVICE = "; move the file away to start a new one"

# What the report relies on in records and configurations: annotations, choices, ranges, tables and lists of these.
# A key may be absent (older logs), and there may be others.
_Figures = Mapping[str, float]
_COMMON: dict[str, Any] = {"step": _COUNT, "time_s": Range(0.0, 1e12)}
_CLASS = {
    "class": _COUNT,
    "name": str,
    "dice_pooled": _OPTIONAL,
    "dice_mean": _OPTIONAL,
    "dice_everything": float,
    "dice_groups": tuple[_OPTIONAL, ...],
}
# of the row of a class of voxels, of a binary output, and of another one: none may be absent
_BINARY = ("average_precision", "boundary_average_precision", "share_of_ones", "f1", "mcc")
_SOFT = ("mean_squared_error", "variance")
_FORMS: dict[str, dict[str, Any]] = {
    "start": {
        **dict.fromkeys(("ranks", "walkers", "threads", "cores", "hosts"), _POSITIVE),
        **dict.fromkeys(("unit", "kernels", "transport", "processor"), str),
    },
    "train": {
        **dict.fromkeys(("loss", "lr", "lr_share"), float),
        **dict.fromkeys(("noise_scale", "noise_scale_low", "noise_scale_high"), _OPTIONAL),
    },
    "validation": {
        "cross_entropy": float,
        "first_pass": _Figures,
        "moves": _Figures,
        "trivial": Mapping[str, _Figures],
        "trivial_moves": Mapping[str, _Figures],
        "groups": tuple[str, ...],
        "classes": [_CLASS],
        "confusion": [[_COUNT]],
        "channels": Mapping[str, _Figures],
    },
}
_VOLUME = {
    **dict.fromkeys(("name", "image", "labels"), str),
    "labels_start": tuple[int, int, int],
    "voxel_size_nm": [Range(0.0, _LARGEST, above=True)],
}
_CONFIGURATION: dict[str, Any] = {
    **dict.fromkeys(("model", "optimizer", "validation"), Mapping[str, Any]),
    "data": {"volumes": [_VOLUME], "unlabelled": int},
    "task": {"kind": tuple(BY_KIND), "classes": Mapping[str, str]},
    "training": {"steps": _COUNT, "corrections": tuple[tuple[int, int], ...], "loss": str},
    "segment": {"image": str},
    "comm": {"contributors": _COUNT},
}

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
    def source(self) -> Record:
        """Return the table of the volume of the run's segmentation; only `image`, "" if unknown, without a table."""
        wanted = self.config.get("segment", {}).get("image", "")
        volumes = self.config.get("data", {}).get("volumes", [])
        own = (one for one in volumes if wanted in ("", one.get("name"), one.get("image")))
        return next(own, {"image": wanted})

    @property
    def voxel_size_nm(self) -> tuple[float, float, float] | None:
        """Voxel size (z, y, x) in nanometres of the first training volume whose table states one; None if none does."""
        for volume in self.config.get("data", {}).get("volumes", []):
            if len(size := volume.get("voxel_size_nm", ())) == 3:
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
    _require(config, _CONFIGURATION, str(file))
    records = read_log(log)
    train, validation = (_series(records, kind) for kind in ("train", "validation"))
    starts = [record for record in records if record["kind"] == "start"]
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
    path = min(paths, key=lambda one: (len(one.name), one.name), default=None)
    if path is None:
        return ""
    expected = "an object with a reason"
    failure = reading.read_json(path, expected)
    if not isinstance(failure, dict) or not isinstance(failure.get("reason"), str):
        raise InvalidFileError(f"{path}: expected {expected}")
    return str(failure["reason"])


def read_log(path: Path) -> list[Record]:
    """Return the records of a log.jsonl, without a last line that was cut off. A missing file has no records.

    Raises:
        InvalidFileError: If a line is not a record as floodtide train writes it, of a kind and with a step.
    """
    if not os.path.lexists(path):
        return []
    rows = reading.read_json_lines(path, f"a log of floodtide train{_ADVICE}")
    for where, record in rows:
        _require(record, _COMMON | _FORMS.get(str(record.get("kind")), {}), where, _ADVICE)
        if not {"kind", "step"} <= record.keys():
            raise InvalidFileError(f"{where}: has no kind or no step{_ADVICE}")
    return [record for _, record in rows]


def _require(values: Record, forms: Mapping[str, Any], where: str, advice: str = "") -> None:
    """Raise InvalidFileError that names the first value of another form, or that no page and no figure can show."""
    try:
        for key, value in values.items():
            _check(value, forms.get(key, Any), f"{where}: {key}")
            _require_shown(value, f"{where}: {key}")
    except InvalidArgumentError as error:
        raise InvalidFileError(f"{error}, as floodtide train writes it{advice}") from None


def _check(value: Any, form: Any, key: str) -> None:
    if isinstance(form, tuple) and value not in form:
        raise InvalidArgumentError(f"{key} is {shown(value)}, expected {one_of(form)}")
    if isinstance(form, dict):
        converted(value, Mapping[str, Any], key)
        for name in form.keys() & value.keys():
            _check(value[name], form[name], f"{key}.{name}")
    elif isinstance(form, list):
        for index, one in enumerate(converted(value, tuple[Any, ...], key)):
            _check(one, form[0], f"{key}.{index}")
    elif isinstance(form, Range):
        form.check(value, key)
    elif not isinstance(form, tuple):
        converted(value, form, key)


def _require_shown(value: Any, key: str) -> None:
    """Refuse a finite number above 1e30, and halves of surrogate pairs, which cannot be written."""
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            _require_shown(one, f"{key}.{name}")
    elif isinstance(value, str):
        require_utf8(value, "text")
    elif isinstance(value, int | float) and _LARGEST < abs(value) != math.inf:
        raise InvalidArgumentError(f"{key} is {shown(value)}, expected at most 1e30")


def _series(records: list[Record], kind: str) -> list[Record]:
    """Return the records of a kind by step. If a resumed run repeated steps, return the later records."""
    by_step: dict[int, Record] = {}
    for record in records:
        if record["kind"] != kind:
            continue
        step = record["step"]
        if by_step and step <= max(by_step):
            by_step = {key: value for key, value in by_step.items() if key < step}
        by_step[step] = record
    return [by_step[step] for step in sorted(by_step)]


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
            for row in record.get("classes", ()):
                itemgetter(*_CLASS)(row)
            for row in record.get("channels", {}).values():
                itemgetter(*(_SOFT if "variance" in row else _BINARY))(row)
            run.task.scores_of(record)
            fits = run.task.of_objects or _one_of_each(record)
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
