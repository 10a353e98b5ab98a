# SPDX-License-Identifier: Apache-2.0
"""Facts about this build, process and host, and the run directory, and the examination of a job by them.

Every rank collects facts about itself, as plain values. Then all ranks receive the facts of all ranks and derive the
same findings (`judge`). Therefore `judge` consists of pure functions of dictionaries.
"""

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
from floodtide.base.reading import reason
from floodtide.comm import launching, world
from floodtide.comm.exchanges import allgather_object
from floodtide.config import Config
from floodtide.doctor import judge
from floodtide.errors import Error, UnsupportedError
from floodtide.train.setup import checkpoint_bytes, needed_bytes, thread_count

__all__ = ["about"]

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")
"""Environment variables that change which cores threads use."""


def examine(config: Config, directory: Path) -> tuple[list[judge.Diagnosis], list[dict[str, Any]]]:
    """Return findings and the facts of every rank, equal on all ranks. Collective if a launcher started this process.

    The examination takes about a second. It starts MPI only if there are several ranks.

    Args:
        directory: Run directory. If it does not exist, the nearest existing parent is examined.
    """
    facts: dict[str, Any] = {}
    try:
        facts = mpi_facts()
        world.current()
    except UnsupportedError as error:
        # Without a communicator, processes cannot exchange facts. The launcher's rank 0 reports.
        advice = "start with the mpiexec of the MPI library that floodtide uses (docs/mpi.md)"
        failed = judge.Diagnosis(
            "launcher", judge.PROBLEM, str(error).removeprefix("mpi: "), advice
        )
        return [failed], [facts | {"rank": world.rank()}]
    facts |= facts_of_rank(config)
    facts["files"] = directory_facts(directory)
    everyone = allgather_object(facts)
    return judge.findings(everyone), everyone


def about() -> dict[str, Any]:
    """Return all facts by name. Collective if a launcher started this process.

    Raises:
        UnsupportedError: If the launcher does not match the MPI library.
    """
    if launching.launcher() is not None:
        world.current()
    level = world.mpi_library().start() if world.size() > 1 else None
    return {
        "version": _core.__version__,
        "build": dict(_core.build_info()),
        "processor": _core.processor_name(),
        "processor_isa": _core.processor_isa(),
        "isa": _core.active_isa(),
        "kernels": [{"name": n, "isa": level} for n, level in _core.bench.conv_kernels()],
        "cores": _core.available_cores(),
        "threads": _core.num_threads(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "memory_available_bytes": _core.available_bytes(),
        "onednn_plugin": Path(_core.__file__).with_name("_dnnl.so").exists(),
        "mpi": mpi_facts() | {"ranks": world.size(), "thread_level": level},
    }


def mpi_facts() -> dict[str, Any]:
    """Return facts about the launcher and the MPI library, without starting MPI."""
    launched = launching.launcher()
    facts: dict[str, Any] = {
        "launcher": launched.name if launched is not None and launched.live else None,
        "plugins": launching.plugins(),
        "library": None,
    }
    try:
        library = world.mpi_library()
    except UnsupportedError as error:
        return facts | {"no_library": str(error)}
    return facts | {
        "library": library.library,
        "family": library.family,
        "library_version": library.version.partition("\n")[0],
    }


def facts_of_rank(config: Config) -> dict[str, Any]:
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
        "environment": {name: os.environ[name] for name in BINDING if os.environ.get(name)},
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
        return statistics.median(peak.sample() for _ in range(20))  # some milliseconds each
    finally:
        _core.set_num_threads(before)


def cpu_quota(proc: Path = Path("/proc/self"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the number of processors that control groups (cgroups) grant this process; None if there is no limit."""
    quotas = []
    with contextlib.suppress(OSError):
        for line in (proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            base = root / "cpu" if controllers else root  # version 1, version 2
            inner = base / path.strip("/")
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
            for folder in (inner, *inner.parents):
                with contextlib.suppress(OSError, ValueError):
                    texts = [(folder / name).read_text() for name in files]
                    quota, period = " ".join(texts).split()
                    if quota not in ("max", "-1"):
                        quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def directory_facts(directory: Path) -> dict[str, Any]:
    """Return facts about a directory, or its nearest existing parent, as seen by this rank. Collective.

    Returns:
        `path`; `seen`: True if this host shows the folder that rank 0 makes there, None on ranks that did not look. On
        rank 0 also `free_bytes`; or `error`, which says why no HDF5 file can be written and read there.
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
            data.write_volume(probe / "volume.h5", {"raw": np.zeros((3, 3, 3), np.float32)})
            data.Volume(probe / "volume.h5", "raw").read()
        except (OSError, Error) as error:
            facts["error"] = reason(error)
    world.current().barrier()
    if world.places()[0] == 0:
        facts["seen"] = probe.exists() or "error" in facts
    world.current().barrier()
    if world.rank() == 0:
        shutil.rmtree(probe, ignore_errors=True)
    return facts
