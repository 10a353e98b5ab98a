# SPDX-License-Identifier: Apache-2.0
"""Read run directories for reports. Missing parts stay empty, and are listed by name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from floodtide.base import reading
from floodtide.errors import InvalidFileError
from floodtide.train import record_checks as checks
from floodtide.train.kinds.task import Record as Record

_FAILURE = re.compile(r"failure-rank-(\d{1,9})\.json")
# The unit in which a log counts tells the kind of run. Logs without a unit are older: fields of view.
FIELDS, SLICES, PATCHES = "fovs", "slices", "patches"
SEGMENTATION = "segmentation.h5"
"""The file of a segmentation in a run directory, dataset `segmentation`."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The contents of one run directory.

    Attributes:
        folder: The directory.
        name: Name of the run in legends.
        config: The resolved configuration (`config.toml`); empty if the file is missing.
        config_text: The text of config.toml.
        start: The last `start` record of the log: network, ranks, kernels.
        train: `train` records, one per logged step, in ascending order of steps.
        validation: `validation` records, in ascending order of steps.
        scores: Rows of `scores.json`: one per segmentation, with its name and scores; empty if the file is missing.
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
    scores: list[Record] = field(default_factory=list)
    failure: str = ""
    absent: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """Unit in which the log counts: `fovs`, `slices` or `patches`."""
        return str(self.start.get("unit", FIELDS))

    @property
    def ranks(self) -> int:
        """Number of ranks that trained; 1 if the log does not say."""
        return int(self.start.get("ranks", 1))

    @property
    def workers(self) -> int:
        """Number of walkers. Each update averages the gradients of all walkers."""
        return int(self.start.get("walkers", self.ranks))

    @property
    def emulated(self) -> bool:
        """True if a rank computed several walkers, one after another, in place of more workers."""
        return self.ranks < self.workers

    @property
    def sources(self) -> tuple[str, str]:
        """Return the names of image and labels of the run's segmentation, "" if unknown."""
        wanted = self.config.get("segment", {}).get("image", "")
        for volume in self.config.get("data", {}).get("volumes", []):
            if not wanted or wanted in (volume.get("name"), volume.get("image")):
                return volume.get("image", ""), volume.get("labels", "")
        return wanted, ""

    @property
    def voxel_size_nm(self) -> tuple[float, float, float] | None:
        """Voxel size (z, y, x) in nanometres of the first training volume whose table states one; None if none does."""
        for volume in self.config.get("data", {}).get("volumes", []):
            size = volume.get("voxel_size_nm")
            if size:
                return (float(size[0]), float(size[1]), float(size[2]))
        return None


def read_run(folder: Path, name: str | None = None) -> Run:
    """Read the text parts of a run directory.

    Args:
        folder: A run directory with at least one of `config.toml`, `log.jsonl` and `scores.json`.
        name: Name of the run; None: the name of the folder.

    Raises:
        InvalidFileError: If the folder is no run directory or one of its files is malformed.
    """
    if not os.path.isdir(folder):
        raise InvalidFileError(f"no run directory at {folder}")
    parts = {part: folder / part for part in ("config.toml", "log.jsonl", "scores.json")}
    present = {part for part, path in parts.items() if os.path.lexists(path)}
    if not present:
        raise InvalidFileError(
            f"{folder} has none of {', '.join(parts)}; expected a run directory of floodtide train"
        )
    config_text = reading.read_text(parts["config.toml"]) if "config.toml" in present else ""
    config = reading.parse_toml(config_text, str(parts["config.toml"]))
    checks.check_configuration(config, str(parts["config.toml"]))
    records = _read_log(parts["log.jsonl"]) if "log.jsonl" in present else []
    train = _series(records, "train")
    validation = _series(records, "validation")
    starts = [record for record in records if record.get("kind") == "start"]
    start = starts[-1] if starts else {}
    for record in validation:
        checks.check_validation(record, start.get("unit", FIELDS), str(parts["log.jsonl"]))
    absent = []
    if "config.toml" not in present or "log.jsonl" not in present:
        absent.append("settings and curves: config.toml or log.jsonl of the training is missing")
    if "log.jsonl" in present and not train:
        absent.append(
            "training curves: no training step yet (run.log_every_s sets how often one is recorded)"
        )
    if "log.jsonl" in present and not validation:
        absent.append(
            "validation: none yet (validation.box names what to hold out, validation.every how often)"
        )
    return Run(
        folder=folder,
        # File systems allow names of folders that are not UTF-8 text.
        name=(name or folder.resolve().name).encode("utf-8", "replace").decode("utf-8"),
        config=config,
        config_text=config_text,
        start=start,
        train=train,
        validation=validation,
        scores=_read_scores(parts["scores.json"]) if "scores.json" in present else [],
        failure=read_failure(folder),
        absent=tuple(absent),
    )


def _read_scores(path: Path) -> list[Record]:
    expected = "a list of objects with a name each"
    rows = reading.read_json(path, expected)
    if isinstance(rows, dict):
        rows = [{"name": "segmentation", **rows}]  # as `floodtide evaluate --json` prints it
    if not checks.follows(rows, checks.SCORES):
        raise InvalidFileError(f"{path}: expected {expected}")
    return list(rows)


def read_failure(folder: Path) -> str:
    """Return the reason in the failure record of the lowest rank; empty if there is none, as after a resumption.

    Raises:
        InvalidFileError: If the record is malformed.
    """
    found = []
    for path in folder.glob("failure-rank-*.json"):
        match = _FAILURE.fullmatch(path.name)
        if match:
            found.append((int(match.group(1)), path))
    if not found:
        return ""
    path = min(found)[1]
    expected = "an object with a reason"
    failure = reading.read_json(path, expected)
    if not checks.follows(failure, checks.FAILURE):
        raise InvalidFileError(f"{path}: expected {expected}")
    return str(failure["reason"])


def _read_log(path: Path) -> list[Record]:
    """Return all records. A last line without an end is a write in progress, and is left out."""
    rows = reading.read_json_lines(path, "a log of floodtide train")
    for where, record in rows:
        checks.check_record(record, where)
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
