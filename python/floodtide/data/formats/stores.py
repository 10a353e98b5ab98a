# SPDX-License-Identifier: Apache-2.0
"""Chunked arrays in folders, through tensorstore: Zarr 2 and 3, OME-Zarr, N5, Neuroglancer precomputed.

Zarr stores the axes z, y, x. N5 and precomputed store x, y, z. This file turns them into z, y, x.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.base.libraries import library
from floodtide.base.limits import require_decoded
from floodtide.base.reading import read_json, reason
from floodtide.data.formats.readers import (
    CACHE_BYTES,
    LARGEST_CHUNK,
    Geometry,
    object_volume,
)
from floodtide.errors import Error, InvalidFileError, UnsupportedError

PRECOMPUTED = "precomputed://"
PATIENCE_S = 10.0
"""Seconds that a block may take to read before the files of the volume are looked at."""

_ZARR = ("zarr.json", ".zarray", ".zgroup")
_NM = {
    "nm": 1.0, "nanometer": 1.0, "um": 1e3, "µm": 1e3, "micron": 1e3, "micrometer": 1e3,
    "mm": 1e6, "millimeter": 1e6, "m": 1e9, "meter": 1e9, "angstrom": 0.1,
}  # fmt: skip


def is_zarr(reference: str) -> bool:
    """Return True if the name is that of a Zarr volume."""
    return _is_in(reference, ".zarr", _ZARR)


def is_n5(reference: str) -> bool:
    """Return True if the name is that of an N5 volume."""
    return _is_in(reference, ".n5", ("attributes.json",))


def _is_in(reference: str, suffix: str, files: Sequence[str]) -> bool:
    """Return True if the path contains a folder with this suffix, or is a folder with one of these files."""
    if "\0" in reference or "://" in reference:
        return False
    return any(part.lower().endswith(suffix) for part in reference.split("/")) or any(
        os.path.isfile(os.path.join(reference, name)) for name in files
    )


def open_zarr(reference: str, channel: int | None = None) -> _core.data.Volume:
    """Open an array of a Zarr 2 or 3 folder, or the finest level of an OME-Zarr image."""
    array, attributes = _zarr_array(reference)
    driver = "zarr3" if array.name == "zarr.json" else "zarr"
    store = _opened(reference, {"driver": driver, **_file(array.parent)})
    axes = None
    geometry = _funlib_geometry(attributes)
    if array.parent != Path(reference):  # an OME-Zarr image names its axes
        image = _image_of(_attributes(_metadata(Path(reference), reference)))
        axes, geometry = _ome_geometry(image)
    return _volume(reference, _three_axes(reference, store, axes, channel), geometry, array)


def open_n5(reference: str, channel: int | None = None) -> _core.data.Volume:
    """Open a dataset of an N5 folder."""
    path = Path(reference, "attributes.json")
    attributes = _json(path, reference) if path.is_file() else {}
    if "dimensions" not in attributes:
        raise InvalidFileError(_no_array(reference, "N5 dataset", "attributes.json", "dimensions"))
    store = _opened(reference, {"driver": "n5", **_file(path.parent)})
    volume = _three_axes(reference, store.T, None, channel)
    return _volume(reference, volume, _n5_geometry(attributes), path)


def open_precomputed(reference: str, channel: int | None = None) -> _core.data.Volume:
    """Open the finest scale of a Neuroglancer precomputed volume of one channel, or one of its channels."""
    folder = reference.removeprefix(PRECOMPUTED)
    if "://" in folder:
        raise UnsupportedError(
            f"{reference}: is not a folder of this machine, expected {PRECOMPUTED}folder"
        )
    path = Path(folder, "info")
    info = _json(path, reference)
    channels = info.get("num_channels", 1)
    if channel is None and channels != 1:
        raise InvalidFileError(f"{reference}: has {channels} channels, expected 1")
    _require_channel(reference, channel or 0, channels)
    store = _opened(reference, {"driver": "neuroglancer_precomputed", **_file(path.parent)})
    scale = info["scales"][0]
    x, y, z = scale["resolution"]
    i, j, k = scale.get("voxel_offset", (0, 0, 0))
    geometry = Geometry(voxel_size_nm=(z, y, x), offset=(k, j, i))
    return _volume(reference, store[..., channel or 0].T, geometry, path)


def _volume(reference: str, store: Any, geometry: Geometry, metadata: Path) -> _core.data.Volume:
    tensorstore = library("tensorstore", reference, "formats")
    chunks = [int(n) or 1 for n in store.chunk_layout.read_chunk.shape]
    if math.prod(chunks) * store.dtype.numpy_dtype.itemsize > LARGEST_CHUNK:
        raise InvalidFileError(
            f"{reference}: has chunks of {tuple(chunks)} voxels, expected at most {LARGEST_CHUNK} bytes"
        )
    require_decoded(reference, chunks, store.dtype.numpy_dtype.itemsize)
    store = store[tensorstore.d[:].translate_to[0]]
    return object_volume(
        Store(store, metadata.parent),
        reference,
        chunks=chunks,
        geometry=geometry,
        file=str(metadata),
    )


def from_zero(source: Any) -> Any:
    """Return a tensorstore array whose positions count from 0; any other object as it is."""
    if not type(source).__module__.startswith("tensorstore"):
        return source
    tensorstore = library("tensorstore", "the array", "formats")
    return Store(source[tensorstore.d[:].translate_to[0]])


class Store:
    """A tensorstore array, read box by box.

    Args:
        store: The array.
        folder: Folder of its chunks on this machine; None: unknown.
    """

    def __init__(self, store: Any, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        self.shape = tuple(store.shape)
        self.dtype = store.dtype.numpy_dtype

    def __getitem__(self, box: tuple[slice, slice, slice]) -> Any:
        pending = self._store[box].read()
        if self._folder is None:
            return pending.result()
        try:
            return pending.result(timeout=PATIENCE_S)
        except TimeoutError:  # a slow disk, or a FIFO, which tensorstore would wait for without end
            _require_regular_files(self._folder)
            return pending.result()


def _require_regular_files(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if not os.path.isfile(path):
                raise InvalidFileError(f"{path} is no regular file, expected a chunk of a volume")


def _opened(reference: str, spec: Mapping[str, Any]) -> Any:
    tensorstore = library("tensorstore", reference, "formats")
    try:
        return tensorstore.open(
            {**spec, "recheck_cached_data": "open"}, read=True, context=_context(tensorstore)
        ).result()
    except Error:
        raise
    except Exception as error:
        raise InvalidFileError(f"{reference}: cannot be opened: {_said(error)}") from error


def _context(tensorstore: Any) -> Any:
    return tensorstore.Context(
        {
            "cache_pool": {"total_bytes_limit": CACHE_BYTES},
            "data_copy_concurrency": {"limit": max(1, _core.num_threads())},
        }
    )


def _said(error: BaseException) -> str:
    """Return tensorstore's message without its specification."""
    return reason(ValueError(str(error).partition(" [tensorstore_spec=")[0]))


def _file(folder: Path) -> dict[str, Any]:
    return {"kvstore": {"driver": "file", "path": f"{folder}/"}}


def _json(path: Path, reference: str) -> dict[str, Any]:
    value = read_json(path, f"the metadata of the volume {reference}")
    if not isinstance(value, dict):
        raise InvalidFileError(f"{path}: is no JSON object, expected the metadata of {reference}")
    return value


def _require_channel(reference: str, channel: int, channels: int) -> None:
    if channel >= channels:
        raise InvalidFileError(
            f"{reference}: has {channels} channel{'s' * (channels != 1)}, expected one with the index {channel}"
        )


def _three_axes(reference: str, store: Any, axes: Sequence[str] | None, channel: int | None) -> Any:
    """Return one channel of the array. Without a channel, axes of time and channel must have one element."""
    names = axes
    if axes is None and channel is not None and store.rank == 4:
        names = ("c", "z", "y", "x")
    has_channels = False
    if names is not None and len(names) == store.rank and store.rank > 3:
        index = []
        for name, size in zip(names[:-3], store.shape[:-3], strict=True):
            if name == "c" and channel is not None:
                _require_channel(reference, channel, size)
                has_channels = True
            elif size != 1:
                raise InvalidFileError(
                    f"{reference}: has axes {', '.join(names)} of {tuple(store.shape)}, expected one time and one"
                    " channel"
                )
            index.append(channel if name == "c" and channel is not None else 0)
        store = store[tuple(index)]
    if channel is not None and not has_channels:
        _require_channel(reference, channel, 1)
    if store.rank != 3:
        raise InvalidFileError(
            f"{reference}: has {store.rank} axes, shape {tuple(store.shape)}; expected three (z, y, x)"
        )
    return store


def _zarr_array(reference: str) -> tuple[Path, dict[str, Any]]:
    """Return the metadata file of the array that a name means, and the attributes of the array."""
    folder = Path(reference)
    document = _metadata(folder, reference)
    if (folder / "zarr.json").is_file():
        if document.get("node_type") == "array":
            return folder / "zarr.json", _attributes(document)
    elif (folder / ".zarray").is_file():
        return folder / ".zarray", _attributes(document)
    image = _image_of(_attributes(document))
    levels: list[dict[str, Any]] = image.get("datasets", [])
    level = levels[0].get("path", "") if levels else ""
    if level and ".." not in Path(level).parts and not Path(level).is_absolute():
        return _zarr_array(str(folder / level))
    raise InvalidFileError(_no_array(reference, "Zarr array", "zarr.json or .zarray", ""))


def _metadata(folder: Path, reference: str) -> dict[str, Any]:
    for name in _ZARR:
        if (folder / name).is_file():
            document = _json(folder / name, reference)
            if name != "zarr.json":
                more = folder / ".zattrs"
                document["attributes"] = _json(more, reference) if more.is_file() else {}
            return document
    return {}


def _attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    attributes = document.get("attributes", {})
    return attributes if isinstance(attributes, dict) else {}


def _image_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OME-Zarr image that the attributes describe, or an empty dictionary."""
    inner = attributes.get("ome", attributes)
    scales = inner.get("multiscales", []) if isinstance(inner, dict) else []
    image = scales[0] if isinstance(scales, list) and scales else {}
    return image if isinstance(image, dict) else {}


def _no_array(reference: str, kind: str, file: str, key: str) -> str:
    """Return a message that the folder holds no array, and which arrays are in folders below."""
    folder = Path(reference)
    if not folder.is_dir():
        return f"{reference}: there is no such folder, expected a {kind}"
    below = sorted(_arrays(folder, folder, key, 3))
    text = f"{reference}: is no {kind} (no {file} of one)"
    return (
        f"{text}; expected {' or '.join(f'{folder}/{name}' for name in below[:5])}"
        if below
        else text
    )


def _arrays(root: Path, folder: Path, key: str, depth: int) -> Iterator[str]:
    for child in folder.iterdir() if depth else ():
        if not child.is_dir():
            continue
        files = ("attributes.json",) if key else ("zarr.json", ".zarray")
        found = [child / name for name in files if (child / name).is_file()]
        document = read_json(found[0]) if found else {}
        is_array = key in document if key else document.get("node_type", "array") == "array"
        if found and is_array:
            yield child.relative_to(root).as_posix()
        else:
            yield from _arrays(root, child, key, depth - 1)


def _ome_geometry(image: Mapping[str, Any]) -> tuple[list[str], Geometry]:
    axes = image.get("axes", [])
    names = [axis.get("name", "") if isinstance(axis, dict) else str(axis) for axis in axes]
    units = [axis.get("unit") if isinstance(axis, dict) else None for axis in axes][-3:]
    scale: list[float] | None = None
    moved = [0.0] * 3
    for change in image["datasets"][0].get("coordinateTransformations", []):
        if change.get("type") == "scale":
            scale = change["scale"][-3:]
        elif change.get("type") == "translation":
            moved = change["translation"][-3:]
    if scale is None or not all(unit in _NM for unit in units):
        return names, Geometry()
    factors = [_NM[str(unit)] for unit in units]
    size = [n * factor for n, factor in zip(scale, factors, strict=True)]
    return names, _geometry(size, [n * factor for n, factor in zip(moved, factors, strict=True)])


def _funlib_geometry(attributes: Mapping[str, Any]) -> Geometry:
    """Return voxel size and offset from the attributes that funlib.persistence and gunpowder write."""
    size = attributes.get("voxel_size", attributes.get("resolution"))
    return _geometry(size, attributes.get("offset"))


def _n5_geometry(attributes: Mapping[str, Any]) -> Geometry:
    size, units = attributes.get("resolution"), attributes.get("units", ["nm"] * 3)
    pixels = attributes.get("pixelResolution")
    if isinstance(pixels, dict):
        size, units = pixels.get("dimensions"), [pixels.get("unit", "nm")] * 3
    if not isinstance(size, list) or not all(unit in _NM for unit in units):
        return Geometry()
    size = [n * _NM[unit] for n, unit in zip(size, units, strict=False)]
    offset = attributes.get("offset")
    return _geometry(size[::-1], offset[::-1] if isinstance(offset, list) else None)


def _geometry(size: Any, offset_nm: Any) -> Geometry:
    """Return the geometry of a size and an offset (z, y, x) in nm. Values of other types are ignored."""
    if not (_numbers(size) and min(size) > 0):
        return Geometry()
    z, y, x = (float(n) for n in size)
    if not _numbers(offset_nm):
        return Geometry(voxel_size_nm=(z, y, x))
    k, j, i = (round(n / m) for n, m in zip(offset_nm, (z, y, x), strict=True))
    return Geometry(voxel_size_nm=(z, y, x), offset=(k, j, i))


def _numbers(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) == 3
        and all(isinstance(n, int | float) and math.isfinite(n) for n in values)
    )
