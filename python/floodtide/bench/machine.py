# SPDX-License-Identifier: Apache-2.0
"""Facts about this machine and this build that a table of measurements needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from typing import Any

from floodtide import _core
from floodtide.bench.rows import now

available_cores = _core.available_cores

PEERS = ("torch", "numpy")


def facts() -> dict[str, Any]:
    """Return the processor, its instruction set, cores, memory, versions, and date (UTC)."""
    installed = [name for name in PEERS if importlib.util.find_spec(name) is not None]
    return {
        "processor": _core.processor_name(),
        "isa": _core.active_isa(),
        "cores": _core.available_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "date": now(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "floodtide": _core.__version__,
            "python": platform.python_version(),
            "compiler": str(_core.build_info()["compiler"]),
            **{name: importlib.metadata.version(name) for name in installed},
        },
    }
