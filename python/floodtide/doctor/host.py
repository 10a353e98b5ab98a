# SPDX-License-Identifier: Apache-2.0
"""Facts about this build, process and host, and the run directory, as plain values that can be sent to other ranks."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import statistics
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core, data
from floodtide.comm import world
from floodtide.comm.launching import libraries
from floodtide.config import Config
from floodtide.errors import Error, UnsupportedError
from floodtide.train.setup import checkpoint_bytes, needed_bytes, thread_count

__all__ = ["about"]

PEAK_SAMPLES = 20  # runs of the multiply-add loop, of some milliseconds each

# Environment variables that change which cores threads use.
VARIABLES = ("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")


def about() -> dict[str, Any]:
    """Return all facts by name. Collective if a launcher started this process.

    Raises:
        UnsupportedError: If the launcher does not match the MPI library.
    """
    return {
        "version": _core.__version__,
        "build": dict(_core.build_info()),
        "processor": _core.processor_name(),
        "processor_isa": _core.processor_isa(),
        "isa": _core.active_isa(),
        "kernels": [{"name": n, "isa": level} for n, level in _core.bench.conv_kernels()],
        "cores": _core.available_cores(),
        "threads": _core.num_threads(),
        "memory_bytes": _memory_bytes(),
        "memory_available_bytes": _core.available_bytes(),
        "onednn_plugin": Path(_core.__file__).with_name("_dnnl.so").exists(),
        "mpi": _mpi(),
    }


def _mpi() -> dict[str, Any]:
    if libraries.launcher() is not None:
        world.ensure_init()
    level = world.mpi_library().start() if world.size() > 1 else None
    return mpi_facts() | {"ranks": world.size(), "thread_level": level}


def _memory_bytes() -> int | None:
    """Return the memory of the machine in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
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
        "library_version": libraries.first_line(library.version),
    }


def facts(config: Config) -> dict[str, Any]:
    """Return facts about this rank: its identity, the resources it may use, and what the training needs. Collective."""
    threads = thread_count(config.run.threads)
    ranks = world.current().size
    return {
        "rank": world.rank(),
        "host": socket.gethostname(),
        "node": world.current().node_name,
        "cores": _core.available_cores(),
        "host_cores": os.cpu_count() or 1,
        "affinity": sorted(os.sched_getaffinity(0)),
        "quota": cpu_quota(),
        "threads": threads,
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "isa": _core.active_isa(),
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


def directory_facts(directory: Path) -> dict[str, Any]:
    """Return facts about a directory, or its nearest existing parent, as seen by this rank. Collective.

    Returns:
        `path`; `seen`: True if this host shows the file of rank 0, None on ranks that did not look. On rank 0 also
        `free_bytes` and `hdf5`, which says why floodtide cannot write and read an HDF5 file there, "" if it can; or
        `error`.
    """
    path = directory.absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    probe = path / world.broadcast_object(f".floodtide-info-{uuid.uuid4().hex}")
    facts: dict[str, Any] = {"path": str(path), "seen": None}
    if world.rank() == 0:
        try:
            probe.mkdir()
            facts["free_bytes"] = shutil.disk_usage(path).free
            facts["hdf5"] = _hdf5(probe / "volume.h5")
        except OSError as error:
            facts["error"] = error.strerror or str(error)
    world.current().barrier()
    if world.places()[0] == 0:
        facts["seen"] = probe.exists() or bool(facts.get("error"))
    world.current().barrier()
    if world.rank() == 0:
        shutil.rmtree(probe, ignore_errors=True)
    return facts


def _hdf5(path: Path) -> str:
    values = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    try:
        data.write_volume(path, {"raw": values})
        if not np.array_equal(data.Volume(str(path), "raw").read(), values):
            return "values read from an HDF5 file differ from those written"
    except Error as error:
        return str(error)
    return ""
