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
from collections.abc import Iterator
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
