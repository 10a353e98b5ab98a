# SPDX-License-Identifier: Apache-2.0
"""`floodtide.optim.lr`, under the name that scripts use."""

from floodtide.optim.lr import Cosine, Schedule, Warmup, scale, scale_rows, schedule_rows

__all__ = ["Cosine", "Schedule", "Warmup", "scale", "scale_rows", "schedule_rows"]
