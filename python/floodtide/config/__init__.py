# SPDX-License-Identifier: Apache-2.0
"""The configuration of a run: frozen dataclasses that are read from TOML and checked key by key.

The metadata of every field holds its help text and unit; docs/configuration.md is generated from the metadata.
Relative paths are relative to the working directory. `~` and `$NAME` are expanded in paths.
"""

from floodtide.base.networks import FfnConfig
from floodtide.config.reader import from_dict, load
from floodtide.config.sections import (
    CommConfig,
    Config,
    RunConfig,
    TrainingConfig,
    ValidationConfig,
    to_dict,
)
from floodtide.config.segment_options import SegmentOptions

__all__ = [
    "CommConfig", "Config", "FfnConfig", "RunConfig", "SegmentOptions", "TrainingConfig",
    "ValidationConfig", "from_dict", "load", "to_dict",
]  # fmt: skip
