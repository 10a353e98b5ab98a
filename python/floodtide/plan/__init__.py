# SPDX-License-Identifier: Apache-2.0
"""Plans: a configuration for a volume, with reasons; its mistakes; and previews of a segmentation."""

from floodtide.plan.checking import check
from floodtide.plan.preparing import prepare
from floodtide.plan.segmenting import preview

__all__ = ["check", "prepare", "preview"]
