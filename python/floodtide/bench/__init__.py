# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of this machine: kernels, passes of networks and training steps on several ranks.

They compare with PyTorch, with the MPI library, and with the processor's peak multiply-add rate of the same run.
"""

from floodtide.bench.optimizers import optimizers
from floodtide.bench.ranks import require_several_ranks, start_ranks
from floodtide.bench.rows import Row, stamped, threads
from floodtide.bench.shapes import Timing

__all__ = [
    "Row",
    "Timing",
    "optimizers",
    "require_several_ranks",
    "stamped",
    "start_ranks",
    "threads",
]
