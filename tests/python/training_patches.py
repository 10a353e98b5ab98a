# SPDX-License-Identifier: Apache-2.0
"""A small volume with labels of several kinds, and a configuration of at most 25 lines for each task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import ndimage

from floodtide import data

SHAPE = (20, 32, 32)

CONFIGURATION = """\
[run]
dir = "RUN"
[[data.volumes]]
image = "FOLDER/volume.h5:raw"
labels = "FOLDER/volume.h5:LABELS"
box = "0:12,0:32,0:32"
mean = 120
std = 40
CHANNELS[data]
patch = PATCH
patches = 12
TASK
[model]
kind = "unet"
depth = 2
NETWORK
[training]
steps = 4
walkers = 4
[validation]
box = "12:20,0:32,0:32"
"""

SPACE = ("[4, 16, 16]", "pools = [[1, 2, 2]]")
SECTIONS = ("[1, 16, 16]", "kernels = [[1, 3, 3]]\npools = [[1, 2, 2]]")
CHANNELS = 'channels = [{ image = "FOLDER/volume.h5:second", mean = 20, std = 30 }]\n'

KINDS: dict[str, tuple[str, str, str, str]] = {
    "classes in space": ("classes", *SPACE, 'kind = "classes"'),
    "affinities in sections": (
        "objects",
        *SECTIONS,
        'kind = "affinities"\nzero_is_boundary = true\noffsets = [[0, -1, 0], [0, 0, -1]]',
    ),
    "lsd": ("objects", *SPACE, 'kind = "lsd"\nzero_is_boundary = true\nwindow = [2, 3, 3]'),
    "two channels": ("classes", *SECTIONS, 'kind = "classes"'),
    "distance": ("objects", *SPACE, 'kind = "distance"\nscale = 3'),
}


def write_patches(folder: Path, name: str = "volume.h5") -> Path:
    """Write `raw`, a second channel, and labels: `objects` (ids, 0 between them) and `classes` (0 and 255)."""
    random = np.random.default_rng(3)
    z, y, x = np.indices(SHAPE)
    objects = (1 + (y + z // 4) // 11 + 4 * (x // 11)).astype(np.uint64)
    objects[((y + z // 4) % 11 == 0) | (x % 11 == 0)] = 0
    inside = ndimage.gaussian_filter(random.normal(size=SHAPE), (1, 3, 3))
    classes = np.where(inside > np.quantile(inside, 0.75), 255, 0).astype(np.uint8)
    raw = 140 * (objects > 0) + 15 * (classes > 0) + random.integers(0, 40, SHAPE)
    second = 50 * (classes > 0) + random.integers(0, 20, SHAPE)
    arrays = {"raw": raw.astype(np.uint8), "second": second.astype(np.uint8)}
    data.write_volume(folder / name, {**arrays, "objects": objects, "classes": classes})
    return folder / name


def text(folder: Path, kind: str, run: str = "run") -> str:
    """Return a configuration as TOML, with the volume of a folder and a run directory in it."""
    labels, patch, network, task = KINDS[kind]
    result = CONFIGURATION.replace("LABELS", labels).replace("PATCH", patch)
    result = result.replace("NETWORK", network).replace("TASK", f"[task]\n{task}")
    result = result.replace("CHANNELS", CHANNELS if kind == "two channels" else "")
    return result.replace("FOLDER", str(folder)).replace("RUN", str(folder / run))
