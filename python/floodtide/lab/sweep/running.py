# SPDX-License-Identifier: Apache-2.0
"""Run the trainings of a sweep, several at a time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from floodtide.base.files import make_folder
from floodtide.base.options import option
from floodtide.bench.shapes import available_cores
from floodtide.errors import Interrupted, InvalidArgumentError
from floodtide.lab import ranges
from floodtide.lab.sweep.grid import Cell, Sweep

_POLL_S = 0.1
_LOOK_S = 5.0  # between two looks at the checkpoints of running trainings, for the progress
_PR_SET_PDEATHSIG = 1
_TAIL_BYTES = 2000
_IN_USE = " is in use by "  # what a training says whose run directory another process has

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """How a training of a sweep ended.

    Attributes:
        cell: The training.
        status: "finished" before this call, "trained" by it, "diverged" (the loss or a gradient is not finite),
            "given up" before its end because it was no better than a trivial prediction, "stopped" before its end,
            "in use" by another process, such as a second sweep, or "failed".
        reason: How it diverged, or the last line that the training printed if it is in use or failed.
    """

    cell: Cell
    status: str
    reason: str = ""


@dataclass
class _Running:
    cell: Cell
    process: subprocess.Popen[bytes]
    output: Path
    start: int  # of what this process writes to the output, in bytes


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which trainings run, and how many at a time."""

    parallel: int | None = option(
        None,
        "Number of trainings at a time.  [default: all cores, with the threads and ranks of a training]",
        range=ranges.TRAININGS,
    )
    part: str = option(
        "0/1",
        "Run every N-th training, from the K-th one on (K is 0 to N - 1), as K/N, for job arrays",
    )

    def numbers(self) -> tuple[int, int]:
        """Return K and N of `part`.

        Raises:
            InvalidArgumentError: If it does not have this form.
        """
        first, slash, count = self.part.partition("/")
        if not (slash and first.isdecimal() and count.isdecimal() and int(first) < int(count)):
            raise InvalidArgumentError(f"--part {self.part}: expected K/N with K from 0 to N - 1")
        return int(first), int(count)

    def at_a_time(self, sweep: Sweep) -> int:
        """Return the number of trainings at a time."""
        threads = max(cell.config.run.threads or 1 for cell in sweep.cells)
        return self.parallel or max(1, available_cores() // (threads * sweep.ranks))


def run(
    sweep: Sweep,
    *,
    parallel: int = 1,
    part: tuple[int, int] = (0, 1),
    launcher: Sequence[str] = ("mpiexec",),
    progress: Progress | None = None,
) -> list[Outcome]:
    """Run the trainings that are not finished, and return how each one ended.

    A training that was killed resumes from its newest checkpoint. A training that has diverged, or was given up, is not
    repeated. The output of a training is in `<directory>/output/<name>.txt`. The longest trainings start first. When
    the first SIGINT or SIGTERM arrives, the running trainings save a checkpoint and end. If this process is killed, the
    trainings are killed too.

    Args:
        sweep: The sweep.
        parallel: Number of trainings at a time.
        part: (K, N): only every N-th training, from the K-th one on, for job arrays.
        launcher: Command that starts ranks, if the sweep has several ranks for each training.
        progress: Called with the work done and all work, in fields of view or samples.

    Raises:
        InvalidArgumentError: If `parallel` or `part` is out of range.
        Interrupted: After SIGINT, when all trainings have ended.
    """
    if parallel < 1 or not 0 <= part[0] < part[1]:
        raise InvalidArgumentError(
            f"sweep: {parallel} at a time, part {part[0]}/{part[1]}; expected at least 1, and K from 0 to N - 1"
        )
    cells = sweep.cells[part[0] :: part[1]]
    threads = max(1, available_cores() // (parallel * sweep.ranks))
    outcomes: dict[str, Outcome] = {}
    for cell in cells:
        if reason := cell.divergence():
            outcomes[cell.name] = Outcome(cell, "diverged", reason)
        elif cell.given_up():
            outcomes[cell.name] = Outcome(cell, "given up")
        elif cell.finished():
            outcomes[cell.name] = Outcome(cell, "finished")
    waiting = sorted(
        (cell for cell in cells if cell.name not in outcomes), key=lambda cell: -cell.examples
    )
    total = sum(cell.examples for cell in cells)
    make_folder(sweep.directory / "output")
    running: list[_Running] = []
    looked_s = 0.0
    with _forwarded_signals(running) as received:
        while running or (waiting and not received):
            while waiting and len(running) < parallel and not received:
                running.append(_start(sweep, waiting.pop(0), launcher, threads))
            time.sleep(_POLL_S)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                outcomes[one.cell.name] = _outcome(one)
            if progress and time.monotonic() - looked_s >= _LOOK_S:
                looked_s = time.monotonic()
                progress(_work_done(cells, outcomes, running), total)
    for cell in waiting:
        outcomes[cell.name] = Outcome(cell, "stopped")
    if signal.SIGINT in received:
        raise Interrupted("sweep interrupted; the same command continues")
    return [outcomes[cell.name] for cell in cells]


def _start(sweep: Sweep, cell: Cell, launcher: Sequence[str], threads: int) -> _Running:
    command = [sys.executable, "-m", "floodtide", "train", str(sweep.file)]
    command += [argument for override in cell.overrides for argument in ("--set", override)]
    if sweep.ranks > 1:
        command = [*launcher, "-n", str(sweep.ranks), *command]
    output = sweep.directory / "output" / f"{cell.name}.txt"
    library = ctypes.CDLL(None)

    def die_with_parent() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    with output.open("ab") as file:
        start = file.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": str(threads)},  # of trainings with run.threads = 0
            start_new_session=True,  # Ctrl-C reaches this process only, which forwards it once
            preexec_fn=die_with_parent if hasattr(library, "prctl") else None,
        )
    return _Running(cell, process, output, start)


def _outcome(one: _Running) -> Outcome:
    if one.process.returncode == 0 and one.cell.finished():
        return Outcome(one.cell, "trained")
    if one.process.returncode == 0 and one.cell.given_up():
        return Outcome(one.cell, "given up")
    if one.process.returncode in (0, 130):
        return Outcome(one.cell, "stopped")
    if reason := one.cell.divergence():
        return Outcome(one.cell, "diverged", reason)
    with one.output.open("rb") as file:
        file.seek(max(one.start, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
    for line in lines:  # the process that has the training writes to the same file
        if _IN_USE in line:
            return Outcome(one.cell, "in use", line)
    return Outcome(one.cell, "failed", lines[-1] if lines else f"status {one.process.returncode}")


def _work_done(
    cells: Sequence[Cell], outcomes: dict[str, Outcome], running: Sequence[_Running]
) -> int:
    done = sum(cell.examples for cell in cells if cell.name in outcomes)
    for one in running:
        steps = one.cell.config.training.total
        done += one.cell.examples * min(one.cell.steps_done(), steps) // steps
    return done


@contextlib.contextmanager
def _forwarded_signals(running: list[_Running]) -> Iterator[list[int]]:
    """Send SIGINT and SIGTERM to the running trainings; the list has the signals that arrived."""
    received: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        for one in running:
            with contextlib.suppress(ProcessLookupError):
                one.process.send_signal(number)

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, forward)
        yield received
    finally:
        for restored, handler in before.items():
            signal.signal(restored, handler)
        for one in running:  # after an exception
            one.process.kill()
            one.process.wait()
