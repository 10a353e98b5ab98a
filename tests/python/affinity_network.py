# SPDX-License-Identifier: Apache-2.0
"""A U-Net whose affinities are those of bright voxels, as a run directory, and a volume with bright objects for it."""

from __future__ import annotations

from pathlib import Path

import bright_network
import h5py
import numpy as np
from scipy import ndimage

from floodtide import config
from floodtide.train import Trainer

SHAPE = (64, 64, 64)
SUBVOLUME = ["--set", "segment.subvolume=[32,32,32]", "--set", "segment.overlap=[16,16,16]"]
"""Cuts SHAPE into 27 subvolumes."""

OFFSETS = [[-1, 0, 0], [0, -1, 0], [0, 0, -1]]

CONFIGURATION = """\
[run]
dir = "FOLDER/run"
threads = 1
[[data.volumes]]
name = "spots"
image = "FOLDER/volume.h5:raw"
labels = "FOLDER/labels.h5:labels"
box = "0:32,0:64,0:64"
mean = 128.0
std = 33.0
voxel_size_nm = [16.0, 16.0, 16.0]
[data]
patch = [16, 16, 16]
[task]
kind = "affinities"
zero_is_boundary = true
[model]
kind = "unet"
depth = 1
features = 16
batch_norm = false
[training]
steps = 1
[optimizer]
lr = 1e-12
[validation]
box = "32:64,0:64,0:64"
"""


def train(folder: Path) -> Path:
    """Write volume, labels, configuration and run directory of the network; return the configuration's file."""
    bright_network.write_volume(folder / "volume.h5", SHAPE)
    with h5py.File(folder / "volume.h5") as volume, h5py.File(folder / "labels.h5", "w") as file:
        file["labels"] = ndimage.label(volume["raw"][()] > 128)[0].astype(np.int32)
    file = folder / "spots.toml"
    file.write_text(CONFIGURATION.replace("FOLDER", str(folder)))
    trainer = Trainer.from_config(config.load(file))
    for name, values in trainer.model.parameters().items():
        values[...] = 0
        for channel, offset in enumerate(OFFSETS):
            if name == "encoder0/conv_a/weights":  # both voxels bright: 2, else 0 or less
                values[1, 1, 1, 0, channel] = 1
                values[(*(1 + step for step in offset), 0, channel)] = 1
            elif name == "encoder0/conv_b/weights":
                values[1, 1, 1, channel, channel] = 1
            elif name == "head/weights":
                values[0, 0, 0, channel, channel] = 10
        if name == "head/biases":
            values[...] = -10
    trainer.run()
    return file
