# SPDX-License-Identifier: Apache-2.0
"""Seeds of policies, and seeds from files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits, reading
from floodtide.base.files import path_and_dataset
from floodtide.base.registry import listed
from floodtide.config.segment_options import LISTED, SegmentOptions, seed_policies
from floodtide.data import Vec3
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.segment.canvas_image import (
    CanvasImage,
    place_seeds,
)
from floodtide.segment.ffn_files import path_in, read_reversed_seeds


class Seeded(NamedTuple):
    """Seed (z, y, x) and number of network calls of a segment."""

    id: int
    zyx: Vec3
    calls: int


def read_origins(reference: str) -> list[Seeded]:
    """Return the origins in the HDF5 file of a segmentation, "file:dataset".

    Raises:
        InvalidFileError: If the file has no origins, or is damaged.
    """
    rows = _core.segment.read_origins(path_and_dataset(reference)[0]).tolist()
    return [Seeded(name, (z, y, x), calls) for name, z, y, x, calls in rows]


def seed_bytes_per_voxel(options: SegmentOptions) -> int:
    """Return the memory (bytes) for each voxel of a box that the seeds need; 0 for policies with few seeds."""
    names = [name for name, _ in listed(options.seed_policy)]
    return sum(row["bytes_per_voxel"] * names.count(row["name"]) for row in seed_policies())


def policy_seeds(
    options: SegmentOptions,
    image: CanvasImage,
    normalisation: tuple[float, float],
    fov: Sequence[int],
    closed: NDArray[np.uint8] | None,
) -> NDArray[np.int64]:
    """Return the seeds (n, 3) of `options.seed_policy` in voxels of the canvas, in the order in which they are tried.

    Args:
        options: The policies and their parameters.
        image: The image.
        normalisation: Mean and standard deviation of the image.
        fov: Field of view (z, y, x).
        closed: Bits of voxels (`closed_voxels`), or None.

    Raises:
        InvalidArgumentError: If the seeds do not fit into memory, or the policy `listed` has no file.
        InvalidFileError: If the file of the policy `listed` cannot be read.
    """
    limits.require_memory(
        f"segment: seed_policy '{options.seed_policy}' needs",
        seed_bytes_per_voxel(options) * image.voxels.size,
        "a smaller box or another policy",
    )
    rows = {row["name"]: row for row in _core.segment.seed_policies()}
    found = []
    for name, is_reversed in listed(options.seed_policy):
        if name == LISTED:
            seeds = place_seeds(_listed_seeds(options, image.start), image, fov)
            found.append(seeds[::-1] if is_reversed else seeds)
            continue
        known = {spec["name"] for spec in rows[name]["parameters"]}
        values = {key: value for key, value in options.seed_values.items() if key in known}
        margin = [size // 2 for size in fov]
        seeds = _core.segment.find_seeds(
            image.voxels, *normalisation, name, values, margin, None, closed
        )
        found.append(seeds[::-1] if is_reversed else seeds)
    return np.concatenate(found)


def uses_file(options: SegmentOptions) -> bool:
    """Return True if the policy `listed` is one of the policies: their seeds are used with those of a file."""
    return any(name == LISTED for name, _ in listed(options.seed_policy))


def _listed_seeds(options: SegmentOptions, start: Vec3) -> NDArray[np.int64]:
    if not options.seeds:
        raise InvalidArgumentError(
            f"segment: seed_policy is '{options.seed_policy}', but segment.seeds is empty; expected the file of the"
            f" policy {LISTED}"
        )
    return read_seeds(options.seeds, start)


def seed_files(path: str) -> list[str]:
    """Return the files with seeds that a name stands for: all files of google/ffn in a folder, or the file itself."""
    return sorted(map(str, Path(path).rglob("seg-*.npz"))) if os.path.isdir(path) else [path]


def read_seeds(path: str, start: Vec3 = (0, 0, 0)) -> NDArray[np.int64]:
    """Return the seeds (n, 3) in a file: z, y, x in each line of a text; or the seeds of an earlier segmentation.

    Args:
        path: A text file; or an HDF5 file that `floodtide segment` has written, or a file seg-X_Y_Z.npz of google/ffn,
            whose seeds are taken in reverse order, as in PolicyInvertOrigins; or a folder of such files.
        start: First voxel (z, y, x) of the box that will be segmented: chooses the file of a folder.

    Raises:
        InvalidFileError: If the file is missing or holds something else.
    """
    if os.path.isdir(path):
        return read_reversed_seeds(path_in(path, start))
    if path.lower().endswith(".npz"):
        return read_reversed_seeds(path)
    if path.lower().endswith((".h5", ".hdf5")):
        return np.ascontiguousarray(_core.segment.read_seeds(path)[::-1])
    rows = []
    for number, line in enumerate(reading.read_text(path, "z, y, x in each line").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 3 or not all(word.isdecimal() and len(word) <= 13 for word in words):
            raise InvalidFileError(f"{path}, line {number}: expected z, y, x, three whole numbers")
        rows.append([int(word) for word in words])
    return np.array(rows, np.int64).reshape(-1, 3)
