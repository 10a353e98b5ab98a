# SPDX-License-Identifier: Apache-2.0
"""The build of floodtide and the properties of this machine, as `floodtide info` shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.comm import world
from floodtide.comm.launching import libraries
from floodtide.doctor import host

__all__ = ["about"]


def about() -> dict[str, Any]:
    """Return all facts by name. Collective if a launcher started this process.

    Raises:
        UnsupportedError: If the launcher does not match the MPI library.
    """
    total, available = _memory_bytes()
    return {
        "version": _core.__version__,
        "build": dict(_core.build_info()),
        "processor": _core.processor_name(),
        "processor_isa": _core.processor_isa(),
        "isa": _core.active_isa(),
        "kernels": [{"name": n, "isa": level} for n, level in _core.bench.conv_kernels()],
        "cores": _core.available_cores(),
        "threads": _core.num_threads(),
        "memory_bytes": total,
        "memory_available_bytes": available,
        "onednn_plugin": Path(_core.__file__).with_name("_dnnl.so").exists(),
        "mpi": _mpi(),
    }


def _mpi() -> dict[str, Any]:
    if libraries.launcher() is not None:
        world.ensure_init()
    level = world.mpi_library().start() if world.size() > 1 else None
    return host.mpi_facts() | {"ranks": world.size(), "thread_level": level}


def _memory_bytes() -> tuple[int | None, int | None]:
    """Return (total, free) memory of the machine in bytes; (None, None) if the system does not report them."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        return None, None
