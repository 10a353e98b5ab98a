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
    "torch": "torch",
    "torch-bf16": "torch",
    "torch-compile": "torch",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
}
"""Programs that passes are compared with, and the Python package of each: PyTorch in float32, with autocast to
bfloat16, and compiled (torch.compile); and programs that run ONNX models, which have forward passes only."""

ONNX = ("onnxruntime", "openvino")
"""The peers that run ONNX models."""

# A peer is left out if its pass takes this many times ours, and this many seconds.
_SLOW, _SLOW_S = 30.0, 2.0
_COMPILED = "torch-compile "
# Slow peers are measured less often: all together take at most this many times the time that was asked for.
_ALL_TOGETHER = 10


def stamped(row: Row) -> Row:
    """Return the row with the processor, the version of floodtide and the date (UTC) added."""
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return row | {"processor": _core.processor_name(), "version": _core.__version__, "date": date}


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
    best = flops / row["min_s"] * 1e-9 / max(peaks)
    return row | {"gflops": gflops, "peak_gflops": peak, "ratio": gflops / peak, "best_ratio": best}


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
    times: dict[str, list[float]]
    rates: list[float] = []
    first = next(iter(bodies))
    pause_s = _PAUSE_S if any(name.startswith(tuple(PEERS)) for name in bodies) else 0.0
    bodies = _warm(bodies)
    times = {name: [] for name in bodies}
    spent_s = 0.0
    while not enough(len(rates), spent_s) or (
        sum(times[first]) < seconds and spent_s < _ALL_TOGETHER * seconds
    ):
        time.sleep(pause_s)
        rates.append(peak.sample())
        for name, body in bodies.items():
            time.sleep(pause_s)
            start = time.perf_counter()
            body()
            times[name].append(time.perf_counter() - start)
        spent_s = sum(map(sum, times.values()))
    return times, rates


def _warm(bodies: Mapping[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """Call each function, and return those that are not far slower than the first one. Say which are left out.

    Another program that fails is left out, too. torch.compile takes long, and may refuse a memory format: only the
    first format that it takes is measured.
    """
    kept: dict[str, Callable[[], Any]] = {}
    own_s = 0.0
    for name, body in bodies.items():
        took_s = 0.0
        if name.startswith(_COMPILED) and any(one.startswith(_COMPILED) for one in kept):
            continue
        try:
            for _ in range(2):  # the first call may plan or compile
                start = time.perf_counter()
                body()
                took_s = time.perf_counter() - start
                if kept and took_s <= max(_SLOW_S, _SLOW * own_s):
                    break
        except Exception as error:
            if not name.startswith(tuple(PEERS)):
                raise
            reason = str(error).partition("\n")[0]
            notes.show(f"{name} is left out: it fails with {type(error).__name__}: {reason}")
            continue
        own_s = own_s or took_s
        if took_s > max(_SLOW_S, _SLOW * own_s):
            notes.show(f"{name} is left out: a pass takes {took_s:.1f} s")
        else:
            kept[name] = body
    return kept


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

    If there are several, the row of the first one has `speedup`: the shortest median time of the others / its own, and
    `best_speedup`, the same for the shortest times.

    Args:
        name: Name of the first function's row. In the names of the others, the name of the function follows.
        bodies: The functions by name, floodtide's first.
        conditions: Further values of all rows: `kernel` (of the first function), `shape`, `threads`.
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
            "level": _core.active_isa(),
            "ranks": 1,
            **rated(times, flops, peak),
            **{rate: count / medians[key] for rate, count in examples.items()},
        }
        if key != own:
            row["kernel"] = key
        elif others:
            row["speedup"] = min(medians[other] for other in others) / medians[key]
            row["best_speedup"] = min(min(samples[other]) for other in others) / row["min_s"]
        yield stamped(row)


def has(peer: str) -> bool:
    """Return True if the packages of a peer are installed, and the compiler that torch-compile needs."""
    needed = {PEERS[peer], *(["onnx"] if peer in ONNX else [])}
    compiles = peer != "torch-compile" or shutil.which(os.environ.get("CXX", "g++")) is not None
    return compiles and all(importlib.util.find_spec(name) is not None for name in needed)


def peers_of(name: str, against: str, kernels: Sequence[str] = ()) -> list[str]:
    """Return what a benchmark is to be compared with, by name: programs of PEERS, and kernels.

    Raises:
        InvalidArgumentError: If a name is something else.
        UnsupportedError: If a program is not installed.
    """
    asked = [text.strip() for text in against.split(",") if text.strip()]
    for peer in asked:
        if peer not in (*PEERS, *kernels):
            raise InvalidArgumentError(
                f"{name}: --against has '{peer}', expected names of {', '.join((*PEERS, *kernels))}"
            )
        if peer in PEERS and not has(peer):
            packages = f"onnx {PEERS[peer]}" if peer in ONNX else PEERS[peer]
            compiler = " and g++" if peer == "torch-compile" else ""
            raise UnsupportedError(
                f"{name}: --against {peer} needs packages that are not installed: pip install {packages}{compiler}"
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
