# SPDX-License-Identifier: Apache-2.0
"""The run directory: config.toml, log.jsonl, TensorBoard events, checkpoints/, which only the writing rank touches;
and what every rank leaves on request or when the job fails."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from floodtide import _core, _reading
from floodtide import config as configuration
from floodtide._events import EventFile
from floodtide._files import replace_text
from floodtide.errors import Error, InvalidFileError, StorageError

_LONGEST_S = 1e12  # of a run
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
        self._events: EventFile | None = None
        self._start_s = time.time()

    def checkpoint_path(self, step: int) -> Path:
        """Where the checkpoint after `step` updates lies."""
        return self.path / "checkpoints" / f"step-{step}.h5"

    def checkpoints(self) -> list[Path]:
        """All checkpoints, oldest first.

        Raises:
            InvalidFileError: If the folder cannot be read.
        """
        found = []
        with _reading.reading(self.path, "a run directory"):
            for path in (self.path / "checkpoints").glob("step-*.h5"):
                match = CHECKPOINT.fullmatch(path.name)
                if match:
                    found.append((int(match.group(1)), path))
        return [path for _, path in sorted(found)]

    def newest_checkpoint(self) -> str:
        """Path of the checkpoint to resume from; empty if there is none, and on ranks that do not write.

        Raises:
            InvalidFileError: If the folder cannot be read.
        """
        paths = self.checkpoints() if self._writer else []
        return str(paths[-1]) if paths else ""

    def advice(self, checkpoint: str) -> str:
        """What to do if `checkpoint`, the newest one, could not be loaded: if the file is damaged, which one to use."""
        if not self._writer or _intact(Path(checkpoint)):
            return ""
        older = [path for path in self.checkpoints() if str(path) != checkpoint]
        whole = next(filter(_intact, reversed(older)), None)
        if whole is None:
            return "; no older checkpoint is intact" if older else ""
        moved = "the damaged file" if whole == older[-1] else "all newer files"
        return f"; {whole.name} is older and intact: move {moved} away to resume from it"

    def prune(self, keep: int) -> None:
        """Remove all but the newest `keep` checkpoints (at least one stays).

        Raises:
            StorageError: If one cannot be removed.
        """
        if self._writer:
            with self._storing("remove old checkpoints"):
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
        with self._storing("write trace.json"):
            for path in sorted((self.path / "traces").glob("rank-*.json")):
                events += _reading.read_json(path, "a list of trace events")
            merged = {"traceEvents": events, "displayTimeUnit": "ms"}
            replace_text(self.path / "trace.json", json.dumps(merged))

    def start(self, config: Any, step: int) -> None:
        """Make the directory, write the resolved configuration, open the log.

        Records of steps that a run resumed at `step` will do again are dropped, and so are files that a killed run was
        writing.

        Raises:
            InvalidFileError: If the log of the run that is resumed is damaged; nothing is changed then.
            StorageError: If the directory cannot be written.
        """
        if not self._writer:
            return
        path = self.path / "log.jsonl"
        kept = [record for record in read_log(path) if record["step"] <= step] if step else []
        import tensorboardX  # noqa: F401  # takes a second or two: not at the first record, while all ranks wait

        with self._storing("write the run directory"):
            (self.path / "checkpoints").mkdir(parents=True, exist_ok=True)
            for stale in (
                *(self.path / "traces").glob("rank-*.json"),
                *self.path.glob("failure-rank-*.json"),
                *self._left_over(),
            ):
                stale.unlink()
            if config.run.trace:
                (self.path / "traces").mkdir(exist_ok=True)
            configuration.save(config, self.path / "config.toml")
            replace_text(path, "".join(json.dumps(record) + "\n" for record in kept))
            self._log = path.open("a", buffering=1)
        if kept:
            self._start_s = time.time() - float(kept[-1]["time_s"])

    def record(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """Append a record to the log and its numbers to the TensorBoard events; returns it with its
        time, None elsewhere.

        Raises:
            StorageError: If it cannot be written; nothing more is then recorded.
        """
        if not self._writer:
            return None
        stamped = {**record, "time_s": round(time.time() - self._start_s, 3)}
        try:
            with self._storing("write log.jsonl"):
                self._log.write(json.dumps(stamped) + "\n")
            if record["kind"] in ("train", "validation"):
                with self._storing("write TensorBoard events"):
                    if self._events is None:
                        self._events = EventFile(self.path)
                    self._events.add(_scalars(record, record["kind"]), record["step"])
        except StorageError:
            with contextlib.suppress(
                StorageError
            ):  # what is still in buffers fails once more, here and not at exit
                self.close()
            raise
        return stamped

    def close(self) -> None:
        """Flush and close log and events.

        Raises:
            StorageError: If what they hold cannot be written.
        """
        log, events = self._log, self._events
        self._log = self._events = None
        with contextlib.ExitStack() as files:
            for file, name in ((log, "log.jsonl"), (events, "TensorBoard events")):
                if file is not None:
                    files.enter_context(self._storing(f"write {name}"))
                    files.callback(file.close)

    def _left_over(self) -> Iterator[Path]:
        """Files that processes were writing when they were killed."""
        yield from (self.path / "checkpoints").glob("step-*.h5.tmp-*")
        yield from self.path.glob("failure-rank-*.json.part")
        yield from self.path.glob("trace.json.tmp")

    @contextlib.contextmanager
    def _storing(self, what: str) -> Iterator[None]:
        try:
            yield
        except Error:
            raise
        except OSError as error:
            raise StorageError(f"{self.path}: cannot {what}: {error.strerror}") from None


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log.jsonl; a last line that was cut off is left out. An absent file has none.

    Raises:
        InvalidFileError: If a line is no record with a step and a time.
    """
    if not os.path.lexists(path):
        return []
    expected = "a log of floodtide train; move the file away to start a new one"
    records = []
    for where, record in _reading.read_json_lines(path, expected):
        step, time_s = record.get("step"), record.get("time_s", 0.0)
        if (
            type(step) is not int
            or type(time_s) not in (int, float)
            or not 0 <= time_s < _LONGEST_S
        ):
            raise InvalidFileError(f"{where}: has no step or no time; expected {expected}")
        records.append(record)
    return records


def _intact(path: Path) -> bool:
    """Whether all of a checkpoint can be read, and its checksums are right."""
    try:
        _core.require_intact(os.fspath(path))
    except (InvalidFileError, StorageError):
        return False
    return True


def _scalars(record: Mapping[str, Any], prefix: str) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            found += _scalars(value, f"{prefix}/{key}")
        elif isinstance(value, (int, float)) and key != "step":
            found.append((f"{prefix}/{key}", float(value)))
    return found
