# SPDX-License-Identifier: Apache-2.0
"""The files of google/ffn for a segmentation, seg-X_Y_Z.npz and seg-X_Y_Z.prob. Source: google/ffn, storage.py.

The origins in the files are pickles. They are read with an unpickler that knows the few types that belong there, and
refuses every other one: a pickle could run any program.
"""

from __future__ import annotations

import collections
import io
import json
import pickle
import sys
import types
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide.base.files import make_folder, path_and_dataset, replace_bytes
from floodtide.base.reading import LARGEST_ARRAY, opened, reading
from floodtide.data import Vec3, Volume
from floodtide.data.boxes import as_vec3
from floodtide.data.formats.geometry import WRITTEN_BY
from floodtide.errors import InvalidFileError

_MODULE = "ffn.inference.storage"
_COLUMNS = ("id", "start_zyx", "iterations", "walltime_s")
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
    """Return the origins of the segments in a file of google/ffn, with seeds in voxels of the whole volume."""
    name = Path(path).name
    with opened(path, _EXPECTED) as file:
        x, y, z = (int(part) for part in name.removeprefix("seg-").removesuffix(".npz").split("_"))
        with zipfile.ZipFile(file) as archive:
            entry = archive.getinfo("origins.npy")
            if entry.file_size > LARGEST_ARRAY:
                raise ValueError(f"origins of {entry.file_size} bytes, more than {LARGEST_ARRAY}")
            raw = archive.read(entry)
        stored = _unpickled(raw)
        if not isinstance(stored, Mapping):
            raise InvalidFileError(f"{path}: origins are no dictionary, expected {_EXPECTED}")
        found = {}
        for label, origin in stored.items():
            start, calls, seconds = (*tuple(origin), 0.0)[:3]
            dz, dy, dx = map(int, start)
            found[int(label)] = OriginInfo((z + dz, y + dy, x + dx), int(calls), float(seconds))
        return found


def read_reversed_seeds(path: str | Path) -> NDArray[np.int64]:
    """Return the seeds (n, 3) of z, y, x of a file of google/ffn in descending order of ids, as PolicyInvertOrigins."""
    origins = read_origins(path)
    rows = [origins[label].start_zyx for label in sorted(origins, reverse=True)]
    return np.array(rows, np.int64).reshape(-1, 3)


def _unpickled(raw: bytes) -> Any:
    """Return the object of an .npy file with one pickled object."""
    stream = io.BytesIO(raw)
    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
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


def write_npz(segmentation: str, folder: str | Path) -> Path:
    """Write a segmentation, and its probabilities if it has them, as google/ffn does.

    Return the file of the segmentation.

    Args:
        segmentation: "file:dataset" that `floodtide segment` has written.
        folder: google/ffn's `segmentation_output_dir`.
    """
    import h5py

    name, dataset = path_and_dataset(segmentation)
    labels, probability = Volume(segmentation).read(), None
    with reading(name, "a segmentation of `floodtide segment`"), h5py.File(name, "r") as file:
        if "box_start" not in file[dataset].attrs:
            raise InvalidFileError(
                f"{segmentation}: has no attribute box_start, expected a segmentation of `floodtide segment`"
            )
        start = [int(a) for a in file[dataset].attrs["box_start"]]
        columns = {key: file[f"origins/{key}"][()] for key in _COLUMNS}
        counters = {k: int(v) for k, v in file["counters"].attrs.items() if k != WRITTEN_BY}
        pairs = [file[f"overlaps/{key}"][()] for key in ("id", "earlier_id", "voxels")]
        if "probability" in file:
            probability = file["probability"][()]
    overlaps: dict[int, list[tuple[int, int]]] = {}
    for label, earlier, voxels in zip(*pairs, strict=True):
        overlaps.setdefault(int(label), []).append((int(earlier), int(voxels)))
    data = io.BytesIO()
    with _their_class() as their_class:
        origins = {
            int(label): their_class(tuple((place - start).tolist()), int(calls), float(seconds))
            for label, place, calls, seconds in zip(*columns.values(), strict=True)
        }
        np.savez_compressed(
            data,
            segmentation=labels,
            origins=np.array(origins, dtype=object),
            overlaps=np.array({a: np.array(rows).T for a, rows in overlaps.items()}, dtype=object),
            request=np.array(b""),
            counters=np.array(json.dumps(counters)),
        )
    path = path_in(folder, as_vec3(start))
    make_folder(path.parent)
    if probability is not None:
        map_data = io.BytesIO()
        np.savez_compressed(map_data, qprob=probability)
        replace_bytes(path.with_suffix(".prob"), map_data.getvalue())
    replace_bytes(path, data.getvalue())
    return path


@contextmanager
def _their_class() -> Iterator[Any]:
    """Return google/ffn's class for origins, so that pickles name it. It need not be installed."""
    names = ("ffn", "ffn.inference", _MODULE)
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    their_class: Any = type("OriginInfo", (OriginInfo,), {"__module__": _MODULE, "__slots__": ()})
    try:
        sys.modules.update({name: types.ModuleType(name) for name in names})
        sys.modules[_MODULE].OriginInfo = their_class  # type: ignore[attr-defined]
        yield their_class
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
