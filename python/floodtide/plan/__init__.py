# SPDX-License-Identifier: Apache-2.0
"""Plans: a configuration for a volume, with reasons; its mistakes; and previews of a segmentation."""

from floodtide.plan.checking import check
from floodtide.plan.known import known_network
from floodtide.plan.preparing import prepare
from floodtide.plan.previewing import preview, setting_for
from floodtide.plan.segmenting import settings_for

__all__ = ["check", "known_network", "prepare", "preview", "setting_for", "settings_for"]
