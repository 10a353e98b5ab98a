# SPDX-License-Identifier: Apache-2.0
"""Facts about this machine and this build that a table of measurements needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.bench.rows import now

available_cores = _core.available_cores

PEERS = ("torch", "numpy")
_CPUINFO = Path("/proc/cpuinfo")


def facts() -> dict[str, Any]:
    """Return the processor, its instruction set, cores, memory, versions, date (UTC), and the commit of floodtide.

    What the system does not tell is missing: family and model outside of x86, the commit outside of a Git checkout.
    """
    installed = [name for name in PEERS if importlib.util.find_spec(name) is not None]
    found: dict[str, Any] = {
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
    cpuinfo = _CPUINFO.read_text("utf-8") if _CPUINFO.exists() else ""
    for name, key in (("family", "cpu family"), ("model", "model")):
        if match := re.search(rf"^{key}\s*: (\d+)$", cpuinfo, re.MULTILINE):
            found[name] = int(match[1])
    if commit := _commit():
        found["commit"] = commit
    return found


def _commit() -> str:
    """Return the commit of floodtide's source tree that this package lies in, with "+" if it has changes; else ""."""
    tree = Path(__file__).parents[3]
    if not (tree / "cpp" / "include" / "floodtide").is_dir():
        return ""  # an installed package; a Git checkout around it is somebody else's
    command = ["git", "-C", str(tree), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run([*command, "--exclude=*"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
