# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of this machine: kernels, passes of networks and complete training, compared with PyTorch and the peak."""

from floodtide.bench.kernels import MIB, bandwidth, conv, kernels, peak
from floodtide.bench.rows import Row, in_own_process, stamped, threads, timed_in_turn

__all__ = [
    "MIB",
    "Row",
    "bandwidth",
    "conv",
    "in_own_process",
    "kernels",
    "peak",
    "stamped",
    "threads",
    "timed_in_turn",
]
