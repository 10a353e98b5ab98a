# SPDX-License-Identifier: Apache-2.0
"""Cores for threads, and environment variables that say what OpenMP threads do while they wait for work.

OpenMP reads the variables when a process starts. They cover the runtimes of GCC, Intel and LLVM.
"""

from __future__ import annotations

from collections.abc import Mapping

from floodtide import _core

available_cores = _core.available_cores

WAITING: Mapping[str, Mapping[str, str]] = {
    "passive": {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"},
    "active": {"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "infinite"},
}
"""By policy: passive threads soon sleep, active threads keep their cores busy."""
