# SPDX-License-Identifier: Apache-2.0
"""Ranges of the numbers that only commands of research take. `floodtide.base.limits` has all others."""

from __future__ import annotations

from floodtide.base.options import Range

SOME_SECONDS = Range(1e-9, 1e9, "s")
SOME_MILLISECONDS = Range(1e-6, 1e9, "ms")
TRAININGS = Range(1, 4096, "trainings")
LATENCY = Range(0.0, 1e9, "microseconds")
CPU_PER_BYTE = Range(0.0, 1e9, "nanoseconds a byte")
BANDWIDTH = Range(0.0, 1e12, "1e9 bytes a second", above=True)
THROUGHPUT = Range(0.0, 1e12, "fields of view a second", above=True)
SPREAD = Range(0.0, 10.0)
MOVES = Range(1.0, 1e6, "fields of view")
BACKUP = Range(0.0, 1e3, "share of the ranks")
SLOWDOWN = Range(1.0, 1e6)
SIMULATED_STEPS = Range(1, 10**6, "steps")
SIMULATED_DRAWS = Range(1, 10**9, "ranks times steps")
