# SPDX-License-Identifier: Apache-2.0
"""Plans: a configuration for a volume, with reasons; its mistakes; and previews of a segmentation."""

from floodtide.plan.checking import check
from floodtide.plan.document import Choice, as_lines, as_toml
from floodtide.plan.known import KnownNetwork, known_network
from floodtide.plan.planner import Plan, as_tables, make_plan
from floodtide.plan.preparing import prepare
from floodtide.plan.previewing import Preview, Setting, preview, setting_for
from floodtide.plan.segmenting import settings_for
from floodtide.plan.wish import Wish

__all__ = [
    "Choice",
    "KnownNetwork",
    "Plan",
    "Preview",
    "Setting",
    "Wish",
    "as_lines",
    "as_tables",
    "as_toml",
    "check",
    "known_network",
    "make_plan",
    "prepare",
    "preview",
    "setting_for",
    "settings_for",
]
