# SPDX-License-Identifier: Apache-2.0
"""The run directory.

Rank 0 writes config.toml, log.jsonl, TensorBoard events and checkpoints/. Every rank writes its trace (`run.trace`)
and, if the job fails, its last events.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide import config as configuration
from floodtide import errors
from floodtide.base import reading
from floodtide.base.files import SUFFIX, replace_text
from floodtide.base.locks import Lock, take
from floodtide.base.network_files import checkpoints
from floodtide.train.recorded_run import read_log

LOCK = "run.lock"
"""Name of the lock file of a run directory. The file names the process that writes the directory."""

MARK = "# Resolved configuration of a run of floodtide: replaced at each start.\n"
"""First line of config.toml in a run directory, by which floodtide recognises its own file."""


class RunDirectory:
    """Files of one run. Every method does nothing on ranks that do not write.

    StorageError is raised for a file that cannot be written, and InvalidFileError for a log that is damaged or not that
    of a run.

    Args:
        path: The directory. `take` creates it if it is missing.
        writer: True if this rank writes (rank 0).
    """

    def __init__(self, path: Path, *, writer: bool) -> None:
        self.path = path
        self._writer = writer
        self._lock: Lock | None = None
        self._log: Any = None
        self._events: Any = None
        self._start_s = time.monotonic()

    def take(self) -> None:
        """Lock the directory until `close`, and create it if it is missing. No other process may then write it.

        If an older object of this process holds the lock, it loses the lock.

        Raises:
            LockedError: If another process holds the lock. The message names host, process and time.
            StorageError: If the directory cannot be written.
        """
        if not self._writer:
            return
        with self._storing("make the run directory"):
            self.path.mkdir(parents=True, exist_ok=True)
        self._lock = take(
            self.path / LOCK,
            f"the run directory {self.path}",
            "wait until it has ended, or give this run another run.dir",
        )

    def require_taken(self) -> None:
        """Raise LockedError if another object or process has taken the lock since `take`."""
        if self._writer and self._lock is not None and not self._lock.held:
            raise errors.LockedError(
                f"{self.path}: another Trainer or process has taken this run directory ({LOCK} is not of this one any"
                " more): this run ends without writing to it"
            )

    def newest_checkpoint(self) -> str:
        """Return the path of the newest checkpoint; empty if there is none, and on ranks that do not write."""
        paths = checkpoints(self.path) if self._writer else []
        return str(paths[-1]) if paths else ""

    def prune(self, keep: int, inputs: Sequence[str]) -> None:
        """Remove all but the newest `keep` checkpoints, but no files that the run reads when it starts (`inputs`)."""
        if self._writer:
            self.require_taken()
            read = [path for path in inputs if os.path.exists(path)]
            with self._storing("remove old checkpoints"):
                for path in checkpoints(self.path)[:-keep]:
                    if not any(os.path.samefile(path, one) for one in read):
                        path.unlink(missing_ok=True)

    def merge_traces(self) -> None:
        """Merge the traces of all ranks into trace.json, for chrome://tracing or Perfetto."""
        if not self._writer:
            return
        events: list[Any] = []
        with self._storing("write trace.json"):
            for path in sorted((self.path / "traces").glob("rank-*.json")):
                events += reading.read_json(path, "a list of trace events")
            merged = {"traceEvents": events, "displayTimeUnit": "ms"}
            replace_text(self.path / "trace.json", json.dumps(merged))

    def last_validation(self) -> dict[str, Any]:
        """Return the last validation in the log; empty without one, and on ranks that do not write."""
        records = read_log(self.path / "log.jsonl") if self._writer else []
        return next((r for r in reversed(records) if r["kind"] == "validation"), {})

    def start(self, config: configuration.Config, step: int) -> None:
        """Write the resolved configuration and open the log. Call `take` before.

        This drops the records of steps after `step`, which the resumed run repeats, and removes the unfinished files
        of a killed run.

        Raises:
            InvalidFileError: If log.jsonl is damaged, or is not the log of a run. Nothing is changed then.
            InvalidArgumentError: If config.toml was not written by a run.
            StorageError: If the directory cannot be written.
        """
        if not self._writer:
            return
        own, mark = self.path / "config.toml", MARK.encode()
        content = reading.read_bytes(own, "a configuration") if os.path.lexists(own) else mark
        if not content.startswith(mark):
            raise errors.InvalidArgumentError(
                f"{own}: is not the resolved configuration of a run, which this run would write under that name: give"
                " your own another name or folder, or the run another run.dir"
            )
        path = self.path / "log.jsonl"
        kept = [record for record in read_log(path) if step and record["step"] <= step]
        # This takes a second or two: not at the first record, while all ranks wait.
        from tensorboardX.event_file_writer import EventsWriter

        with self._storing("write the run directory"):
            (self.path / "checkpoints").mkdir(parents=True, exist_ok=True)
            for stale in (
                *(self.path / "traces").glob("rank-*.json"),
                *self.path.glob("failure-rank-*.json"),
                # of killed processes
                *self.path.glob(f".*{SUFFIX}"),
                *(self.path / "checkpoints").glob(f".step-*{SUFFIX}"),
            ):
                stale.unlink(missing_ok=True)
            if config.run.trace:
                (self.path / "traces").mkdir(exist_ok=True)
            replace_text(path, "".join(json.dumps(record) + "\n" for record in kept))
            self._log = path.open("a", buffering=1)
            self._events = EventsWriter(str(self.path / "events"))  # TensorBoard knows the name
        self.write_config(config)
        if kept:
            self._start_s = time.monotonic() - kept[-1].get("time_s", 0.0)

    def write_config(self, config: configuration.Config) -> None:
        """Write the resolved configuration."""
        if self._writer:
            replace_text(self.path / "config.toml", MARK + str(config))

    @property
    def elapsed_s(self) -> float:
        """Seconds of training so far, those before a resumed checkpoint included. For the rank that writes."""
        return time.monotonic() - self._start_s

    def record(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """Append a record to the log, and its numbers to the TensorBoard events.

        Return it with its time; None on ranks that do not write. After a StorageError, nothing more is recorded.
        """
        if not self._writer:
            return None
        stamped = {**record, "time_s": round(self.elapsed_s, 3)}
        try:
            self.require_taken()
            with self._storing("write log.jsonl"):
                self._log.write(json.dumps(stamped) + "\n")
            if record["kind"] in ("train", "validation"):
                with self._storing("write TensorBoard events"):
                    _write_events(self._events, record)
        except errors.StorageError:
            # writing the buffers fails again, here and not at exit
            with contextlib.suppress(errors.StorageError):
                self.close()
            raise
        return stamped

    def close(self) -> None:
        """Flush and close log and events, and release the lock of the directory."""
        lock, self._lock = self._lock, None
        log, events = self._log, self._events
        self._log = self._events = None
        with contextlib.ExitStack() as files:
            if lock is not None:
                files.callback(lock.release)  # after the files are closed
            for file, name in ((log, "log.jsonl"), (events, "TensorBoard events")):
                if file is not None:
                    files.enter_context(self._storing(f"write {name}"))
                    files.callback(file.close)

    @contextlib.contextmanager
    def _storing(self, what: str) -> Iterator[None]:
        try:
            yield
        except errors.Error:
            raise
        except OSError as error:
            message = f"{self.path}: cannot {what}: {error.strerror}"
            if error.errno == errno.ENAMETOOLONG:
                raise errors.InvalidArgumentError(message) from None
            raise errors.StorageError(message) from None


def require_same_walkers(run: Path, walkers: int) -> None:
    """Raise ConfigurationError if a run directory has a checkpoint to resume from, of another number of walkers.

    The log tells the number. A run directory without a log is accepted.
    """
    found = checkpoints(run)
    starts = [r for r in read_log(run / "log.jsonl") if r["kind"] == "start"] if found else []
    before = starts[-1].get("walkers") if starts else walkers
    if before != walkers:
        raise errors.ConfigurationError(
            f"{found[-1]}: was written with {before} walkers, this run has {walkers}: another number of walkers"
            " (training.walkers, else the number of ranks) needs another run.dir"
        )


def matthews(record: Mapping[str, Any]) -> float | None:
    """Return the Matthews correlation of the voxel counts of a training record; None if it is not defined.

    1: perfect; 0: guessing, or one answer for all voxels. So it needs no trivial score beside it, unlike F1.
    """
    try:
        tp, fp, fn, tn = (float(record[key]) for key in ("tp", "fp", "fn", "tn"))
    except (KeyError, TypeError):
        return None
    scale = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return (tp * tn - fp * fn) / scale if scale else None


def _scalars(record: Mapping[str, Any], prefix: str) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            found += _scalars(value, f"{prefix}/{key}")
        elif isinstance(value, (int, float)) and key != "step":
            found.append((f"{prefix}/{key}", float(value)))
    return found


def _write_events(writer: Any, record: Mapping[str, Any]) -> None:
    """Write the numbers of a record as TensorBoard events. A child process would write what is left in a buffer, too.

    SummaryWriter of tensorboardX writes events in a separate thread. If a full disk ends that thread, its queue fills,
    and the training waits for ever. This function therefore writes in the caller's thread.
    """
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.summary import scalar

    for name, value in _scalars(record, record["kind"]):
        summary = scalar(name, value)
        writer.write_event(Event(wall_time=time.time(), step=record["step"], summary=summary))
    writer.flush()
