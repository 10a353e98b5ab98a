# SPDX-License-Identifier: Apache-2.0
"""Facts about this machine and this build that a table of measurements needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from floodtide import _core

PEERS = ("torch", "numpy")
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# Instructions that decide how fast networks are, as Linux names them.
_INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")


def facts() -> dict[str, Any]:
    """Return the processor, its caches and instructions, cores, memory, versions, and the commit of floodtide.

    What the system does not tell is missing: family and model outside of x86, caches without sysfs, the commit outside
    of a Git checkout.
    """
    found: dict[str, Any] = {
        "processor": _core.processor_name(),
        "cores": _core.available_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": _versions(),
    }
    found |= _cpuinfo()
    caches = _caches()
    if caches:
        found["caches"] = caches
    commit = _commit()
    if commit:
        found["commit"] = commit
    return found


def title(found: Mapping[str, Any]) -> str:
    """Return the name of the processor. Virtual machines hide the model's name, so family and model numbers follow."""
    if "family" not in found:
        return str(found["processor"])
    return f"{found['processor']} (family {found['family']}, model {found['model']})"


def file_name(found: Mapping[str, Any]) -> str:
    """Return the title as the name of a file, without suffix: "amd-epyc-family-26-model-2"."""
    return re.sub(r"[^a-z0-9]+", "-", title(found).lower()).strip("-")


def _versions() -> dict[str, str]:
    found = {"floodtide": _core.__version__, "python": platform.python_version()}
    found["compiler"] = str(_core.build_info()["compiler"])
    installed = {name for name in PEERS if importlib.util.find_spec(name) is not None}
    return found | {name: importlib.metadata.version(name) for name in sorted(installed)}


def _cpuinfo() -> dict[str, Any]:
    if not _CPUINFO.exists():
        return {}
    lines = _CPUINFO.read_text("utf-8").split("\n\n", maxsplit=1)[0].splitlines()
    values = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    if "cpu family" not in values:
        return {}
    flags = set(values["flags"].split())
    return {
        "family": int(values["cpu family"]),
        "model": int(values["model"]),
        "instructions": [name for name in _INSTRUCTIONS if name in flags],
    }


def _caches() -> dict[str, str]:
    """Return the size of each data cache of the first core: {"L1": "32K"}."""
    found = {}
    for folder in sorted(_CACHES.glob("index*")):
        kind, level, size = (
            (folder / name).read_text("utf-8").strip() for name in ("type", "level", "size")
        )
        if kind != "Instruction":
            found[f"L{level}"] = size
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
