# SPDX-License-Identifier: Apache-2.0
"""The number of compute threads of a rank, and the cores that they run on."""

from __future__ import annotations

import os

from floodtide import _core
from floodtide.base import limits
from floodtide.comm import world
from floodtide.errors import ConfigurationError


def bind_ranks() -> None:
    """Give each rank of a host an equal part of the cores that all of them share. Collective.

    Threads that start later run on these cores. Nothing changes if the launcher has bound the ranks already, or if
    there are more ranks than cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    local_rank, count, *_ = world.places()
    own = f"{world.current().node_name} {cores}".encode()
    shared = world.allgather_bytes(own, "cores of the ranks").count(own) == count
    share = len(cores) // count
    if shared and share:
        os.sched_setaffinity(0, cores[local_rank * share : (local_rank + 1) * share])


def set_threads(threads: int) -> None:
    """Set the number of compute threads of this rank to `thread_count(threads)`."""
    _core.set_num_threads(thread_count(threads))


def thread_count(threads: int) -> int:
    """Return the number of compute threads for a value of `run.threads`.

    0 means OMP_NUM_THREADS if it is set, else the cores that the process may use, divided by the ranks of the host.

    Raises:
        ConfigurationError: If `threads` is out of range.
        InvalidArgumentError: If OMP_NUM_THREADS is out of range.
    """
    limits.THREADS.check(threads, "run.threads", ConfigurationError)
    if not threads:
        wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        threads = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else 0
        if threads:
            limits.THREADS.check(threads, "OMP_NUM_THREADS")
    return threads or max(1, _core.available_cores() // world.places()[1])
