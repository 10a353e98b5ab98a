# SPDX-License-Identifier: Apache-2.0
"""Rows of results of benchmarks, with the peak multiply-add rate of the processor measured in the same run.

A row is a dictionary with `name`, `kernel` (the kernel that ran), `level` (instruction set), `shape`,
`threads`, `ranks`, `samples`, `median_s`, `p10_s`, `p90_s`, `min_s`, `gflops` (from the median time),
`peak_gflops` (with the same number of threads, sampled between the runs), `ratio` (gflops / peak_gflops),
`best_ratio` (the same for the fastest run and the fastest peak sample, which other programs disturb
least), `processor`, `version` and `date`.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from floodtide import _core
from floodtide.errors import InternalError

Row = dict[str, Any]


def stamped(row: Row) -> Row:
    """Return the row with the processor, the version of floodtide and the date (UTC) added."""
    return row | {
        "processor": _core.processor_name(),
        "version": _core.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use `count` threads inside the `with` block, then restore the previous number."""
    before = _core.num_threads()
    _core.set_num_threads(count)
    try:
        yield
    finally:
        _core.set_num_threads(before)


_PAUSE_S = 0.05  # between two measured functions


def timed_in_turn(
    bodies: Mapping[str, Callable[[], Any]], seconds: float
) -> tuple[dict[str, list[float]], list[float]]:
    """Call functions in turn until the first one took `seconds` in all, and there are enough samples.

    A pause before each call lets the threads of the previous function fall asleep. OpenMP's threads poll for some
    milliseconds after their work, and would take a core from the next function.

    Returns:
        The times of each function in seconds, and the peak multiply-add rate of the threads in GFLOP/s, measured
        before each round.
    """
    peak = _core.bench.Peak()
    times: dict[str, list[float]] = {name: [] for name in bodies}
    rates: list[float] = []
    first = next(iter(bodies))
    for body in bodies.values():
        body()
    while (
        not _core.bench.enough(len(rates), sum(map(sum, times.values())))
        or sum(times[first]) < seconds
    ):
        time.sleep(_PAUSE_S)
        rates.append(peak.sample())
        for name, body in bodies.items():
            time.sleep(_PAUSE_S)
            start = time.perf_counter()
            body()
            times[name].append(time.perf_counter() - start)
    return times, rates


def in_own_process(function: str, **arguments: Any) -> Any:
    """Call "module:function" in a separate process and return its result. Used to measure peak memory.

    Arguments and result must be JSON values; the result may be an iterator over such values.

    Raises:
        InternalError: If the function raises or the process is killed. The message has the last line of its errors.
    """
    code = (
        "import importlib, json, sys; module, name = sys.argv[1].split(':'); "
        "function = getattr(importlib.import_module(module), name); "
        "print(json.dumps(function(**json.loads(sys.argv[2])), default=list))"
    )
    command = [sys.executable, "-c", code, function, json.dumps(arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise InternalError(f"{function} failed in its own process: {said[0]}")
    return json.loads(done.stdout)
