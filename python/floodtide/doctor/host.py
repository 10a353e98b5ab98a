# SPDX-License-Identifier: Apache-2.0
"""Facts about this process and its host, as plain values that can be sent to other ranks."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.comm import world
from floodtide.comm.launching import libraries
from floodtide.config import Config
from floodtide.errors import UnsupportedError
from floodtide.train.setup import checkpoint_bytes, needed_bytes, thread_count

CLOCK_ROUNDS = 20
PEAK_SAMPLES = 20  # runs of the multiply-add loop, of some milliseconds each

# Environment variables that change how threads and file locks behave.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_WAIT_POLICY",
    "OMP_DYNAMIC",
    "OMP_THREAD_LIMIT",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "HDF5_USE_FILE_LOCKING",
)

_FIND_MPI4PY = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(mpi4py.__version__, MPI.Get_library_version().rstrip("\\0").splitlines()[0].strip(), sep="\\t")
"""


def since_process_start_s() -> float | None:
    """Return the seconds since this process started, accurate to about 10 ms; None if /proc does not show them."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started_s = int(after_name[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    return None


def mpi_facts() -> dict[str, Any]:
    """Return facts about the launcher and the MPI library, without starting MPI."""
    launched = libraries.launcher()
    facts: dict[str, Any] = {
        "launcher": launched.name if launched is not None and launched.live else None,
        "plugins": libraries.plugins(),
        "library": None,
    }
    try:
        library = world.mpi_library()
    except UnsupportedError as error:
        return facts | {"no_library": str(error)}
    return facts | {
        "library": library.library,
        "family": library.family,
        "library_version": _first_line(library.version),
    }


def mpi4py_version() -> str:
    """Return the version of mpi4py, a tab, and the version of its MPI library; "" without mpi4py.

    This runs in a separate process, because a second MPI library must not be loaded into this one.
    """
    if importlib.util.find_spec("mpi4py") is None:
        return ""
    done = subprocess.run(
        [sys.executable, "-c", _FIND_MPI4PY], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return f"?\t{reason[0]}"
    return done.stdout.strip()


def facts(config: Config) -> dict[str, Any]:
    """Return facts about this rank: its identity, the resources it may use, and what the training needs. Collective."""
    threads = thread_count(config.run.threads)
    ranks = world.current().size
    return {
        "rank": world.rank(),
        "host": socket.gethostname(),
        "node": world.current().node_name,
        "local_rank": world.places()[0],
        "thread_level": world.mpi_library().start() if ranks > 1 else None,
        "cores": _core.available_cores(),
        "host_cores": os.cpu_count() or 1,
        "affinity": sorted(os.sched_getaffinity(0)),
        "quota": cpu_quota(),
        "threads": threads,
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "isa": _core.active_isa(),
        "processor_isa": _core.processor_isa(),
        "processor": _core.processor_name(),
        "gflops": _gflops(threads),
        "memory_available_bytes": _core.available_bytes(),
        "memory_needed_bytes": needed_bytes(config, ranks, threads),
        "checkpoint_bytes": checkpoint_bytes(config, ranks),
        "checkpoints": config.run.keep_checkpoints + 1,
    }


def _gflops(threads: int) -> float:
    """Return the peak multiply-add rate of this rank's threads in GFLOP/s, while all ranks measure. Collective."""
    before = _core.num_threads()
    _core.set_num_threads(threads)
    try:
        world.current().barrier()
        peak = _core.bench.Peak(_core.active_isa())
        return statistics.median(peak.sample() for _ in range(PEAK_SAMPLES))
    finally:
        _core.set_num_threads(before)


def clock_offset() -> tuple[float, float]:
    """Return (lower, upper) bounds in seconds of how far this rank's clock is ahead of rank 0's. Collective.

    Rank 0 reads its clock before a message to all ranks and after an answer of all ranks. Each rank reads its clock in
    between, so the bounds hold for any network delay. The narrowest bounds of CLOCK_ROUNDS rounds are returned.
    """
    comm = world.current()
    low, high = -math.inf, math.inf
    for _ in range(CLOCK_ROUNDS):
        before = time.time()
        world.broadcast_object(None)
        here = time.time()
        comm.allgather(b"")
        before, after = world.broadcast_object((before, time.time()))
        low, high = max(low, here - after), min(high, here - before)
    return low, high


def cpu_quota(proc: Path = Path("/proc/self"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the number of processors that control groups (cgroups) grant this process; None if there is no limit."""
    quotas = []
    for folder in _cpu_groups(proc, root):
        with contextlib.suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            if quota != "max":
                quotas.append(int(quota) / int(period))
        with contextlib.suppress(OSError, ValueError):
            quota_us = int((folder / "cpu.cfs_quota_us").read_text())
            if quota_us > 0:
                quotas.append(quota_us / int((folder / "cpu.cfs_period_us").read_text()))
    return min(quotas, default=None)


def _cpu_groups(proc: Path, root: Path) -> list[Path]:
    """Return the folders of this process's control group and its parents, for cgroups version 1 and version 2."""
    folders = []
    with contextlib.suppress(OSError):
        for line in (proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "" or "cpu" in controllers.split(","):
                base = root / "cpu" if controllers else root
                inner = base / path.strip("/")
                folders += [inner, *(p for p in inner.parents if p.is_relative_to(base))]
    return folders


def _first_line(text: str) -> str:
    return " ".join(text.replace("\0", "").splitlines()[0].split()) if text else ""
