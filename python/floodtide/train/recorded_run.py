# SPDX-License-Identifier: Apache-2.0
"""What a run directory holds, read for a report. Absent parts stay empty and are listed by name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from floodtide.base import reading
from floodtide.errors import InvalidFileError
from floodtide.train import record_checks as checks
from floodtide.train.run_directory import replace_negative_times

Record = dict[str, Any]

_FAILURE = re.compile(r"failure-rank-(\d{1,9})\.json")
# What a run trains on, by the unit in which its log counts (older logs name none: fields of view).
FIELDS, SLICES, PATCHES = "fovs", "slices", "patches"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run directory.

    Attributes:
        folder: The directory.
        name: How the run is called in legends.
        config: The resolved configuration (`config.toml`), empty if absent.
        config_text: The same file as it stands.
        start: The last `start` record of the log: what was built, found and used.
        train: `train` records, one a logged step, steps ascending.
        validation: `validation` records, steps ascending.
        scores: `scores.json`: a row a segmentation (`name` and its scores), empty if absent.
        failure: What ended the run, as the lowest rank wrote it (`failure-rank-<r>.json`), or empty.
        absent: The parts that are not there, in words.
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
        """What the log counts: `fovs`, `slices` or `patches`."""
        return str(self.start.get("unit", FIELDS))

    @property
    def ranks(self) -> int:
        """Processes that trained; 1 if the log does not say."""
        return int(self.start.get("ranks", 1))

    @property
    def workers(self) -> int:
        """Streams of examples (walkers), whose gradients make an update together."""
        return int(self.start.get("walkers", self.ranks))

    @property
    def emulated(self) -> bool:
        """Whether ranks took the place of several workers each, one after another."""
        return self.ranks < self.workers

    @property
    def voxel_size_nm(self) -> tuple[float, float, float] | None:
        """Edges of a voxel (z, y, x) in nanometres, as the first training volume states them.

        None if it states none: a resolved configuration then holds the default, ones.
        """
        for volume in self.config.get("data", {}).get("volumes", []):
            size = volume.get("voxel_size_nm")
            if size and list(size) != [1.0, 1.0, 1.0]:
                return (float(size[0]), float(size[1]), float(size[2]))
        return None


def read_run(folder: Path, name: str | None = None) -> Run:
    """Read the text parts of a run directory.

    Args:
        folder: A run directory: at least one of `config.toml`, `log.jsonl`, `scores.json` is there.
        name: How to call it; default: the folder's own name.

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
    records = _read_log(parts["log.jsonl"]) if "log.jsonl" in present else []
    train = _series(records, "train")
    validation = _series(records, "validation")
    starts = [record for record in records if record.get("kind") == "start"]
    start = starts[-1] if starts else {}
    for record in validation:
        checks.check_validation(record, start.get("unit", FIELDS), str(parts["log.jsonl"]))
    flooding = start.get("unit", FIELDS) == FIELDS  # others have no scores of segments
    wanted = [part for part in parts if flooding or part != "scores.json"]
    absent = [f"{part} is not there" for part in wanted if part not in present]
    if "log.jsonl" in present and not train:
        absent.append("log.jsonl holds no training step")
    if "log.jsonl" in present and not validation:
        absent.append("log.jsonl holds no validation")
    return Run(
        folder=folder,
        name=_encodable(name or folder.resolve().name),
        config=_parse_toml(config_text, parts["config.toml"]),
        config_text=config_text,
        start=start,
        train=train,
        validation=validation,
        scores=_read_scores(parts["scores.json"]) if "scores.json" in present else [],
        failure=_read_failure(folder),
        absent=tuple(absent),
    )


def _encodable(name: str) -> str:
    """A folder's name as text: the system allows bytes in it that are no UTF-8."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _parse_toml(text: str, path: Path) -> Record:
    tables = reading.parse_toml(text, str(path))
    checks.check_configuration(tables, str(path))
    return tables


def _read_scores(path: Path) -> list[Record]:
    expected = "a list of objects with a name each"
    rows = reading.read_json(path, expected)
    if isinstance(rows, dict):
        rows = [{"name": "segmentation", **rows}]  # as `floodtide evaluate --json` prints it
    if not checks.SCORES(rows):
        raise InvalidFileError(f"{path}: expected {expected}")
    return list(rows)


def _read_failure(folder: Path) -> str:
    """The reason in the lowest rank's record of a failed job; a resumed run has none."""
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
    if not checks.FAILURE(failure):
        raise InvalidFileError(f"{path}: expected {expected}")
    return str(failure["reason"])


def _read_log(path: Path) -> list[Record]:
    """All records; a last line without its end is a write in progress and is left out."""
    rows = reading.read_json_lines(path, "a log of floodtide train")
    replace_negative_times([record for _, record in rows], path)
    for where, record in rows:
        checks.check_record(record, where)
    return [record for _, record in rows]


def _series(records: list[Record], kind: str) -> list[Record]:
    """Records of a kind by step; where a resumed run repeats steps, the later record counts."""
    by_step: dict[int, Record] = {}
    for record in records:
        if record.get("kind") != kind or "step" not in record:
            continue
        step = record["step"]
        if by_step and step <= max(by_step):
            by_step = {key: value for key, value in by_step.items() if key < step}
        by_step[step] = record
    return [by_step[step] for step in sorted(by_step)]
