# SPDX-License-Identifier: Apache-2.0
"""Volumes, and what networks are trained on: partitions, shards, patches, synthetic volumes.

A volume is named in the form of its format, such as `file:dataset` (docs/formats.md), or is an array or object in
a `Volume`; axes are z, y, x; sizes are voxels. A box is a pair (start, size).
Functions that say Collective must be called by every rank of the job.
"""

from floodtide.base.data_options import Augmentation, Channel, DataOptions, TrainingVolume
from floodtide.base.tasks import Affinities, Classes, Distance, ShapeDescriptors
from floodtide.data.boxes import Box, Vec3, parse_box
from floodtide.data.copies import convert
from floodtide.data.partitions import partition
from floodtide.data.patches import Patches, Split
from floodtide.data.samples import Shards
from floodtide.data.volumes import Volume, synth, write_volume

__all__ = [
    "Affinities", "Augmentation", "Box", "Channel", "Classes", "DataOptions", "Distance", "Patches",
    "ShapeDescriptors", "Shards", "Split", "TrainingVolume", "Vec3", "Volume", "convert",
    "parse_box", "partition", "synth", "write_volume",
]  # fmt: skip
