# SPDX-License-Identifier: Apache-2.0
"""Environment variables that say what OpenMP threads do while they wait for work.

OpenMP reads them when a process starts. The variables cover the runtimes of GCC, Intel and LLVM.
"""

from __future__ import annotations

from collections.abc import Mapping

WAITING: Mapping[str, Mapping[str, str]] = {
    "passive": {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"},
    "active": {"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "infinite"},
}
"""By policy: passive threads soon sleep, active threads keep their cores busy."""
