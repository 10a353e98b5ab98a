# SPDX-License-Identifier: Apache-2.0
"""Volumes of pictures: TIFF stacks, and folders of single TIFF or PNG slices, through tifffile and imageio."""

from __future__ import annotations

import glob
import logging
import math
import os
import re
import stat
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.libraries import library
from floodtide.base.limits import require_decoded
from floodtide.base.reading import reason
from floodtide.data.boxes import Vec3
from floodtide.data.formats.readers import Geometry, object_volume
from floodtide.errors import Error, InvalidFileError

CACHE_BYTES = 256 << 20
"""Size of the cache for decoded pictures, in bytes. A picture is always decoded whole."""

# tifffile logs what is wrong with a file. Without a handler, Python prints this on standard error, beside our own line.
logging.getLogger("tifffile").addHandler(logging.NullHandler())

TIFF = (".tif", ".tiff")
PICTURES = (*TIFF, ".png")
_WILD = re.compile(r"[*?\[]")


def is_stack(reference: str) -> bool:
    """Return True if the name is that of one TIFF file."""
    return reference.lower().endswith(TIFF) and not _WILD.search(reference)


def is_folder(reference: str) -> bool:
    """Return True if the name is a pattern of picture files."""
    return reference.lower().endswith(PICTURES) and bool(_WILD.search(reference))


def open_stack(reference: str) -> _core.data.Volume:
    """Open a TIFF file of one picture or of pictures of one size."""
    source = Stack(reference)
    return object_volume(
        source, reference, chunks=(1, *source.shape[1:]), geometry=source.geometry, file=reference
    )


def open_folder(reference: str) -> _core.data.Volume:
    """Open the pictures whose names match a pattern, in the order of the numbers in their names."""
    source = Folder(reference, files_of_pattern(reference))
    return object_volume(source, reference, chunks=(1, *source.shape[1:]))


def files_of_pattern(reference: str) -> list[str]:
    """Return the files that match a pattern. Numbers in names are compared as numbers: slice2 comes before slice10."""

    def order(name: str) -> list[tuple[int, int, str]]:
        return [
            (0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in re.split(r"([0-9]+)", name)
        ]

    return sorted(glob.glob(reference), key=order)


class Planes:
    """Pictures that are decoded whole and cached. Several threads may call `decode` at once."""

    def __init__(self, decode: Callable[[int], NDArray[Any]], shape: Vec3, dtype: Any) -> None:
        self._decode = decode
        self.shape, self.dtype = shape, np.dtype(dtype)
        plane = max(1, shape[1] * shape[2] * self.dtype.itemsize)
        self._most = max(1, CACHE_BYTES // plane)
        self._kept: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._gate = threading.Lock()

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        z, y, x = box
        shape = tuple(part.stop - part.start for part in box)
        block = np.empty(shape, self.dtype)
        for i in range(z.start, z.stop):
            block[i - z.start] = self._plane(i)[y, x]
        return block

    def _plane(self, number: int) -> NDArray[Any]:
        with self._gate:
            plane = self._kept.get(number)
            if plane is not None:
                self._kept.move_to_end(number)
                return plane
        plane = self._decode(number)
        with self._gate:
            self._kept[number] = plane
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return plane


class Stack:
    """A TIFF file. Uncompressed voxels are read directly from the file; compressed pictures are decoded whole."""

    def __init__(self, path: str) -> None:
        tifffile = library("tifffile", path, "formats")
        _require_file(path, path)
        try:
            self._file = tifffile.TiffFile(path)
            weakref.finalize(self, self._file.close)
            series = self._file.series[0]
            self.geometry = _tiff_geometry(self._file, series)
        except Exception as error:
            raise InvalidFileError(
                f"{path}: is no TIFF file that can be read: {reason(error)}"
            ) from error
        shape, axes = list(series.shape), series.axes
        while len(shape) > 3 and shape[0] == 1:
            shape.pop(0)
        if len(shape) == 2:
            shape.insert(0, 1)
        if len(shape) != 3 or "S" in axes[-3:]:
            raise InvalidFileError(
                f"{path}: has axes {axes} of {tuple(series.shape)}, expected pictures of one channel (z, y, x)"
            )
        self.shape: Vec3 = (shape[0], shape[1], shape[2])
        self.dtype = np.dtype(series.dtype)
        self._offset = series.dataoffset  # None unless all voxels lie in one piece
        self._stored = self.dtype.newbyteorder(self._file.byteorder)
        self._gate = threading.Lock()  # of the file, which has one position
        pages = series.pages
        if self._offset is None and len(pages) not in (1, shape[0]):
            raise InvalidFileError(f"{path}: has {len(pages)} pictures for a shape of {self.shape}")
        self._whole = len(pages) != shape[0]
        if self._offset is None:
            require_decoded(path, shape if self._whole else shape[1:], self.dtype.itemsize)
        self._planes = Planes(self._decoded, self.shape, self.dtype)
        self._pages = pages

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        if self._offset is None:
            return self._planes[box]
        z, y, x = box
        _, rows, columns = self.shape
        count = (y.stop - y.start) * columns
        block = np.empty(tuple(part.stop - part.start for part in box), self._stored)
        descriptor = self._file.filehandle.fileno()
        for i in range(z.start, z.stop):
            first = self._offset + (i * rows + y.start) * columns * self.dtype.itemsize
            read = _read_at(descriptor, count * self.dtype.itemsize, first)
            values = np.frombuffer(read, self._stored).reshape(-1, columns)
            block[i - z.start] = values[:, x]
        return block

    def _decoded(self, number: int) -> NDArray[Any]:
        with self._gate:
            if self._whole:
                picture = self._pages[0].asarray().reshape(self.shape)[number]
            else:
                picture = self._pages[number].asarray()
        return np.asarray(picture).reshape(self.shape[1:])


class Folder:
    """Pictures of one size, each in its own file."""

    def __init__(self, pattern: str, files: list[str]) -> None:
        if not files:
            raise InvalidFileError(f"{pattern}: no file has such a name")
        self._pattern, self._files = pattern, files
        first = self._read(0)
        self._planes = Planes(self._decoded, (len(files), *first.shape), first.dtype)
        self.shape, self.dtype = self._planes.shape, self._planes.dtype
        self._decoded(len(files) - 1)

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        return self._planes[box]

    def _read(self, number: int) -> NDArray[Any]:
        path = self._files[number]
        _require_file(path, self._pattern)
        try:
            if path.lower().endswith(TIFF):
                with library("tifffile", path, "formats").TiffFile(path) as file:
                    series = file.series[0]
                    require_decoded(path, series.shape, series.dtype.itemsize)
                    picture = np.asarray(series.asarray())
            else:
                picture = np.asarray(library("imageio.v3", path, "formats").imread(path))
        except Error:
            raise
        except Exception as error:
            raise InvalidFileError(
                f"{path}: cannot be read as a picture: {reason(error)}"
            ) from error
        if picture.ndim != 2:
            raise InvalidFileError(
                f"{path}: has shape {picture.shape}, expected one picture of one channel (y, x)"
            )
        return picture

    def _decoded(self, number: int) -> NDArray[Any]:
        picture = self._read(number)
        if picture.shape != self.shape[1:] or picture.dtype != self.dtype:
            raise InvalidFileError(
                f"{self._files[number]}: is {picture.dtype} of shape {picture.shape}, expected"
                f" {self.dtype} of {self.shape[1:]} as {self._files[0]}"
            )
        return picture


def _read_at(descriptor: int, count: int, offset: int) -> bytes:
    read = os.pread(descriptor, count, offset)
    while len(read) < count:
        more = os.pread(descriptor, count - len(read), offset + len(read))
        if not more:
            raise OSError("the file ends within the pictures")
        read += more
    return read


def _require_file(path: str, name: str) -> None:
    """Refuse a path that is no regular file. Reading a FIFO would wait without end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise InvalidFileError(f"{name}: {path} cannot be read: {reason(error)}") from None
    if not stat.S_ISREG(mode):
        raise InvalidFileError(f"{name}: {path} is no regular file")


def _tiff_geometry(file: Any, series: Any) -> Geometry:
    """Return the voxel size from the metadata of floodtide, ImageJ or OME."""
    if series.kind == "shaped" and file.shaped_metadata:
        written = file.shaped_metadata[0]
        size, offset = written.get("voxel_size_nm"), written.get("offset")
        return Geometry(voxel_size_nm=_triple(size, float), offset=_triple(offset, int))
    units = {"nm": 1.0, "um": 1e3, "µm": 1e3, "\\u00B5m": 1e3, "micron": 1e3, "mm": 1e6}
    found = file.imagej_metadata or {}
    unit = units.get(str(found.get("unit", "")))
    if file.is_imagej and unit and "spacing" in found:
        tags = file.pages[0].tags
        pixels = [tags[name].value for name in ("YResolution", "XResolution") if name in tags]
        if len(pixels) == 2 and all(a > 0 for a, _ in pixels):
            y, x = (unit * below / above for above, below in pixels)
            return Geometry(voxel_size_nm=(unit * float(found["spacing"]), y, x))
    if file.is_ome and file.ome_metadata:
        sizes = []
        for axis in "ZYX":
            value = re.search(rf'PhysicalSize{axis}="([0-9.eE+-]+)"', file.ome_metadata)
            named = re.search(rf'PhysicalSize{axis}Unit="([^"]+)"', file.ome_metadata)
            scale = units.get(named[1] if named else "µm")
            if value and scale:
                sizes.append(scale * float(value[1]))
        return Geometry(voxel_size_nm=_triple(sizes, float))
    return Geometry()


def _triple(values: Any, kind: Callable[[Any], Any]) -> Any:
    if not isinstance(values, list | tuple) or len(values) != 3:
        return None
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in values):
        return None
    return kind(values[0]), kind(values[1]), kind(values[2])
