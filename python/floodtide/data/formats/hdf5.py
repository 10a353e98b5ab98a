# SPDX-License-Identifier: Apache-2.0
"""HDF5 datasets. The core reads them; this file reads what their attributes state.

The core reads three axes, or one of several channels before them. h5py reads other arrays that name their axes, such as
t, z, y, x, c of ilastik, and booleans, which HDF5 has as an enumeration.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import notes
from floodtide.base.limits import require_decoded
from floodtide.base.reading import blaming, reason
from floodtide.data.boxes import Vec3, as_vec3, of_slices
from floodtide.data.formats import geometry
from floodtide.data.formats.readers import Opened, attributes_of, note_absent, object_volume
from floodtide.errors import Error, InvalidFileError

_BIGDATAVIEWER = re.compile(r"/?t\d+/s\d+/\d+/cells/?")
_TEXTS = (*geometry.NAMES, *geometry.UNITS, "dimension_units")
_LOOKED_AT = [*geometry.KEYS, geometry.WRITTEN_BY, "CLASS", "DIMENSION_LIST", "MATLAB_class"]
_SIZES_OF_GROUPS = [*(one.key for one in geometry.SIZES), "step", "EMAN.apix_x"]
_NETCDF = "This is a netCDF dimension but not a netCDF variable"
_EMPTY = "null attribute buffer"  # HDF5's words for an attribute without a value
_IMARIS = re.compile(r"/?DataSet/ResolutionLevel \d+/TimePoint \d+/Channel \d+/Data/?")


def open_dataset(path: str, dataset: str, channel: int | None) -> Opened:
    """Open a dataset of three axes, or a channel of one of four, with the axes in the order that it states."""
    try:
        volume = _core.data.Volume(path, dataset, channel)
    except InvalidFileError as error:
        enumerated = "elements are enumerated" in str(error)
        if not enumerated and " axes, shape " not in str(error):
            raise
        other = _by_h5py(path, dataset, channel, named=not enumerated)
        if other is None:
            raise
        return other
    if os.environ.get("FLOODTIDE_ALLOW_EXTERNAL") == "1":  # else the core has refused other files
        from floodtide.data.formats.hdf5_elsewhere import require_sources

        require_sources(path, dataset, volume.name)
    there = _core.data.has_attributes(path, dataset, _LOOKED_AT)
    if geometry.WRITTEN_BY not in there:  # floodtide leaves out chunks that have the fill value
        note_absent(volume.name, *_core.data.absent_chunks(path, dataset))
    stated = {
        key: value for key in geometry.KEYS if key in there and (value := _attribute(volume, key))
    }
    if coordinates := "DIMENSION_LIST" in there:
        with by_h5py(path, dataset) as array:
            scales, coordinates = _scales_of(array)
            stated.setdefault("dimension scales", scales)
    if "CLASS" in there:
        _check_image(volume)
    given = next(
        (found for key in geometry.NAMES if (found := geometry.axis_names(stated.get(key)))), "zyx"
    )
    names = geometry.names_of(volume.name, stated, len(given))
    unsigned = volume.dtype == "int16" and bool(_BIGDATAVIEWER.fullmatch(dataset))
    size = _size_of_imaris(volume, path, dataset)
    in_order = names is None or names[-3:] == ("z", "y", "x")
    as_stored = in_order and not unsigned and size == volume.shape
    if not as_stored and names is not None and len(names) != 3:
        other = _by_h5py(path, dataset, channel)
        if other is not None:
            return other
    place = geometry.geometry_of(volume.name, stated, names)
    if names is None and "MATLAB_class" in there:
        notes.show(
            f"{volume.name}: MATLAB stores the axes of an array in reverse order; its last axis is taken as z, its"
            " second as y, its first as x"
        )
    if place.voxel_size_nm is None:
        if coordinates:
            geometry.not_used(volume.name, "dimension scales may state a voxel size")
        else:
            _note_elsewhere(volume.name, path, dataset, names is not None)
    if as_stored:
        return Opened(volume, place, plain=True)
    if set(names := names or ("z", "y", "x")) != set("zyx"):
        raise InvalidFileError(
            f"{volume.name}: names the axes {', '.join(names)}, expected z, y, x, after a channel if there is one"
        )
    z, y, x = (names.index(axis) for axis in "zyx")
    dtype = np.dtype(np.uint16 if unsigned else volume.dtype)  # BigDataViewer stores uint16 so

    def read(where: tuple[slice, ...]) -> NDArray[Any]:
        return volume.read(*of_slices(where))

    source = _Turned(read, [slice(None)] * 3, (z, y, x), size, volume.chunks, dtype)
    return object_volume(source, volume.name, place)


def _size_of_imaris(volume: _core.data.Volume, path: str, dataset: str) -> Vec3:
    """Return the size that Imaris states for an image, which it pads to whole chunks; else the size of the dataset."""
    if not _IMARIS.fullmatch(dataset):
        return volume.shape
    import h5py

    with h5py.File(path, "r") as file:
        stated = file[dataset].parent.attrs
        texts = [geometry.plain(stated.get(f"ImageSize{axis}", "")) for axis in "ZYX"]
    sizes = ["".join(map(str, one)) for one in texts]  # each character is an element
    size = as_vec3([int(one) if one.isdecimal() else 0 for one in sizes])
    if all(0 < n <= m for n, m in zip(size, volume.shape, strict=True)):
        return size
    if any(sizes):
        notes.show(
            f"{volume.name}: ImageSizeZ, ImageSizeY, ImageSizeX of Imaris are {', '.join(map(repr, sizes))}, expected"
            f" at most {volume.shape}: not used, and padding is read as image"
        )
    return volume.shape


def _scales_of(array: Any) -> tuple[list[str], bool]:
    """Return the names of the dimension scales of an h5py dataset ("": none), and True if one has coordinates.

    netCDF writes a text about itself in place of a name, if there are no coordinates. The path of the scale has the
    name then.
    """
    names, coordinates = [], False
    for axis in array.dims:
        labels = [str(geometry.plain(one.attrs.get("NAME", ""))) for one in axis.values()]
        coordinates |= any(not one.startswith(_NETCDF) for one in labels)
        label = labels[0] if labels else ""
        path = PurePosixPath(axis[0].name or "").name if labels else ""
        without = label.startswith(_NETCDF) or (not label and path.lower() in geometry.AXES)
        names.append(path if without else label)
    return names, coordinates


def _check_image(volume: _core.data.Volume) -> None:
    """Refuse colours of the HDF5 image standard, and note what else it states about values and rows."""
    if _attribute(volume, "CLASS") != "IMAGE":
        return
    kind, first = _attribute(volume, "IMAGE_SUBCLASS"), _attribute(volume, "DISPLAY_ORIGIN")
    if kind == "IMAGE_TRUECOLOR":
        raise InvalidFileError(
            f"{volume.name}: is a picture of colours (IMAGE_TRUECOLOR), expected one channel"
        )
    notes_of = {
        "its values are indices of a colour table (IMAGE_INDEXED)": kind == "IMAGE_INDEXED",
        "0 is white (IMAGE_WHITE_IS_ZERO)": _attribute(volume, "IMAGE_WHITE_IS_ZERO") == [1],
        f"its first row is not the top (DISPLAY_ORIGIN {first})": first not in (None, [], "UL"),
    }
    for text, holds in notes_of.items():
        if holds:
            notes.show(f"{volume.name}: states that {text}; it is read as it is stored")


def _note_elsewhere(name: str, path: str, dataset: str, named: bool) -> None:
    """Note a voxel size, or names of axes if it is not `named`, that something beside the dataset states."""
    inner = PurePosixPath("/", dataset.strip("/"))
    beside = str(inner.with_name("Spacing"))
    if _BIGDATAVIEWER.fullmatch(dataset):
        geometry.not_used(name, "the .xml file of BigDataViewer has the voxel size")
    elif _IMARIS.fullmatch(dataset):
        geometry.not_used(name, "DataSetInfo/Image of Imaris has the voxel size")
    elif _core.data.exists(path, beside):  # of ITK
        geometry.not_used(name, f"the dataset {beside} has the voxel size")
    else:
        for group in inner.parents:
            found = _core.data.has_attributes(path, str(group), _SIZES_OF_GROUPS)
            if found:
                geometry.not_used(name, f"the group {group} has an attribute {found[0]}")
                break
    axes = [] if named else _core.data.has_attributes(path, str(inner.parent), [*geometry.NAMES])
    what = f"the group {inner.parent} has an attribute {axes[0]}" if axes else ""
    beside = f"{inner.parent}/dim1"  # of EMD
    if not named and not axes and _core.data.exists(path, beside):
        what = f"{beside} exists"
    if what:
        notes.show(f"{name}: {what}, which may name its axes: not used, they are taken as z, y, x")
    scaled = str(inner.with_name("image-max"))  # of MINC
    if _core.data.exists(path, scaled):
        notes.show(f"{name}: {scaled} may scale its values; they are read as they are stored")


def _by_h5py(path: str, dataset: str, channel: int | None, named: bool = True) -> Opened | None:
    """Open an array through h5py; None if it lies in another file, or is to be `named` and has no names of axes."""
    name = f"{path}:{dataset}"
    with by_h5py(path, dataset) as array:
        elsewhere = array.is_virtual or array.external or array.file.filename != path
        if elsewhere or array.shape is None:  # a null dataspace
            return None
        stated = attributes_of(array)
        if "DIMENSION_LIST" in array.attrs:
            stated.setdefault("dimension scales", _scales_of(array)[0])
        shape, dtype, chunks = array.shape, array.dtype, array.chunks or array.shape
        if array.chunks:
            require_decoded(name, chunks, dtype.itemsize)
    names = geometry.names_of(name, stated, len(shape))
    if names is None and named:
        return None

    read = functools.partial(read_by_h5py, path, dataset)
    source = _Turned(read, *geometry.order_of(name, names, shape, channel), shape, chunks, dtype)
    return object_volume(source, name, geometry.geometry_of(name, stated, names), file=path)


def datasets_of(path: str) -> str:
    """Return the names of the datasets of a file, for messages; empty if it cannot be read."""
    try:
        _core.data.Volume(path, "?")
    except Error as error:  # the core follows links with care, h5py does not
        return str(error).partition("its datasets are: ")[2]
    return ""


def read_by_h5py(
    path: str, dataset: str, where: tuple[int | slice, ...] | None = None
) -> NDArray[Any]:
    """Return what is at an index with a number or a slice for each axis; None: the whole array.

    Raises:
        InvalidFileError: As `by_h5py`; also if a chunk is damaged, which h5py does not notice.
    """
    with by_h5py(path, dataset) as array:
        at = where or (slice(None),) * array.ndim
        ranges = [
            (i, i + 1) if isinstance(i, int) else i.indices(n)[:2]
            for i, n in zip(at, array.shape, strict=True)
        ]
        first, count = [a for a, _ in ranges], [b - a for a, b in ranges]
        _core.data.require_block(path, dataset, first, count)
        found: NDArray[Any] = np.asarray(array[at])
    return found


@contextlib.contextmanager
def by_h5py(path: str, dataset: str) -> Iterator[Any]:
    """Yield a dataset that h5py has opened.

    Raises:
        InvalidFileError: If the file cannot be read, or the dataset is compressed with LZF.
    """
    import h5py

    name = f"{path}:{dataset}"
    with blaming(InvalidFileError, f"{name}: cannot be read"), h5py.File(path, "r") as file:
        array = file[dataset]
        # The core has no LZF filter, and that of h5py gives random numbers for damaged chunks.
        if array.id.get_create_plist().get_filter_by_id(h5py.h5z.FILTER_LZF):
            raise InvalidFileError(
                f"{name}: is compressed with LZF, expected another filter; write it again with h5py"
            )
        yield array


class _Turned:
    """The axes z, y, x of a dataset that has more of them, or another order.

    Args:
        read: Returns what is at an index with a number or a slice for each axis of the dataset.
        index: For each axis of the dataset, the position to read, or a slice for z, y and x.
        order: The order in which the axes that are left become z, y, x.
        shape, chunks: Size of the dataset and of a chunk along each of its axes.
        dtype: Of its voxels, or of integers of another sign.
    """

    def __init__(
        self,
        read: Callable[[Any], NDArray[Any]],
        index: Sequence[int | slice],
        order: Vec3,
        shape: Sequence[int],
        chunks: Sequence[int],
        dtype: np.dtype[Any],
    ) -> None:
        self._read, self._index, self._order = read, index, order
        self.shape, self.chunks, self.dtype = self._kept(shape), self._kept(chunks), dtype

    def _kept(self, values: Sequence[int]) -> Vec3:
        """Return what belongs to z, y and x of values for all axes."""
        left = [n for n, at in zip(values, self._index, strict=True) if isinstance(at, slice)]
        return as_vec3([left[axis] for axis in self._order])

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        parts = iter(box[self._order.index(i)] for i in range(3))
        where = tuple(next(parts) if isinstance(at, slice) else at for at in self._index)
        return np.ascontiguousarray(self._read(where).transpose(self._order)).view(self.dtype)


def _attribute(volume: _core.data.Volume, key: str) -> Any:
    """Return an attribute as JSON would hold it: a text, or a list of texts or numbers. A note names other types."""
    readers: list[Callable[[str], Any]] = [volume.numbers, volume.integers]
    readers.insert(0 if key in _TEXTS else 2, volume.texts)
    problems: list[str] = []
    for read in readers:
        try:
            found = read(key)
        except InvalidFileError as error:
            problems.append(reason(error))
            if key in _TEXTS and " is not a text" not in problems[0]:  # damaged
                raise
            continue
        return found[0] if found and isinstance(found[0], str) and len(found) == 1 else found
    if any(_EMPTY in text for text in problems):
        return [] if key in _TEXTS else "empty"
    said = "not a text in UTF-8", ": elements are "
    text = next((text for text in problems if any(one in text for one in said)), problems[0])
    problem = text.partition(f"attribute {key}")[2].partition(", expected")[0].strip(": ")
    return f"unreadable ({f'{key} ' * problem.startswith('is ')}{problem})"
