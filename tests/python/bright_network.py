# SPDX-License-Identifier: Apache-2.0
"""A flood-filling network that grows through bright voxels, and a volume with bright objects for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy import ndimage

from floodtide import nn
from floodtide.data import Box, Volume
from floodtide.data.boxes import Progress, box_text
from floodtide.segment import Flooding, Pieces, Segmenter

FOV = (9, 9, 9)


def save(path: Path) -> None:
    """Write a checkpoint whose network raises the logits of bright voxels by 15 and lowers those of dark ones by 5."""
    network = nn.FFN(depth=2, features=4, fov=FOV, deltas=(2, 2, 2))
    for name, values in network.parameters().items():
        values[...] = 0
        if name.endswith(("conv0_a/weights", "conv0_b/weights")):
            values[1, 1, 1, 0, 0] = 1
        elif name.endswith("conv_lom/weights"):
            values[0, 0, 0, 0, 0] = 20
        elif name.endswith("conv_lom/biases"):
            values[0] = -5
    network.save(path)


def write_volume(path: Path, shape: tuple[int, int, int], seed: int = 0) -> None:
    """Write the dataset `raw`: bright blobs of some 6 voxels (161) on a dark ground (95)."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), 2.5)
    bright = noise > np.quantile(noise, 0.8)
    with h5py.File(path, "w") as file:
        file["raw"] = np.where(bright, 161, 95).astype(np.uint8)


def configuration(folder: Path, shape: tuple[int, int, int] = (40, 44, 48), **keys: object) -> Path:
    """Write volume, network and a configuration that segments the volume; return the configuration's file."""
    write_volume(folder / "volume.h5", shape)
    save(folder / "bright.h5")
    lines = [
        "[segment]",
        f'checkpoint = "{folder}/bright.h5"',
        f'image = "{folder}/volume.h5:raw"',
        "mean = 128.0",
        "std = 33.0",
        "min_segment_size = 20",
        *(f"{name} = {value}" for name, value in keys.items()),
    ]
    path = folder / "segment.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def name_volume(file: Path) -> None:
    """Change a configuration: segment.image names a [[data.volumes]] table, which has mean and std."""
    text = file.read_text()
    image = f"{file.parent}/volume.h5:raw"
    for line in ("mean = 128.0\n", "std = 33.0\n"):
        text = text.replace(line, "")
    text = text.replace(f'image = "{image}"', 'image = "spots"')
    volume = f'[[data.volumes]]\nname = "spots"\nimage = "{image}"\nmean = 128.0\nstd = 33.0\n'
    file.write_text(f"{volume}\n{text}")


def in_subvolumes(
    folder: Path, segmenter: Segmenter, volume: Any, *, box: Box | None = None, **options: Any
) -> Pieces:
    """Return the folder for a segmentation in subvolumes, with these options from now on."""
    options |= {} if box is None else {"box": box_text(box)}
    segmenter.options = dataclasses.replace(segmenter.options, **options)
    return Flooding(segmenter, volume).pieces(folder)


def segment_block(
    pieces: Pieces,
    number: int,
    segmenter: Segmenter,
    volume: Volume,
    progress: Progress | None = None,
) -> bool:
    """Segment a subvolume as a worker of a scheduler does."""
    return Flooding(segmenter, volume).store(pieces, number, progress)
