# SPDX-License-Identifier: Apache-2.0
"""Rows of results of benchmarks, with the peak multiply-add rate of the processor measured in the same run.

A row is a dictionary with `name`, `kernel` (the kernel that ran), `level` (instruction set), `shape`, `threads`,
`ranks`, `samples`, `median_s`, `p10_s`, `p90_s`, `min_s`, `gflops` (from the median time), `peak_gflops` (with the same
number of threads, sampled between the runs), `ratio` (gflops / peak_gflops), `processor`, `version` and `date`.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base import notes
from floodtide.errors import InternalError, InvalidArgumentError, UnsupportedError

Row = dict[str, Any]

PEERS = {
    "torch": ("torch",),
    "torch-bf16": ("torch",),
    "torch-compile": ("torch",),
    "onnxruntime": ("onnx", "onnxruntime"),
    "openvino": ("onnx", "openvino"),
}
"""Programs that passes are compared with, and the Python packages that each needs: PyTorch in float32, with autocast to
bfloat16, and compiled (torch.compile); and programs that run ONNX models, which have forward passes only."""

ONNX = ("onnxruntime", "openvino")
"""The peers that run ONNX models."""

# A peer is left out if its pass takes this many times ours, and this many seconds.
_SLOW, _SLOW_S = 30.0, 2.0
_COMPILED = "torch-compile "
_OTHER_FORMAT = 1.25  # times as long as in the faster memory format: left out
# Slow peers are measured less often: all together take at most this many times the time that was asked for.
_ALL_TOGETHER = 10


def stamped(row: Row) -> Row:
    """Return the row with instruction set, threads, one rank, unless it says them; and processor, version and date."""
    known = {"level": _core.active_isa(), "threads": _core.num_threads(), "ranks": 1}
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    made = {"processor": _core.processor_name(), "version": _core.__version__, "date": date}
    return known | row | made


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


def enough(samples: int, spent_s: float) -> bool:
    """Return True if a benchmark has enough samples: 20, or 3 if all together took 2 s."""
    return samples >= 20 or (samples >= 3 and spent_s >= 2)


def spread(times: Sequence[float]) -> Row:
    """Return what rows say about times in seconds: the number, the median, two quantiles and the minimum."""
    low, median, high = np.quantile(times, (0.1, 0.5, 0.9)).tolist()
    return {
        "samples": len(times),
        "median_s": median,
        "p10_s": low,
        "p90_s": high,
        "min_s": min(times),
    }


def rated(times: Sequence[float], flops: float, peaks: Sequence[float]) -> Row:
    """Return `spread`, and the rate compared with the peak.

    Args:
        times: Seconds of each run.
        flops: Floating-point operations of a run.
        peaks: Peak multiply-add rates in GFLOP/s, sampled between the runs.
    """
    row = spread(times)
    gflops, peak = flops / row["median_s"] * 1e-9, float(np.median(peaks))
    return row | {"gflops": gflops, "peak_gflops": peak, "ratio": gflops / peak}


def timed_in_turn(
    bodies: Mapping[str, Callable[[], Any]], seconds: float
) -> tuple[dict[str, list[float]], list[float]]:
    """Call functions in turn until the first one took `seconds`, or all together ten times that, with enough samples.

    With another program, a pause before each call lets the threads of the previous function fall asleep. OpenMP's
    threads poll for some milliseconds after their work, and would take a core from the next function.

    Returns:
        The times of each function in seconds, and the peak multiply-add rate of the threads in GFLOP/s, measured
        before each round.
    """
    peak = _core.bench.Peak(_core.active_isa())
    first, *_ = bodies
    pause_s = _PAUSE_S if any(map(_is_peer, bodies)) else 0.0
    bodies = _started(bodies)
    times: dict[str, list[float]] = {name: [] for name in bodies}
    rates: list[float] = []
    spent_s = 0.0
    while not enough(len(rates), spent_s) or (
        sum(times[first]) < seconds and spent_s < _ALL_TOGETHER * seconds
    ):
        time.sleep(pause_s)
        rates.append(peak.sample())
        for name in times:
            time.sleep(pause_s)
            start = time.perf_counter()
            bodies[name]()
            times[name].append(time.perf_counter() - start)
        if len(rates) == 1:
            for name in _slow({name: took_s for name, (took_s,) in times.items()}):
                del times[name]
        spent_s = sum(map(sum, times.values()))
    return times, rates


def _is_peer(name: str) -> bool:
    return name.startswith(tuple(PEERS))


def _started(bodies: Mapping[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """Call each function once, because the first call may plan or compile. Leave out programs that fail, and say so.

    torch.compile takes long, and may refuse a memory format: only the first format that it takes is returned.
    """
    started: dict[str, Callable[[], Any]] = {}
    for name, body in bodies.items():
        if name.startswith(_COMPILED) and any(one.startswith(_COMPILED) for one in started):
            continue
        try:
            body()
        except Exception as error:
            if not _is_peer(name):
                raise
            reason = str(error).partition("\n")[0]
            notes.show(f"{name} is left out: it fails with {type(error).__name__}: {reason}")
        else:
            started[name] = body
    return started


def _slow(seconds: Mapping[str, float]) -> list[str]:
    """Name what is far slower than the first function, and slower memory formats of a program, and say why."""
    (_, first_s), *others = seconds.items()
    fastest = {name.partition(" ")[0]: s for name, s in sorted(others, key=lambda one: -one[1])}
    reasons = {}
    for name, took_s in others:
        if took_s > max(_SLOW_S, _SLOW * first_s):
            reasons[name] = f"a pass takes {took_s:.1f} s"
        elif took_s > _OTHER_FORMAT * fastest[name.partition(" ")[0]]:
            reasons[name] = "the other memory format is faster"
    for name, reason in reasons.items():
        notes.show(f"{name} is left out: {reason}")
    return [*reasons]


def compared(
    name: str,
    bodies: Mapping[str, Callable[[], Any]],
    conditions: Row,
    *,
    flops: float,
    examples: Mapping[str, int],
    seconds: float,
) -> Iterator[Row]:
    """Time functions in turn, and yield a row for each.

    If there are several, the row of the first one has `speedup`: the shortest median time of the others / its own.

    Args:
        name: Name of the first function's row. In the names of the others, the name of the function follows.
        bodies: The functions by name, floodtide's first.
        conditions: Further values of all rows: `kernel` (of the first function), `shape`.
        flops: Floating-point operations of a call.
        examples: Examples of a call, with the name of the value of examples per second.
        seconds: As for `timed_in_turn`.
    """
    samples, peak = timed_in_turn(bodies, seconds)
    medians = {key: float(np.median(times)) for key, times in samples.items()}
    own, *others = samples
    for key, times in samples.items():
        row: Row = {
            "name": name if key == own else f"{name} {key}",
            **conditions,
            **rated(times, flops, peak),
            **{rate: count / medians[key] for rate, count in examples.items()},
        }
        if key != own:
            row["kernel"] = key
        elif others:
            row["speedup"] = min(medians[other] for other in others) / medians[key]
        yield stamped(row)


def missing(peer: str) -> list[str]:
    """Return what a peer needs and is not installed: packages, and the compiler of torch.compile."""
    names = [name for name in PEERS[peer] if importlib.util.find_spec(name) is None]
    if peer == "torch-compile" and shutil.which(os.environ.get("CXX", "g++")) is None:
        names.append("g++")
    return names


def peers_of(name: str, against: str) -> list[str]:
    """Return the programs of PEERS that a benchmark is to be compared with.

    Raises:
        InvalidArgumentError: If a name is something else.
        UnsupportedError: If a program is not installed.
    """
    asked = [text.strip() for text in against.split(",") if text.strip()]
    for peer in asked:
        if peer not in PEERS:
            raise InvalidArgumentError(
                f"{name}: --against has '{peer}', expected names of {', '.join(PEERS)}"
            )
        if absent := missing(peer):
            raise UnsupportedError(
                f"{name}: --against {peer} needs {' and '.join(absent)}, expected to be installed"
            )
    return asked


def output_of(failure: str, *arguments: str) -> str:
    """Run Python with arguments in a separate process, and return what it prints.

    Raises:
        InternalError: If the process fails or is killed. The message begins with `failure` and has its last error line.
    """
    command = [sys.executable, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise InternalError(f"{failure}: {said[0]}")
    if done.stderr:
        notes.line(done.stderr.rstrip())
    return done.stdout
