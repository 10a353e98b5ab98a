# SPDX-License-Identifier: Apache-2.0
"""Volumes of any format, read in boxes; HDF5 files, written whole; synthetic volumes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits, notes
from floodtide.base.data_options import TrainingVolume
from floodtide.base.outputs import WAIT_S, reserved, unchecked
from floodtide.base.reading import exists
from floodtide.comm.arrays import array_of
from floodtide.data import boxes, no_label
from floodtide.data.boxes import Box, Progress, Vec3
from floodtide.data.formats.geometry import Geometry, SizeNm, same_size, size_text
from floodtide.data.formats.hdf5 import open_dataset
from floodtide.data.formats.readers import Source, open_object
from floodtide.data.formats.table import HDF5, format_of, open_volume
from floodtide.data.formats.writers import CHUNK, GZIP, hdf5_file
from floodtide.errors import Error, InvalidArgumentError, ShapeError

_PARTS, _PART = 4, 32  # cubes along each axis, and voxels along theirs, of a sample of labels


class Volume:
    """A three-dimensional array of integers or floating-point numbers, read in boxes.

    Whatever stores the volume, its axes are z, y, x, and positions count from its first voxel. docs/formats.md lists
    the formats. An array in memory is not copied: it must not change while the volume is used. The core reads other
    Python objects from its own threads, several at a time.

    Args:
        source: A volume's name ("file.h5:dataset", "volume.zarr/path", "stack.tif", ...), an HDF5 file, a NumPy
            array or tensor, or any object with `shape`, `dtype` and `__getitem__` of three slices: arrays of zarr,
            h5py, tensorstore or dask are such objects.
        dataset: The dataset in the HDF5 file `source`.
        channel: Index of the channel of a volume with the axes channel, z, y, x in an HDF5, Zarr, N5 or precomputed
            volume; a volume of three axes has channel 0. None: the volume has three axes.
        name: What messages call an array or object.

    Attributes:
        core: The volume of the compiled core.
        name: Name of the volume in messages.
        shape: Size (z, y, x) in voxels.
        chunks: Size (z, y, x) in voxels of a storage chunk; the shape if the volume is stored in one piece.
        dtype: Type of the voxels.
        geometry: Voxel size and offset, if the format states them, and what states them.
        place: Real path of the file or folder, and which volume in it: equal for the same volume. None: neither a file
            nor a folder.

    Raises:
        InvalidArgumentError: If `source` is none of these.
        InvalidFileError: If the volume is missing or unreadable, has not three axes, or does not hold numbers.
        UnsupportedError: If the format needs a library that is not installed.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | NDArray[Any] | Source,
        dataset: str | None = None,
        *,
        channel: int | None = None,
        name: str = "",
    ) -> None:
        kept = None if isinstance(source, np.ndarray) else source  # the core keeps an array
        self._arguments = (kept, dataset, channel, name)  # for pickle and copy
        if not isinstance(source, str | os.PathLike):
            opened = open_object(source, name)
        elif dataset is None:
            opened = open_volume(os.fspath(source), channel)
        else:
            place = (os.path.realpath(source), dataset.strip("/"))
            opened = open_dataset(os.fspath(source), dataset, channel)._replace(place=place)
        self.core, self.geometry, self.place = opened.core, opened.geometry, opened.place
        self.name, self.shape, self.chunks = self.core.name, self.core.shape, self.core.chunks
        self.dtype: np.dtype[Any] = np.dtype(self.core.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to open the volume again, for pickle and copy. A relative name counts from the folder there."""
        source, dataset, channel, name = self._arguments
        if source is None:
            source = self.read()
        return functools.partial(Volume, source, dataset, channel=channel, name=name), ()

    def read(self, box: Box | str | None = None) -> NDArray[Any]:
        """Return the voxels of a box, or of a text "z0:z1,y0:y1,x0:x1", in the type of the volume; None: all voxels.

        Raises:
            OutOfRangeError: If the box is not inside the volume.
            InvalidArgumentError: If the box does not fit into memory.
        """
        if isinstance(box, str):
            box = boxes.parse_box(box)
        start, size = ((0, 0, 0), self.shape) if box is None else box
        if all(n <= m for n, m in zip(size, self.shape, strict=True)):
            limits.require_decoded(self.name, size, self.dtype.itemsize)
        return self.core.read(start, size)

    def text(self, attribute: str) -> str:
        """Return a text attribute of an HDF5 dataset; empty if there is none.

        Raises:
            InvalidFileError: If the attribute is no text, or damaged.
        """
        return self.core.text(attribute)

    @functools.cached_property
    def whole(self) -> Geometry:
        """Geometry in the whole volume: that of a result of floodtide follows from its image, see `whole_geometry`."""
        return whole_geometry(self.geometry, self.text("image"))

    def is_same(self, other: Volume) -> bool:
        """Return True if both are one volume of one file, under any name and of any channel, or one object."""
        return self is other or (self.place is not None and self.place == other.place)

    def __repr__(self) -> str:
        return f"Volume({self.name!r}, shape={self.shape}, dtype={self.dtype})"


VolumeLike = str | os.PathLike[str] | Volume
"""A volume as an argument: its name, or an open volume."""


def as_volume(volume: VolumeLike | NDArray[Any] | Source) -> Volume:
    """Return a volume that is given by itself, or by what `Volume` takes as its source."""
    return volume if isinstance(volume, Volume) else Volume(volume)


def sources_of(volume: TrainingVolume) -> list[_core.data.SourceOptions]:
    """Return the core's descriptions of the boxes of a volume for flood filling."""
    for key in ("labels", "partitions"):
        if not getattr(volume, key):
            raise InvalidArgumentError(
                f"volume '{volume.name}': {key} is empty, expected file:dataset"
            )
    image, partitions = as_volume(volume.image), as_volume(volume.partitions)
    labels = labels_of(volume.labels)
    return [
        _core.data.SourceOptions(
            name=volume.name,
            image=image.core,
            labels=labels.core,
            partitions=partitions.core,
            box=box,
            mean=volume.mean,
            std=volume.std,
        )
        for box in (boxes.parse_boxes(volume.box) or (None,))
    ]


def labels_of(volume: VolumeLike, unlabelled: int | None = None) -> Volume:
    """Return a volume of labels in which voxels without a label are 0, whatever value its file has for them.

    The voxels of a sample decide if the volume is returned as it is, which reads faster.

    Args:
        unlabelled: A further value of voxels without a label; None: none.
    """
    given = as_volume(volume)
    if none_of(given) is None and unlabelled is None:
        return given
    return computed(given, lambda box: no_label.cleared(given.read(box), given.name, unlabelled))


def none_of(volume: Volume) -> int | None:
    """Return a value besides 0 that stands for no label in the voxels of a sample; None if there is none."""
    if not no_label.may_spell(volume.dtype):
        return None
    for along in itertools.product(*(_places(n) for n in volume.shape)):
        start, size = map(boxes.as_vec3, zip(*along, strict=True))
        block = volume.read((start, size))
        if (none := no_label.missing(block)) is not None:
            return int(block[none].max())
    return None


def _places(extent: int) -> list[tuple[int, int]]:
    """Return (start, size) of the parts of an axis that a sample has."""
    if extent <= _PARTS * _PART:
        return [(0, extent)]
    return [(i * (extent - _PART) // (_PARTS - 1), _PART) for i in range(_PARTS)]


class _Computed:
    def __init__(
        self, read: Callable[[Box], NDArray[Any]], dtype: Any, box: Box, chunks: Vec3
    ) -> None:
        self._read, self.dtype, (self._start, self.shape) = read, dtype, box
        self.chunks = boxes.as_vec3([*map(min, chunks, self.shape)])

    def __getitem__(self, where: tuple[slice, slice, slice]) -> NDArray[Any]:
        start, size = boxes.of_slices(where)
        return self._read((boxes.total(start, self._start), size))


def computed(
    like: Volume, read: Callable[[Box], NDArray[Any]], dtype: Any = None, box: Box | None = None
) -> Volume:
    """Return a volume with the name and place of another one, and the voxels that `read` returns for a box of it.

    Args:
        dtype: Type of the voxels; None: that of the other volume.
        box: The part of the other volume that is the new one; None: all.
    """
    part, known = box or ((0, 0, 0), like.shape), like.whole
    kind = like.dtype if dtype is None else dtype
    found = Volume(_Computed(read, kind, part, like.chunks), name=like.name)
    if box is not None:
        offset = boxes.total(known.offset or (0, 0, 0), part[0])
        known = dataclasses.replace(known, offset=offset)
    found.geometry = known
    return found


def volume_exists(name: str) -> bool:
    """True if there is a volume of this name; False also for a name that no volume can have."""
    try:
        row = format_of(name)
        path = row.path(name)
    except InvalidArgumentError:
        return False
    if row is not HDF5:
        return path.exists()
    return exists(path) and _core.data.exists(str(path), name.rpartition(":")[2])


def whole_geometry(geometry: Geometry, image: str) -> Geometry:
    """Return the geometry of a result of floodtide in the whole volume.

    A result counts its voxels from the first one of its image, which may have an offset. If the image has none, nobody
    knows where a result lies that begins with its image. If it states no voxel size, it has the one of the image.

    Args:
        geometry: What the file of the result states.
        image: The name of the image; "": the volume is no result of floodtide.
    """
    found = Geometry()
    try:
        found = Volume(image).geometry if image else found
    except Error:  # it is not needed otherwise, and may be gone
        notes.show(
            f"{image}, the image of a result of floodtide, cannot be read from here: if it states an offset, that"
            " offset is not added to the position of the result"
        )
    if geometry.voxel_size_nm is None and found.voxel_size_nm is not None:
        source = f"{found.size_source} of its image {image}"
        size = found.voxel_size_nm
        geometry = dataclasses.replace(geometry, voxel_size_nm=size, size_source=source)
    if found.offset is not None:
        offset = boxes.total(geometry.offset or (0, 0, 0), found.offset)
        source = geometry.offset_source or found.offset_source
        return dataclasses.replace(geometry, offset=offset, offset_source=source)
    if image and geometry.offset == (0, 0, 0):
        return dataclasses.replace(geometry, offset=None, offset_source="")
    return geometry


def stated_by(volume: Volume, given: Sequence[float] | None, option: str) -> Geometry:
    """Return the geometry of a volume, with the voxel size that an option gives, if it is given."""
    if given is None:
        return volume.whole
    z, y, x = given
    return dataclasses.replace(volume.whole, voxel_size_nm=(z, y, x), size_source=option)


def settled_size(volume: Volume, given: Sequence[float] | None, what: str) -> SizeNm | None:
    """Return the voxel size (z, y, x) that was given, with a note if the volume states another one; else its own.

    Args:
        given: What the user states; None: nothing.
        what: The result that gets this size, for the note.
    """
    own, size = volume.whole, stated_by(volume, given, what).voxel_size_nm
    if (
        own.voxel_size_nm is not None
        and size is not None
        and not same_size(own.voxel_size_nm, size)
    ):
        notes.show(
            f"{volume.name}: {own.size_source} states voxels of {size_text(own.voxel_size_nm)} nm, and {what} states"
            f" {size_text(size)} nm"
        )
    return size


def orders_for(image: Volume, labels: Volume) -> list[Vec3]:
    """Return the orders of the labels' axes that have the shape of the image. Raise ShapeError if there is none."""
    orders = [
        boxes.as_vec3(order)
        for order in itertools.permutations(range(3))
        if tuple(labels.shape[axis] for axis in order) == image.shape
    ]
    if not orders:
        raise ShapeError(
            f"{labels.name}: labels have shape {labels.shape}, and the image {image.name} has {image.shape}; expected"
            f" the same shape (z, y, x): cut both to the same part with `floodtide convert --box`{_same(image, labels)}"
            ", or write a configuration with labels_start, the voxel of the image at which the labels begin"
        )
    return orders


def _same(image: Volume, labels: Volume) -> str:
    """Return which boxes of both are the same place, if the labels state where they lie."""
    first, its = image.whole.offset or (0, 0, 0), labels.whole.offset
    shared = its and boxes.intersection((first, image.shape), (its, labels.shape))
    if not shared or its is None:
        return ""
    cut, other = (boxes.box_text((boxes.difference(shared[0], a), shared[1])) for a in (first, its))
    where = f", if the image begins at {first}" if image.whole.offset is None else ""
    return f" ({cut} of the image is {other} of the labels{where})"


def require_same_shape(image: Volume, labels: Volume) -> None:
    """Raise ShapeError unless labels have the shape of their image. The message says how to turn them."""
    if image.shape != labels.shape:
        order = orders_for(image, labels)[0]
        raise ShapeError(
            f"{labels.name}: labels have shape {labels.shape}, and the image {image.name} has {image.shape}: the axes"
            f" are in another order, store labels.transpose{order} (`floodtide inspect` finds which way they lie)"
        )


def require_same_size(what: str, a: Volume, b: Volume) -> None:
    """Raise ShapeError unless two volumes have the same voxel size, as far as both state one."""
    mine, other = a.whole.voxel_size_nm, b.whole.voxel_size_nm
    if mine is not None and other is not None and not same_size(mine, other):
        raise ShapeError(
            f"{what}: {a.name} has voxels of {size_text(mine)} nm ({a.whole.size_source}), {b.name} of"
            f" {size_text(other)} nm ({b.whole.size_source}), expected the same; `floodtide convert` resamples one"
            " (--resample-nm), or states another size (--voxel-nm)"
        )


def require_same_grid(what: str, other: Volume, image: Volume, start: Vec3 = (0, 0, 0)) -> None:
    """Raise ShapeError unless a volume lies on its image, as far as both state voxel size and first voxel.

    If only one of them states a place, a note says how they are laid on each other.

    Args:
        what: What the message begins with.
        start: Voxel (z, y, x) of the image at which the other volume shall begin.
    """
    require_same_size(what, other, image)
    first, its = other.whole.offset, image.whole.offset
    if first is not None and its is not None and boxes.difference(first, its) != start:
        raise ShapeError(
            f"{what}: {other.name} begins at voxel {first} ({other.whole.offset_source}), {image.name} at {its}"
            f" ({image.whole.offset_source}), expected {f'{start} voxels' if any(start) else 'no voxel'} between them"
        )
    note_place(what, other, image, start)


def note_place(what: str, other: Volume, image: Volume, start: Vec3 = (0, 0, 0)) -> None:
    """Note that a volume is laid on voxel `start` of an image if only one states a place, which says something else.

    Also if none states a place, and one lies inside the other: then nothing says where.
    """
    if other.text("image") == image.name:
        return  # a result of this image begins where it does
    first, its = other.whole.offset, image.whole.offset
    laid = f"the first voxel of {other.name} is laid on voxel {start} of {image.name}"
    if first is None and its is None:
        larger = {a > b for a, b in zip(other.shape, image.shape, strict=True) if a != b}
        if len(larger) == 1:
            mine, theirs = (" x ".join(map(str, one.shape)) for one in (other, image))
            notes.show(
                f"{what}: {other.name} has {mine} voxels and does not say where it lies in {image.name} ({theirs}):"
                f" {laid}"
            )
    elif None in (first, its) and boxes.difference(first or (0, 0, 0), its or (0, 0, 0)) != start:
        one, unplaced = (other, image) if its is None else (image, other)
        notes.show(
            f"{what}: {one.name} begins at voxel {one.whole.offset} ({one.whole.offset_source}), {unplaced.name} states"
            f" no place: {laid}"
        )


def name_of(volume: VolumeLike | NDArray[Any] | Source) -> str:
    """Return the name of a volume, empty for one that has none: what `files_of` takes to protect inputs."""
    if isinstance(volume, Volume):
        return volume.name
    return os.fspath(volume) if isinstance(volume, str | os.PathLike) else ""


def write_volume(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    *,
    voxel_size_nm: Sequence[float] | None = None,
    gzip: int = GZIP,
    command: str = "floodtide write_volume",
) -> None:
    """Write arrays as the datasets of an HDF5 file, in chunks of at most 64 voxels an axis.

    The file takes its name only when it is complete. If there is one already, its other datasets stay, and a dataset of
    a name in `arrays` is replaced only if the same `command` wrote it. `voxel_size_nm` (z, y, x) in nm is stated for
    arrays of three axes.

    Raises:
        StorageError: If it cannot be written.
        InvalidArgumentError: If an array is of an unusual type, or something else would be lost.
    """
    limits.GZIP.check(gzip, "write_volume: gzip")
    if voxel_size_nm is not None:
        limits.VOXEL_SIZE.check(voxel_size_nm, "write_volume: voxel_size_nm")
    if not isinstance(arrays, Mapping):
        what = type(arrays).__name__
        raise InvalidArgumentError(f"write_volume: arrays is {what}, expected {{dataset: array}}")
    given = {name: array_of(f"write_volume: {name}", array) for name, array in arrays.items()}
    with (
        reserved("write_volume", path, unchecked, wait_s=WAIT_S),
        hdf5_file(os.fspath(path), command, list(given)) as file,
    ):
        for name, array in sorted(given.items()):
            chunks = [min(n, CHUNK) for n in array.shape]
            file.create(name, array.dtype.name, array.shape, chunks, gzip)
            if voxel_size_nm is not None and array.ndim == 3:
                file.attribute(name, "resolution", np.array(voxel_size_nm, np.float64))
            file.write(name, [0] * array.ndim, np.ascontiguousarray(array))


def synth(
    shape: Vec3, *, seed: int = 0, progress: Progress | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return a synthetic electron-microscopy volume: (image, labels), both of `shape` (z, y, x) in voxels.

    Curved, branching processes of 8 to 30 voxels across are packed densely; membranes are dark, of
    uneven width and contrast; there are mitochondria, vesicles, noise and sections of uneven
    brightness. Ids count from 1; membranes are 0. Same arguments, same volume.

    Raises:
        InvalidArgumentError: If an extent is below 8 or above 4096.
    """
    limits.SYNTH_EXTENT.check(shape, "synth: shape")
    limits.SEED.check(seed, "synth: seed")
    return _core.data.synth(shape, seed, progress)
