# SPDX-License-Identifier: Apache-2.0
"""Plans: a configuration for a volume, with reasons; and previews of a segmentation with a trained network."""

from floodtide.plan.document import Choice, as_lines, as_toml
from floodtide.plan.known import KnownNetwork, known_network
from floodtide.plan.planner import Plan, Wish, as_tables, make_plan
from floodtide.plan.preparing import needs_resampling, prepare, voxel_size_of

__all__ = [
    "Choice",
    "KnownNetwork",
    "Plan",
    "Wish",
    "as_lines",
    "as_tables",
    "as_toml",
    "known_network",
    "make_plan",
    "needs_resampling",
    "prepare",
    "voxel_size_of",
]
