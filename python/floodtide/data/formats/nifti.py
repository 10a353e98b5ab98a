# SPDX-License-Identifier: Apache-2.0
"""NIfTI files through nibabel. They store x fastest, and an affine that turns and shifts the axes.

A volume is read with x to the right, y to the front and z to the top of the body (RAS+), so that volumes of one body
that programs have stored in different orientations fit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.base.libraries import library
from floodtide.base.limits import require_decoded
from floodtide.base.reading import reason
from floodtide.data.boxes import Vec3
from floodtide.data.formats.conventions import stated_size
from floodtide.data.formats.geometry import SAME, Geometry, size_text, voxels_of
from floodtide.data.formats.readers import Opened, object_volume
from floodtide.errors import InvalidFileError

_STRAIGHT = 1e-3  # share of an axis that may lie along another one


def open_nifti(reference: str) -> Opened:
    """Open a file of one volume."""
    source = _File(reference)
    volume = object_volume(
        source, reference, chunks=(1, *source.shape[1:]), geometry=source.geometry, file=reference
    )
    return Opened(volume, source.geometry)


class _File:
    """A NIfTI file as an array (z, y, x). A compressed file is decoded whole."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._header: Any
        self._voxels: Any  # of nibabel; the array of a compressed file, after it was decoded
        self._open()
        header, sizes = self._header, list(self._voxels.shape)
        if len(sizes) < 3 or any(n != 1 for n in sizes[3:]):
            raise InvalidFileError(
                f"{path}: has {len(sizes)} axes, shape {tuple(sizes)} (x, y, z, ...); expected one volume (x, y, z)"
            )
        scale = self._voxels.slope, self._voxels.inter
        self._plain = scale == (1, 0)
        self.dtype = np.dtype(self._voxels.dtype if self._plain else np.float64)
        affine = header.get_best_affine() if _states_place(header) else None
        self._axes, self._turned = _orientation(path, affine)
        self.geometry = _geometry(path, header, affine, sizes, self._axes, self._turned)
        x, y, z = (sizes[axis] for axis in self._axes)
        self.shape: Vec3 = z, y, x
        if path.lower().endswith(".gz"):
            require_decoded(path, self.shape, self.dtype.itemsize)
            self._voxels = self._read(self._voxels, ())

    def _open(self) -> None:
        nibabel = library("nibabel", self._path, "formats")
        with _repairs_as_notes(self._path):
            try:
                file = nibabel.load(self._path, mmap=False)
            except Exception as error:
                raise InvalidFileError(
                    f"{self._path}: is no NIfTI file that can be read: {reason(error)}"
                ) from error
        if not isinstance(file, nibabel.Nifti1Pair):  # the class of NIfTI-2, too
            raise InvalidFileError(
                f"{self._path}: is a file of {type(file).__name__}, expected NIfTI"
            )
        self._header = file.header
        self._voxels = file.dataobj
        self._process = os.getpid()

    def _read(self, voxels: Any, index: tuple[slice, ...]) -> NDArray[Any]:
        read = np.asarray(voxels[index])
        return read if self._plain else read.astype(np.float64, copy=False)

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        if self._process != os.getpid() and not isinstance(self._voxels, np.ndarray):
            self._open()  # in a child of fork(), a thread of its parent may hold the lock of the file
        index = [slice(0, 1)] * self._voxels.ndim
        for part, axis, size in zip(box[::-1], self._axes, self.shape[::-1], strict=True):
            turned = slice(size - part.stop, size - part.start)
            index[axis] = turned if self._turned[axis] else part
        read = self._read(self._voxels, tuple(index)).reshape([s.stop - s.start for s in index[:3]])
        read = read[tuple(slice(None, None, -1 if turned else 1) for turned in self._turned)]
        return read.transpose(self._axes[::-1])


@contextmanager
def _repairs_as_notes(path: str) -> Iterator[None]:
    """Turn what nibabel logs about a header that it repairs into notes."""
    logger = logging.getLogger("nibabel.global")
    handler = logging.Handler()
    handler.emit = lambda record: notes.show(f"{path}: {record.getMessage()}")  # type: ignore[method-assign]
    kept, logger.handlers = logger.handlers, [handler]
    try:
        yield
    finally:
        logger.handlers = kept


def _states_place(header: Any) -> bool:
    return int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0


def _orientation(path: str, affine: NDArray[Any] | None) -> tuple[Vec3, tuple[bool, ...]]:
    """Return which axes of the file are x, y and z, and which axes of the file point the other way."""
    if affine is None:
        return (0, 1, 2), (False,) * 3
    nibabel = library("nibabel", path, "formats")
    try:
        found = nibabel.io_orientation(affine)
    except np.linalg.LinAlgError:  # of numbers that are not finite
        found = np.full((3, 2), np.nan)
    if not np.isfinite(found).all():
        raise InvalidFileError(
            f"{path}: its affine is {affine.tolist()}, expected three directions"
        )
    to = [int(n) for n in found[:, 0]]
    names = "".join(nibabel.aff2axcodes(affine))
    if names != "RAS":
        notes.show(
            f"{path}: its axes point to {names}; it is read as RAS (x right, y front, z top)"
        )
    return (to.index(0), to.index(1), to.index(2)), tuple(sign < 0 for sign in found[:, 1])


def _geometry(
    path: str,
    header: Any,
    affine: NDArray[Any] | None,
    sizes: list[int],
    axes: Vec3,
    turned: tuple[bool, ...],
) -> Geometry:
    """Return voxel size and offset that the affine states, or the voxel size of the header without one."""
    # The header has numbers of 32 bits: 0.008, and not 0.00800000037997961.
    edges = [float(str(n)) for n in header.get_zooms()[:3]]
    corner = None
    if affine is not None:
        matrix = affine[:3, :3]
        lengths = np.sqrt((matrix**2).sum(axis=0))
        if not np.allclose(lengths, edges, rtol=SAME, atol=0):
            notes.show(
                f"{path}: pixdim states edges of {size_text(edges)}, its affine of {size_text(lengths.tolist())} (x, y,"
                " z): the affine is used"
            )
            edges = [float(f"{n:.7g}") for n in lengths]
        directions = matrix / lengths
        if np.abs(np.abs(directions).max(axis=0) - 1).max() > _STRAIGHT:
            notes.show(
                f"{path}: its affine turns the axes by other angles than right ones: the nearest axes are taken, and"
                " its position is not used"
            )
        else:
            first = [n - 1 if back else 0 for n, back in zip(sizes, turned, strict=False)]
            corner = affine[:3, 3] + matrix @ first
    unit = header.get_xyzt_units()[0]
    x, y, z = (edges[axis] for axis in axes)
    source = "its affine" if affine is not None else "pixdim"
    size = stated_size(path, source, (z, y, x), ["" if unit == "unknown" else unit] * 3)
    offset = None
    if corner is not None:
        offset = voxels_of(path, [float(n) for n in corner[::-1] / (z, y, x)], "its affine")
    return Geometry(
        voxel_size_nm=size, offset=offset, size_source=source, offset_source="its affine"
    )
