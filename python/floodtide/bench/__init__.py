# SPDX-License-Identifier: Apache-2.0
"""Everything that measures this machine: kernels, passes of networks, whole trainings, and yardsticks beside them."""

from floodtide.bench.kernels import conv, kernels, peak
from floodtide.bench.rows import Row, in_own_process, stamped, threads

__all__ = ["Row", "conv", "in_own_process", "kernels", "peak", "stamped", "threads"]
