# SPDX-License-Identifier: Apache-2.0
"""Origins of segments in files of google/ffn, seg-X_Y_Z.npz.

The files hold pickles. They are read with an unpickler that knows the few types that belong there, and refuses every
other one: a pickle could run any program. Source: google/ffn, storage.py.
"""

from __future__ import annotations

import collections
import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide.base import reading
from floodtide.data import Vec3
from floodtide.errors import InvalidFileError

_EXPECTED = "a segmentation of google/ffn"
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class OriginInfo(NamedTuple):
    """Seed (in voxels of the subvolume), number of network calls and time of a segment."""

    start_zyx: Vec3
    iters: int
    walltime_sec: float


def path_in(folder: str | Path, start_zyx: Vec3) -> Path:
    """Return the file of the subvolume that starts at a voxel."""
    z, y, x = start_zyx
    return Path(folder) / str(x) / str(y) / f"seg-{x}_{y}_{z}.npz"


def read_origins(path: str | Path) -> dict[int, OriginInfo]:
    """Return the origins of the segments in a file of google/ffn, with seeds in voxels of the whole volume.

    Raises:
        InvalidFileError: If the file is missing, damaged, or holds something else.
    """
    name = Path(path).name
    with reading.reading(path, _EXPECTED):
        x, y, z = (int(part) for part in name.removeprefix("seg-").removesuffix(".npz").split("_"))
        with zipfile.ZipFile(path) as archive:
            raw = archive.read("origins.npy")
        stored = _unpickled(raw)
        if not isinstance(stored, Mapping):
            raise InvalidFileError(f"{path}: origins are no dictionary, expected {_EXPECTED}")
        found = {}
        for label, origin in stored.items():
            start, calls, seconds = (*tuple(origin), 0.0)[:3]
            local = [int(a) for a in start]
            dz, dy, dx = local
            found[int(label)] = OriginInfo((z + dz, y + dy, x + dx), int(calls), float(seconds))
        return found


def read_reversed_seeds(path: str | Path) -> NDArray[np.int64]:
    """Return the seeds (n, 3) of z, y, x of a file of google/ffn in descending order of ids, as PolicyInvertOrigins.

    Raises:
        InvalidFileError: As `read_origins`.
    """
    origins = read_origins(path)
    rows = [origins[label].start_zyx for label in sorted(origins, reverse=True)]
    return np.array(rows, np.int64).reshape(-1, 3)


def _unpickled(raw: bytes) -> Any:
    """Return the object of an .npy file with one pickled object."""
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = read_header[version](stream)
    if shape != () or not dtype.hasobject:
        raise ValueError(f"origins of shape {shape} and type {dtype}")
    try:
        return _Unpickler(stream).load().item()
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(f"no pickle of origins: {error}") from error


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name == "OriginInfo":  # of whatever module: the published file names one inside Google
            return OriginInfo
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"a pickle of {module}.{name}, which does not belong there")
