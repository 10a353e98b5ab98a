# SPDX-License-Identifier: Apache-2.0
"""Plans: a configuration for a volume, with reasons; and previews of a segmentation with a trained network."""

from floodtide.plan.known import known_network
from floodtide.plan.preparing import prepare
from floodtide.plan.previewing import preview, setting_for

__all__ = ["known_network", "prepare", "preview", "setting_for"]
