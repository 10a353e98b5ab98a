# SPDX-License-Identifier: Apache-2.0
"""The configuration of a run: frozen dataclasses that are read from TOML and checked key by key.

The metadata of every field holds its help text and unit; docs/configuration.md is generated from the metadata.
Relative paths are relative to the working directory. `~` and `$NAME` are expanded in paths.
"""

from floodtide.config.files import dumps, from_dict, load, save
from floodtide.config.mask_options import MaskChannel, MaskOptions
from floodtide.config.networks import FLOOD, PATCHES, SLICES, FfnConfig, UNet2DConfig, UNet3DConfig
from floodtide.config.resegment_options import ResegmentOptions
from floodtide.config.sections import (
    AugmentationConfig,
    CommConfig,
    Config,
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    SlicesConfig,
    TrainingConfig,
    ValidationConfig,
    VolumeConfig,
    require_tables,
)
from floodtide.config.segment_options import SegmentOptions
from floodtide.config.tables import to_dict

__all__ = [
    "FLOOD",
    "PATCHES",
    "SLICES",
    "AugmentationConfig",
    "CommConfig",
    "Config",
    "DataConfig",
    "FfnConfig",
    "MaskChannel",
    "MaskOptions",
    "ModelConfig",
    "OptimizerConfig",
    "ResegmentOptions",
    "RunConfig",
    "ScheduleConfig",
    "SegmentOptions",
    "SlicesConfig",
    "TrainingConfig",
    "UNet2DConfig",
    "UNet3DConfig",
    "ValidationConfig",
    "VolumeConfig",
    "dumps",
    "from_dict",
    "load",
    "require_tables",
    "save",
    "to_dict",
]
