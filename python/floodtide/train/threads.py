# SPDX-License-Identifier: Apache-2.0
"""Compute threads of a rank."""

from __future__ import annotations

import os

from floodtide import _core
from floodtide.base import limits
from floodtide.comm import world
from floodtide.errors import (
    ConfigurationError,
)


def set_threads(threads: int) -> None:
    """Set this rank's compute threads, as thread_count says."""
    _core.set_num_threads(thread_count(threads))


def thread_count(threads: int) -> int:
    """Threads of a rank with `run.threads` = threads; 0: OMP_NUM_THREADS, else the cores it may use shared among the
    node's ranks."""
    limits.THREADS.check(threads, "run.threads", ConfigurationError)
    if not threads:
        wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        threads = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else 0
        if threads:
            limits.THREADS.check(threads, "OMP_NUM_THREADS")
    return threads or max(1, _core.available_cores() // world.places()[1])
