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
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide import _core, errors
from floodtide import config as configuration
from floodtide.base import reading
from floodtide.base.files import SUFFIX, replace_text
from floodtide.base.locks import Lock, take
from floodtide.base.network_files import checkpoint_path, checkpoints
from floodtide.base.outputs import is_one_of
from floodtide.base.pickling import NotPickled

LOCK = "run.lock"
"""Name of the lock file of a run directory. The file names the process that writes the directory."""

MARK = "# Resolved configuration of a run of floodtide: replaced at each start.\n"
"""First line of config.toml in a run directory, by which floodtide recognises its own file."""

_LONGEST_S = 1e12  # of a run
_FLUSH_S = 10.0  # between two writes of TensorBoard events


class RunDirectory(NotPickled):
    """Files of one run. Every method does nothing on ranks that do not write.

    StorageError is raised for a file that cannot be written, and InvalidFileError for a log that is damaged or not that
    of a run.

    Args:
        path: The directory. `take` creates it if it is missing.
        writer: True if this rank writes (rank 0).
    """

    not_pickled = "it holds open files and a lock; expected its `path`"

    def __init__(self, path: Path, *, writer: bool) -> None:
        self.path = path
        self._writer = writer
        self._lock: Lock | None = None
        self._made: list[Path] = []  # folders that `take` made, the innermost first
        self._log: Any = None
        self._events: EventFile | None = None
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
            folders = (self.path, *self.path.parents)
            self._made = [folder for folder in folders if not folder.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
        self._lock = take(
            self.path / LOCK,
            f"the run directory {self.path}",
            "wait until it has ended, or give this run another run.dir",
        )

    def take_again(self, step: int) -> None:
        """Lock the directory again after `close`, for a run whose newest checkpoint is that of `step`.

        Raises:
            LockedError: If another process holds the lock, or another run has written checkpoints since.
            StorageError: If the directory cannot be written.
        """
        self.take()
        if self._writer and self.newest_checkpoint() != str(self.checkpoint_path(step)):
            self.abandon()
            raise errors.LockedError(
                f"{self.path}: another run has written checkpoints here since this one stopped at step {step}: make a"
                " new Trainer, which goes on from the newest checkpoint"
            )

    def require_taken(self) -> None:
        """Raise LockedError if another object or process has taken the lock since `take`."""
        if self._writer and self._lock is not None and not self._lock.held:
            raise errors.LockedError(
                f"{self.path}: another Trainer or process has taken this run directory ({LOCK} is not of this one any"
                " more): this run ends without writing to it"
            )

    def checkpoint_path(self, step: int) -> Path:
        """Return the path of the checkpoint after `step` training steps."""
        return checkpoint_path(self.path, step)

    def newest_checkpoint(self) -> str:
        """Return the path of the newest checkpoint; empty if there is none, and on ranks that do not write."""
        paths = checkpoints(self.path) if self._writer else []
        return str(paths[-1]) if paths else ""

    def advice(self, checkpoint: str) -> str:
        """Return the end of the message about a newest checkpoint that cannot be loaded: what to do."""
        if not self._writer:
            return ""
        if _intact(Path(checkpoint)):
            return ": another network, optimizer or number of walkers needs another run.dir"
        older = [path for path in checkpoints(self.path) if str(path) != checkpoint]
        whole = next(filter(_intact, reversed(older)), None)
        if whole is None:
            return "; no older checkpoint is intact" if older else ""
        moved = "the damaged file" if whole == older[-1] else "all newer files"
        return f"; {whole.name} is older and intact: move {moved} away to resume from it"

    def prune(self, keep: int, inputs: Sequence[str] = ()) -> None:
        """Remove all but the newest `keep` checkpoints (at least one stays).

        Args:
            inputs: Files that the run reads when it starts. They stay, however old they are.
        """
        if self._writer:
            self.require_taken()
            with self._storing("remove old checkpoints"):
                for path in checkpoints(self.path)[: -max(keep, 1)]:
                    if not is_one_of(path, inputs):
                        path.unlink(missing_ok=True)

    def trace_path(self, rank: int) -> Path:
        """Return the path of the trace of a rank, in traces/."""
        return self.path / "traces" / f"rank-{rank}.json"

    def failure_path(self, rank: int) -> Path:
        """Return the path of the file in which a rank records its last events if the job fails."""
        return self.path / f"failure-rank-{rank}.json"

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

    def given_up(self, step: int) -> bool:
        """Return True if the training was given up at the checkpoint of a step, by its log. False on other ranks."""
        if not self._writer or not step:
            return False
        records = read_log(self.path / "log.jsonl")
        return any(bool(r.get("given_up")) and r["step"] == step for r in records)

    def lacks_validation(self, step: int) -> bool:
        """Return True if the log has no validation of the last step. False on ranks that do not write."""
        records = read_log(self.path / "log.jsonl") if self._writer else []
        last = [r["step"] for r in records if r["kind"] == "validation"][-1:]
        return self._writer and last < [step]

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
        _require_own_configuration(self.path / "config.toml")
        path = self.path / "log.jsonl"
        kept = [record for record in read_log(path) if step and record["step"] <= step]
        import tensorboardX  # noqa: F401  # takes a second or two: not at the first record, while all ranks wait

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
        self.write_config(config)
        if kept:
            self._start_s = time.monotonic() - float(kept[-1]["time_s"])

    def write_config(self, config: configuration.Config) -> None:
        """Write the resolved configuration."""
        if self._writer:
            with self._storing("write config.toml"):
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
                    if self._events is None:
                        self._events = EventFile(self.path)
                    self._events.add(_scalars(record, record["kind"]), record["step"])
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

    def abandon(self) -> None:
        """Release the lock before anything was written, and remove the folders that `take` created."""
        self.close()
        for folder in self._made:
            with contextlib.suppress(OSError):  # the folder is not empty
                folder.rmdir()

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
    starts = [r for r in read_log(run / "log.jsonl") if r.get("kind") == "start"] if found else []
    before = starts[-1].get("walkers") if starts else walkers
    if before != walkers:
        raise errors.ConfigurationError(
            f"{found[-1]}: was written with {before} walkers, this run has {walkers}: another number of walkers"
            " (training.walkers, else the number of ranks) needs another run.dir"
        )


def _require_own_configuration(path: Path) -> None:
    """Check that config.toml is the resolved configuration of a run, which may be replaced, and not a user's file.

    A resolved configuration starts with MARK.
    """
    if not os.path.lexists(path):
        return
    if not reading.read_bytes(path, "a configuration").startswith(MARK.encode()):
        raise errors.InvalidArgumentError(
            f"{path}: is not the resolved configuration of a run, which this run would write under that name: give"
            " your own another name or folder, or the run another run.dir"
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


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the records of a log.jsonl, without a last line that was cut off. A missing file has no records.

    Raises:
        InvalidFileError: If a line is not a record with a step and a time.
    """
    if not os.path.lexists(path):
        return []
    expected = "a log of floodtide train; move the file away to start a new one"
    records = []
    for where, record in reading.read_json_lines(path, expected):
        step, time_s = record.get("step"), record.get("time_s", 0.0)
        timed = type(time_s) in (int, float) and 0 <= time_s < _LONGEST_S
        if type(step) is not int or not timed:
            raise errors.InvalidFileError(f"{where}: has no step or no time; expected {expected}")
        records.append(record)
    return records


def _intact(path: Path) -> bool:
    """True if the whole checkpoint can be read and its checksums are right."""
    try:
        _core.require_intact(os.fspath(path))
    except (errors.InvalidFileError, errors.StorageError):
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


class EventFile:
    """TensorBoard events in a run directory. All methods raise OSError if the file cannot be written.

    SummaryWriter of tensorboardX writes events in a separate thread. If a full disk ends that thread, its queue fills,
    and the training waits for ever. This class therefore writes in the caller's thread.

    Args:
        folder: The folder of the file. The name is one that TensorBoard looks for.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboardX.event_file_writer import EventsWriter

        self._writer: Any = EventsWriter(str(folder / "events"))
        self._flushed_s = time.monotonic()
        # Wall time at which the steady clock was zero. Event times stay in order if the wall clock is set back.
        self._begin_s = time.time() - self._flushed_s
        _open.add(self)

    def add(self, scalars: Iterable[tuple[str, float]], step: int) -> None:
        """Append named numbers. They are on disk when the first call ten seconds later, or `close`, has returned."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        wall_s = self._begin_s + time.monotonic()
        for name, value in scalars:
            self._writer.write_event(
                Event(wall_time=wall_s, step=step, summary=scalar(name, value))
            )
        if time.monotonic() - self._flushed_s >= _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write everything to disk."""
        self._writer.flush()
        self._flushed_s = time.monotonic()

    def close(self) -> None:
        """Write everything to disk and close the file."""
        _open.discard(self)
        self._writer.close()


_open: weakref.WeakSet[EventFile] = weakref.WeakSet()


def _before_fork() -> None:
    """Empty all buffers: a child process would write its copy of a buffer when it ends."""
    for file in _open:
        with contextlib.suppress(OSError):  # the next `add` reports a full disk
            file.flush()


os.register_at_fork(before=_before_fork)
