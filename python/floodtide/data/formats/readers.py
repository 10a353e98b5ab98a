# SPDX-License-Identifier: Apache-2.0
"""Volumes of Python objects for the core, with checks of every block that an object returns.

The core calls an object from several of its own threads at a time. It reads arrays in memory without Python.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import notes
from floodtide.base.libraries import tensorstore_library
from floodtide.base.reading import read_json, reason
from floodtide.comm.arrays import array_of, is_tensor
from floodtide.data.boxes import Vec3, as_vec3, box_text, slices
from floodtide.data.formats import geometry as geo
from floodtide.errors import Error, InvalidArgumentError, InvalidFileError

CACHE_BYTES = 64 << 20
"""Size of the cache for decoded chunks, in bytes, as for HDF5."""

MANY_ABSENT = 0.1
"""Share of absent chunks above which a note says so."""

_XYZ = ("cloudvolume", "nibabel")
"""Libraries whose arrays have the axes x, y, z."""


class Source(Protocol):
    """Object that a volume can read: it has a shape and a dtype, and is indexed by slices (z, y, x)."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, box: tuple[slice, slice, slice], /) -> Any: ...


class Opened(NamedTuple):
    """A volume of the core, where it lies, if the core can open it by its name, and `Format.place` of its name."""

    core: _core.data.Volume
    geometry: geo.Geometry
    plain: bool = False
    place: tuple[str, str] | None = None


def array_volume(array: NDArray[Any], name: str, geometry: geo.Geometry = geo.UNKNOWN) -> Opened:
    """Return a volume that reads an array in memory, without a copy where the core knows the type."""
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)  # True may be any byte: Pillow has 255
    if array.ndim == 3 and not array.dtype.isnative and array.dtype.kind in "iuf":
        return object_volume(array, name, geometry)  # swaps the bytes of each block
    return Opened(_core.data.array_volume(array, name), geometry)


def note_absent(name: str, absent: int, expected: int, writer: str = "") -> None:
    """Note chunks that do not exist: any if `writer` has written all of them, else if they are many."""
    if absent > (0 if writer else MANY_ABSENT * expected):
        more = f" ({writer} wrote all of them)" if writer else ""
        notes.show(
            f"{name}: {absent} of {expected} chunks do not exist{more}, and are read as the fill value"
        )


def object_volume(
    source: Any, name: str, geometry: geo.Geometry = geo.UNKNOWN, *, file: str | None = None
) -> Opened:
    """Return a volume that reads boxes of a Python object.

    Args:
        source: The object. Its `chunks`, if it has any, are the voxels (z, y, x) of a storage chunk.
        file: A file that must stay in place while the volume is read. Readers of chunked formats take a chunk without
            a file for a chunk of zeros, so a volume that was removed would not be noticed otherwise.
    """
    shape, dtype = _shape(source, name), _dtype(source, name)
    own: Any = getattr(source, "chunks", None)
    known = isinstance(own, Sequence) and len(own) == 3 and all(isinstance(n, int) for n in own)
    size = tuple(min(max(n, 1), m) for n, m in zip(own, shape, strict=True)) if known else shape
    before = _identity(file, name)

    def read(start: Vec3, extent: Vec3) -> NDArray[Any]:
        where = f"{name}: box {box_text((start, extent))} (z, y, x)"
        try:
            block = np.asarray(source[slices((start, extent))])
        except Error:
            raise
        except Exception as error:
            raise InvalidFileError(
                f"{where} cannot be read: {type(error).__name__}: {reason(error)}"
            ) from error
        if _identity(file, name) != before:
            raise InvalidFileError(f"{name}: {file} was replaced while the volume was being read")
        if block.dtype == np.bool_:
            block = block.astype(np.uint8)  # True may be any byte: Pillow has 255
        if block.shape != extent or block.dtype.newbyteorder("=") != dtype:
            raise InvalidFileError(
                f"{where} was read as {block.dtype} of shape {block.shape}, expected {dtype} of shape {extent}"
            )
        return block.astype(dtype, copy=False)

    volume = _core.data.python_volume(read, name, shape=shape, chunks=size, dtype=dtype.name)
    return Opened(volume, geometry)


def open_object(source: Any, name: str) -> Opened:
    """Open an array, or another object that a volume can read."""
    is_array = isinstance(source, np.ndarray)
    name = name or ("the array" if is_array else f"the {type(source).__name__} object")
    foreign = is_tensor(source) and not isinstance(getattr(source, "dtype", None), np.dtype)
    if foreign or isinstance(source, np.ma.MaskedArray):  # refused by `array_of`
        source, is_array = array_of(name, source), True
    attributes = attributes_of(source)
    _require_zyx(source, name, attributes)
    if is_array:
        return array_volume(source, name)
    known = geo.Geometry()
    if type(source).__module__.startswith("tensorstore"):  # its positions may begin anywhere
        attributes, known = _stated_by_store(source, name)
        store = source[tensorstore_library("the array").d[:].translate_to[0]]
        source = Store(store, "the array")
    geometry = geo.geometry_of(name, attributes, known=known)
    return object_volume(source, name, geometry)


def _stated_by_store(store: Any, name: str) -> tuple[dict[str, Any], geo.Geometry]:
    """Return the units of the dimensions of a tensorstore array, as an attribute, and where its domain begins.

    The array may be a part of the stored one, or a transposed or thinned one. Units and domain are those of the part.
    Attributes of the stored array are not, so that they are noted.
    """
    _shape(store, name)  # refuses other than three axes
    units = [one and [one.multiplier, one.base_unit] for one in store.dimension_units]
    stored: dict[str, Any] = {}
    if store.kvstore is not None:  # the specification of an array in memory has all its voxels
        base = store
        while base.base is not None:  # of another type, or averaged
            base = base.base
        metadata = base.spec().to_json().get("metadata", {})  # precomputed volumes have none
        stored = {**metadata, **metadata.get("attributes", {})}
    places = [one.key for one in geo.OFFSETS if one.key in stored]
    sizes = [one.key for one in geo.SIZES if one.key in stored and not any(units)]
    if text := ", ".join(dict.fromkeys([*sizes, *places])):
        notes.show(
            f"{name}: the stored array has the attributes {text}: not used; ft.data.Volume uses them if it gets the"
            " name of the volume"
        )
    known = geo.Geometry()
    if any(store.domain.origin) and not places:
        known = geo.Geometry(offset=as_vec3(store.domain.origin), offset_source="its domain")
    return {"dimension_units": units}, known


def in_folder(folder: Path) -> dict[str, Any]:
    """Return the part of a specification of tensorstore that says in which folder an array is."""
    # tensorstore refuses names with ".." and links to folders above
    return {"kvstore": {"driver": "file", "path": f"{folder.resolve()}/"}}


class Store:
    """A tensorstore array, read box by box."""

    def __init__(self, store: Any, name: str, chunks: Sequence[int] | None = None) -> None:
        self._store, self._name, self.chunks = store, name, chunks
        self.shape = tuple(store.shape)
        self.dtype = store.dtype.numpy_dtype

    def __getitem__(self, box: tuple[slice, slice, slice]) -> Any:
        tensorstore_library(self._name)  # refuses a child of fork()
        return self._store[box].read().result()


def _shape(source: Any, name: str) -> Vec3:
    try:
        shape = tuple(int(n) for n in source.shape)
    except (AttributeError, TypeError, ValueError):
        raise InvalidArgumentError(
            f"{name}: expected the name of a volume, an array, or an object with shape, dtype and __getitem__"
        ) from None
    if len(shape) != 3:
        raise InvalidFileError(
            f"{name}: has {len(shape)} axes, shape {shape}; expected three (z, y, x)"
        )
    return shape


def attributes_of(source: Any) -> dict[str, Any]:
    """Return what the attributes of an array of h5py, zarr or xarray state, as JSON would hold it."""
    found = getattr(source, "attrs", None)
    return {
        key: geo.plain(found[key])
        for key in geo.KEYS
        if isinstance(found, Mapping) and key in found
    }


def _require_zyx(source: Any, name: str, attributes: Mapping[str, Any]) -> None:
    """Refuse an object with axes in another order: it names them, or is of a library whose arrays have x, y, z."""

    library = type(source).__module__.partition(".")[0]
    spec = _as_stored(source) if library == "tensorstore" else {}
    path = str(getattr(source, "store_path", "") if library == "zarr" else spec.get("path", ""))
    path = os.path.abspath(path.removeprefix("file://")) if path else ""  # or one in memory
    if path and _is_level_of_image(Path(path)):
        raise InvalidArgumentError(
            f"{name}: is a level of an OME-Zarr image, which states its axes and voxel size: expected its name,"
            f" ft.data.Volume({path!r})"
        )
    if library == "xarray" and source.coords:
        notes.show(
            f"{name}: its coordinates ({', '.join(map(str, source.coords))}) may state a voxel size, a place or a"
            " direction: not used"
        )
    if spec.get("driver") == "n5":
        raise InvalidArgumentError(
            f"{name}: has the axes x, y, z of N5, expected z, y, x: array.T, or the name of the dataset"
        )
    if library in _XYZ:
        raise InvalidArgumentError(
            f"{name}: has the axes x, y, z of {library}, expected z, y, x: numpy.asarray(array).T"
        )
    stated = (
        getattr(source, "dims", None),
        getattr(getattr(source, "metadata", None), "dimension_names", None),
        getattr(getattr(source, "domain", None), "labels", None),
        *(attributes.get(key) for key in geo.NAMES),
    )
    names = next((found for one in stated if (found := geo.axis_names(one))), None)
    if names is not None and names != ("z", "y", "x"):
        raise InvalidArgumentError(
            f"{name}: names its axes {', '.join(names)}, expected z, y, x: transpose it first"
        )


def _is_level_of_image(array: Path) -> bool:
    """Return True for the folder of an array in a group that describes an OME-Zarr image."""
    for place in (array.with_name("zarr.json"), array.with_name(".zattrs")):
        if place.is_file():
            stated = read_json(place, "the group of a Zarr array")
            if place.name == "zarr.json" and isinstance(stated, dict):
                stated = stated.get("attributes")
            return bool(geo.images_of(stated))
    return False


def _as_stored(store: Any) -> dict[str, Any]:
    """Return driver and path of a tensorstore array in files; empty if its axes have names, or another order."""
    if store.kvstore is None or any(store.domain.labels):
        return {}
    spec = store.spec().to_json()
    outputs = spec.get("transform", {}).get("output", [])
    order = [one["input_dimension"] for one in outputs if "input_dimension" in one]
    kept = spec.get("kvstore") or {}
    place = f"{kept.get('path', '')}{spec.get('path', '')}" if kept.get("driver") == "file" else ""
    return {"driver": spec.get("driver"), "path": place} if order == sorted(order) else {}


def _dtype(source: Any, name: str) -> np.dtype[Any]:
    given = getattr(source, "dtype", None)
    dtype: np.dtype[Any] = np.dtype(object)
    with contextlib.suppress(TypeError):
        dtype = np.dtype(getattr(given, "numpy_dtype", given))
    dtype = np.dtype(np.uint8) if dtype == np.bool_ else dtype.newbyteorder("=")
    if given is None or dtype.kind not in "iuf" or dtype.itemsize > 8 or dtype == np.float16:
        raise InvalidFileError(
            f"{name}: elements are {given}; expected (u)int8, (u)int16, (u)int32, (u)int64, float32 or float64"
        )
    return dtype


def _identity(file: str | None, name: str) -> tuple[int, int] | None:
    if file is None:
        return None
    try:
        status = os.stat(file)
    except OSError as error:
        raise InvalidFileError(f"{name}: {file} cannot be read: {reason(error)}") from None
    return status.st_dev, status.st_ino
