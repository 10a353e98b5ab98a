# SPDX-License-Identifier: Apache-2.0
"""HDF5 files with which the HDF5 library (1.10) crashes or makes no progress."""

from __future__ import annotations

import struct
from pathlib import Path

import h5py
import numpy as np

IMAGE = np.random.default_rng(0).integers(0, 255, (24, 24, 24)).astype(np.uint8)


def oldest_file(path: Path) -> bytearray:
    """Write a file in the oldest format, whose index of chunks has levels and no checksums. Return its bytes."""
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        file.create_dataset("raw", data=IMAGE, chunks=(2, 3, 4))
        file["raw"].attrs["units"] = "nm"
        file["raw"].attrs["axes"] = ["z", "y", "x"]
        file["other"] = IMAGE
    return bytearray(path.read_bytes())


def endless_file(path: Path) -> None:
    """Write a file whose index of chunks contains itself: the library recurses until its stack is full."""
    content = oldest_file(path)
    place = next(
        i
        for i in range(len(content))
        if content.startswith(b"TREE\x01", i) and content[i + 5] > 0  # of chunks, above the leaves
    )
    first_child = place + 8 + 16 + 8 + 8 * (IMAGE.ndim + 1)
    content[first_child : first_child + 8] = struct.pack("<Q", place)
    path.write_bytes(content)


def long_chunks_file(path: Path) -> None:
    """Write a file whose chunks are much longer than what is stored of them: the library reads beyond its memory."""
    content = oldest_file(path)
    sizes = struct.pack("<4I", 2, 3, 4, 1)
    assert content.count(sizes) == 1
    place = content.index(sizes)
    content[place : place + 12] = struct.pack("<3I", 2, 3, 4 + (1 << 21))
    path.write_bytes(content)
