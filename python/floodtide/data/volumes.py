# SPDX-License-Identifier: Apache-2.0
"""Volumes in HDF5 files: read in boxes, and written whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.files import path_and_dataset
from floodtide.base.options import Arguments
from floodtide.base.outputs import WAIT_S, reserved, unchecked
from floodtide.data.boxes import Box, Vec3, parse_box

_WRITE = Arguments(gzip=limits.GZIP)

_CHUNK = 64  # voxels along each axis of the chunks of volumes written here
_GZIP = 4


class Volume:
    """A three-dimensional dataset of integers or floating-point numbers, read in boxes.

    Args:
        file: An HDF5 file, or "file:dataset".
        dataset: The dataset in `file`, if `file` names none.

    Raises:
        InvalidFileError: If the file or dataset is missing or unreadable, or has not three axes.
    """

    def __init__(self, file: str | os.PathLike[str], dataset: str | None = None) -> None:
        path = os.fspath(file)
        if dataset is None:
            path, dataset = path_and_dataset(path)
        self._volume = _core.data.Volume(path, dataset)

    @property
    def name(self) -> str:
        """ "file:dataset"."""
        return self._volume.name

    @property
    def shape(self) -> Vec3:
        """Voxels along z, y, x."""
        return self._volume.shape

    @property
    def chunks(self) -> Vec3:
        """Voxels of a storage chunk; the shape if the volume is stored in one piece."""
        return self._volume.chunks

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the voxels."""
        return np.dtype(self._volume.dtype)

    def read(self, box: Box | str | None = None) -> NDArray[Any]:
        """The voxels of a box (or of "z0:z1,y0:y1,x0:x1"; None: all) in the volume's own type.

        Raises:
            OutOfRangeError: If the box is not inside the volume.
        """
        if isinstance(box, str):
            box = parse_box(box)
        start, size = ((0, 0, 0), self.shape) if box is None else box
        return self._volume.read(start, size)

    def read_intensities(self, box: Box) -> NDArray[np.float32]:
        """The voxels of a box as float32.

        Raises:
            OutOfRangeError: If the box is not inside the volume.
            InvalidFileError: If a voxel is not finite, or they are integers of more than 16 bits.
        """
        return self._volume.read_intensities(*box)

    def text(self, attribute: str) -> str:
        """A text that the dataset carries as an attribute; empty if it has none.

        Raises:
            InvalidFileError: If the attribute is no text, or damaged.
        """
        return self._volume.text(attribute)

    def __repr__(self) -> str:
        return f"Volume({self.name!r}, shape={self.shape}, dtype={self.dtype})"


def write_volume(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    *,
    gzip: int = _GZIP,
    command: str = "floodtide write_volume",
) -> None:
    """Write arrays as the datasets of an HDF5 file, in chunks of at most 64 voxels an axis.

    The file takes its name only when it is complete. If there is one already, its other datasets stay, and a dataset of
    a name in `arrays` is replaced only if the same `command` wrote it.

    Raises:
        StorageError: If it cannot be written.
        InvalidArgumentError: If an array is not C-contiguous or of an unusual type, or something else would be lost.
    """
    _WRITE.check("write_volume", gzip=gzip)
    with reserved("write_volume", path, unchecked, wait_s=WAIT_S):
        _core.data.write_datasets(os.fsencode(path), dict(arrays), _CHUNK, gzip, command)
