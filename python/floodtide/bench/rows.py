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
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.errors import InternalError, InvalidArgumentError, UnsupportedError

Row = dict[str, Any]

TORCH = ("torch", "torch-bf16")
"""Names of PyTorch as a peer: in float32, and with autocast to bfloat16."""


def now() -> str:
    """Return the time of day in UTC as ISO 8601."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def stamped(row: Row) -> Row:
    """Return the row with the processor, the version of floodtide and the date (UTC) added."""
    return row | {
        "processor": _core.processor_name(),
        "version": _core.__version__,
        "date": now(),
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


def compared(
    name: str,
    bodies: Mapping[str, Callable[[], Any]],
    conditions: Row,
    *,
    flops: float,
    examples: int,
    rate: str,
    seconds: float,
) -> Iterator[Row]:
    """Time functions in turn, and yield a row for each.

    If there are several, the row of the first one has `speedup`: the shortest median time of the others / its own, and
    `best_speedup`, the same for the shortest times.

    Args:
        name: Name of the first function's row. In the names of the others, the name of the function follows.
        bodies: The functions by name, floodtide's first.
        conditions: Further values of all rows: `kernel` (of the first function), `shape`, `threads`.
        flops: Floating-point operations of a call.
        examples: Examples of a call.
        rate: Name of the value of examples per second.
        seconds: Minimum time of the first function.
    """
    samples, peak = timed_in_turn(bodies, seconds)
    medians = {key: float(np.median(times)) for key, times in samples.items()}
    own, *others = bodies
    for key, times in samples.items():
        row: Row = {
            "name": name if key == own else f"{name} {key}",
            **conditions,
            "level": _core.active_isa(),
            "ranks": 1,
            "samples": len(times),
            "median_s": medians[key],
            "p10_s": float(np.quantile(times, 0.1)),
            "p90_s": float(np.quantile(times, 0.9)),
            "min_s": min(times),
            "gflops": flops / medians[key] * 1e-9,
            "peak_gflops": float(np.median(peak)),
            rate: examples / medians[key],
        }
        row["ratio"] = row["gflops"] / row["peak_gflops"]
        row["best_ratio"] = flops / row["min_s"] * 1e-9 / max(peak)
        if key != own:
            row["kernel"] = key
        elif others:
            row["speedup"] = min(medians[other] for other in others) / medians[key]
            row["best_speedup"] = min(min(samples[other]) for other in others) / row["min_s"]
        yield stamped(row)


def require_peer(name: str, against: str, kernels: Sequence[str] = ()) -> None:
    """Check what a benchmark is to be compared with: nothing, PyTorch, or one of the kernels.

    Raises:
        InvalidArgumentError: If it is something else.
        UnsupportedError: If it is PyTorch, which is not installed.
    """
    if against not in ("", *TORCH, *kernels):
        raise InvalidArgumentError(
            f"{name}: --against is '{against}', expected one of {', '.join((*TORCH, *kernels))}"
        )
    if against in TORCH and importlib.util.find_spec("torch") is None:
        raise UnsupportedError(
            f"{name}: --against {against} needs PyTorch, which is not installed (pip install torch)"
        )


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
    require_success(done, f"{function} failed in its own process")
    return json.loads(done.stdout)


def require_success(done: subprocess.CompletedProcess[str], failure: str) -> None:
    """Raise InternalError with the last line of its errors if a process has failed."""
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise InternalError(f"{failure}: {said[0]}")
