# SPDX-License-Identifier: Apache-2.0
"""The run directory: config.toml, log.jsonl, TensorBoard events, checkpoints/, which only the writing rank touches;
and what every rank leaves on request or when the job fails."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from floodtide import config as configuration
from floodtide.errors import StorageError

CHECKPOINT = re.compile(r"step-(\d+)\.h5")


class RunDirectory:
    """Files of one run. Every method does nothing on ranks that do not write.

    Args:
        path: The directory; made if it is missing.
        writer: Whether this rank writes (rank 0).
    """

    def __init__(self, path: Path, *, writer: bool) -> None:
        self.path = path
        self._writer = writer
        self._log: Any = None
        self._events: Any = None
        self._start_s = time.time()

    def checkpoint_path(self, step: int) -> Path:
        """Where the checkpoint after `step` updates lies."""
        return self.path / "checkpoints" / f"step-{step}.h5"

    def checkpoints(self) -> list[Path]:
        """All checkpoints, oldest first."""
        found = []
        for path in (self.path / "checkpoints").glob("step-*.h5"):
            match = CHECKPOINT.fullmatch(path.name)
            if match:
                found.append((int(match.group(1)), path))
        return [path for _, path in sorted(found)]

    def newest_checkpoint(self) -> str:
        """Path of the checkpoint to resume from; empty if there is none, and on ranks that do not write."""
        paths = self.checkpoints() if self._writer else []
        return str(paths[-1]) if paths else ""

    def prune(self, keep: int) -> None:
        """Remove all but the newest `keep` checkpoints (at least one stays)."""
        if self._writer:
            for path in self.checkpoints()[: -max(keep, 1)]:
                path.unlink(missing_ok=True)

    def trace_path(self, rank: int) -> Path:
        """Where a rank traces what it does, in traces/."""
        return self.path / "traces" / f"rank-{rank}.json"

    def failure_path(self, rank: int) -> Path:
        """Where a rank records its last events when the job fails."""
        return self.path / f"failure-rank-{rank}.json"

    def merge_traces(self) -> None:
        """Put all ranks' traces into trace.json: one file for chrome://tracing or Perfetto.

        Raises:
            StorageError: If it cannot be written.
        """
        if not self._writer:
            return
        events: list[Any] = []
        try:
            for path in sorted((self.path / "traces").glob("rank-*.json")):
                events += json.loads(path.read_text())
            temporary = self.path / "trace.tmp"
            temporary.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
            os.replace(temporary, self.path / "trace.json")
        except OSError as error:
            raise StorageError(f"{self.path}: cannot write trace.json: {error.strerror}") from None

    def start(self, config: Any, step: int) -> None:
        """Make the directory, write the resolved configuration, open the log.

        Records of steps that a run resumed at `step` will do again are dropped.

        Raises:
            StorageError: If the directory cannot be written.
        """
        if not self._writer:
            return
        import tensorboardX  # noqa: F401  # takes a second or two: not at the first record, while all ranks wait

        path = self.path / "log.jsonl"
        try:
            (self.path / "checkpoints").mkdir(parents=True, exist_ok=True)
            for stale in (
                *(self.path / "traces").glob("rank-*.json"),
                *self.path.glob("failure-rank-*.json"),
            ):
                stale.unlink()
            if config.run.trace:
                (self.path / "traces").mkdir(exist_ok=True)
            configuration.save(config, self.path / "config.toml")
            kept = [record for record in read_log(path) if record["step"] <= step] if step else []
            temporary = path.with_suffix(".tmp")
            temporary.write_text("".join(json.dumps(record) + "\n" for record in kept))
            os.replace(temporary, path)
            self._log = path.open("a", buffering=1)
        except OSError as error:
            raise StorageError(
                f"{self.path}: cannot write the run directory: {error.strerror}"
            ) from None
        if kept:
            self._start_s = time.time() - float(kept[-1]["time_s"])

    def record(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """Append a record to the log and its numbers to the TensorBoard events; returns it with its
        time, None elsewhere."""
        if not self._writer:
            return None
        stamped = {**record, "time_s": round(time.time() - self._start_s, 3)}
        self._log.write(json.dumps(stamped) + "\n")
        if record["kind"] in ("train", "validation"):
            if self._events is None:
                from tensorboardX import SummaryWriter

                self._events = SummaryWriter(str(self.path), flush_secs=10)
            for name, value in _scalars(record, record["kind"]):
                self._events.add_scalar(name, value, record["step"])
        return stamped

    def close(self) -> None:
        """Flush and close log and events."""
        for file in (self._log, self._events):
            if file is not None:
                file.close()
        self._log = self._events = None


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log.jsonl; a last line that was cut off is left out. An absent file has none."""
    if not path.exists():
        return []
    *complete, _ = path.read_text().split("\n")
    return [json.loads(line) for line in complete]


def _scalars(record: Mapping[str, Any], prefix: str) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            found += _scalars(value, f"{prefix}/{key}")
        elif isinstance(value, (int, float)) and key != "step":
            found.append((f"{prefix}/{key}", float(value)))
    return found
