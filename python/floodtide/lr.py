# SPDX-License-Identifier: Apache-2.0
"""Learning rates: the public names of `floodtide.optim.lr`, with a short import path for scripts."""

from floodtide.optim.lr import Cosine, Schedule, Warmup, scale, scale_rows, schedule_rows

__all__ = ["Cosine", "Schedule", "Warmup", "scale", "scale_rows", "schedule_rows"]
