# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of this machine: rows of figures, each beside the multiply-add peak of the same run.

A row is a dictionary: `name`, `kernel` (the candidate that ran), `level` (instruction set),
`shape`, `threads`, `ranks`, `samples`, `median_s`, `p10_s`, `p90_s`, `min_s`, `gflops` (by the
median), `peak_gflops` (of as many threads, sampled between the runs), `ratio` (of the two),
`best_ratio` (fastest run against fastest peak sample: what remains when neighbours disturb),
`processor`, `version`, `date`.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from floodtide import _core

Row = dict[str, Any]


def stamped(row: Row) -> Row:
    """Return the row with what every row of this run has: processor, version and date (UTC)."""
    return row | {
        "processor": _core.processor_name(),
        "version": _core.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run the body with so many threads, then go back to the number before."""
    before = _core.num_threads()
    _core.set_num_threads(count)
    try:
        yield
    finally:
        _core.set_num_threads(before)


def in_own_process(function: str, **arguments: Any) -> Any:
    """Call "module:function" in a process of its own, whose peak memory is of nothing else.

    Arguments and result are what JSON has.

    Raises:
        ChildProcessError: If the function raises or the process is ended; with its last line.
    """
    code = (
        "import importlib, json, sys; module, name = sys.argv[1].split(':'); "
        "function = getattr(importlib.import_module(module), name); "
        "print(json.dumps(function(**json.loads(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", code, function, json.dumps(arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise ChildProcessError(f"{function} failed in its own process: {said[0]}")
    return json.loads(done.stdout)


def peak(*, thread_counts: Sequence[int] = (1,), seconds: float = 1.0) -> Iterator[Row]:
    """Time the multiply-add loops of every level that the processor has.

    Args:
        thread_counts: Numbers of threads, one row a level for each.
        seconds: Least time to spend on a row.
    """
    levels = ["generic", "avx2", "avx512"]
    for level in levels[: levels.index(_core.processor_isa()) + 1]:
        for count in thread_counts:
            with threads(count):
                yield stamped(_core.bench.peak(level, seconds))


def conv(
    *,
    size: tuple[int, int, int] = (33, 33, 33),
    channels: tuple[int, int] = (32, 32),
    kernel: tuple[int, int, int] = (3, 3, 3),
    relu: bool = True,
    thread_counts: Sequence[int] = (1,),
    seconds: float = 1.0,
    against: str = "",
) -> Iterator[Row]:
    """Time forward, backward-data and backward-weights of one convolution, after checking them.

    Args:
        size: Volume in voxels, (z, y, x).
        channels: Input and output channels.
        kernel: Kernel extents, 1 or 3, (z, y, x).
        relu: Rectify the input of forward and backward-weights, and mask backward-data.
        thread_counts: Numbers of threads, one set of rows for each.
        seconds: Least time to spend on a row; at least 20 samples are taken, or 3 if
            all take 2 s together.
        against: Name of a second kernel to time in turn with the one in use (see `kernels`).

    Raises:
        floodtide.errors.InvalidArgumentError: If a size is out of range or `against` unknown.
        floodtide.errors.UnsupportedError: If `against` cannot serve this shape or machine.
    """
    for count in thread_counts:
        with threads(count):
            yield from map(
                stamped, _core.bench.conv(size, *channels, kernel, relu, seconds, against)
            )


def kernels() -> list[tuple[str, str]]:
    """Names and levels of the convolution kernels, best first."""
    return list(_core.bench.conv_kernels())
