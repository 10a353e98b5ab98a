# SPDX-License-Identifier: Apache-2.0
"""Affinities to segments: a mutex watershed, or mean-affinity agglomeration, by the libraries of the field."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits, reading
from floodtide.base.files import path_and_dataset
from floodtide.base.libraries import library
from floodtide.base.options import Checked, option
from floodtide.data import Box, Vec3
from floodtide.data.affinities import NEAREST
from floodtide.data.boxes import as_vec3, box_text, intersection
from floodtide.data.formats.geometry import Geometry, is_triple
from floodtide.data.formats.hdf5 import open_dataset
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.volumes import whole_geometry
from floodtide.errors import (
    InvalidArgumentError,
    InvalidFileError,
    OutOfRangeError,
    ShapeError,
)

Affinities = NDArray[np.floating[Any]]

METHODS = ("mutex", "mean")
_BYTES_PER_AFFINITY = 60  # of the mutex watershed: shifted affinities and sorted edges
_BYTES_PER_VOXEL = 40
_BEYOND = 1e-3  # that rounding may add to affinities


@dataclass(frozen=True, kw_only=True)
class AffinityOptions(Checked):
    """How affinities become segments."""

    method: str = option(
        "mean",
        "`mutex`: mutex watershed of all offsets (mwatershed); `mean`: watershed of the nearest neighbours and"
        " agglomeration by mean affinity (waterz)",
        choices=METHODS,
    )
    threshold: float = option(
        0.5,
        "For mean: segments are merged while the mean affinity between them is above this. For mutex: an affinity of"
        " nearest neighbours above this attracts, one below it repels",
        range=limits.FRACTION,
    )
    far_bias: float = option(
        0.5, "For mutex: the threshold of all other offsets", range=limits.FRACTION
    )
    stride: int = option(
        2,
        "For mutex: far offsets start at every n-th voxel along each axis only, because all would split objects",
        range=limits.STRIDE,
    )
    background: float = option(
        0.0,
        "Voxels whose mean affinity to their nearest neighbours is below this are in no segment",
        range=limits.FRACTION,
    )
    min_size: int = option(100, "Smaller segments, in voxels, are removed", range=limits.VOXELS)


class AffinityFile:
    """Affinities in an HDF5 file, (offsets, z, y, x) of float32, or of uint8 from 0 to 255.

    Attributes:
        name: "file:dataset".
        box: (start, size) of the box to segment, in voxels of the image.
        offsets: Offsets (z, y, x) of the affinities.
        voxel_size_nm: Voxel size (z, y, x) that the file states; None: none.

    Args:
        name: "file:dataset", as `floodtide predict` writes it.
        offsets: The offsets, for a file that does not state them in the attribute `offsets`.
        box: Only this box, in voxels of the image; None: all.

    Raises:
        InvalidFileError: If the file cannot be read, or its offsets do not fit the data.
        InvalidArgumentError: If the name is not file:dataset, or no offsets are known.
        OutOfRangeError: If the box is not inside the affinities.
    """

    def __init__(
        self, name: str, offsets: Sequence[Sequence[int]] | None = None, box: Box | None = None
    ) -> None:
        self.name = name
        self._arguments = (name, offsets, box)  # for pickle and copy
        if format_of(name) is not HDF5:
            raise InvalidArgumentError(f"{name}: expected affinities in FILE.h5:DATASET")
        self._channels = _core.data.Channels(*path_and_dataset(name))
        count, z, y, x = self._channels.shape
        geometry = self._geometry()
        self._start = geometry.offset or (0, 0, 0)
        self.box: Box = box or (self._start, (z, y, x))
        if intersection(self.box, (self._start, (z, y, x))) != self.box:
            raise OutOfRangeError(
                f"{name}: box {box_text(self.box)} is not inside the affinities, {box_text((self._start, (z, y, x)))}"
            )
        self.image: str = self._channels.text("image")
        self.voxel_size_nm = whole_geometry(geometry, self.image).voxel_size_nm
        text = self._channels.text("offsets")
        if text:
            with reading.reading(name, "the offsets of affinities, a list of [z, y, x]"):
                offsets = [[int(step) for step in row] for row in json.loads(text)]
        if offsets is None:
            raise InvalidArgumentError(
                f"{name}: has no attribute `offsets`, and none are given; expected the offsets [z, y, x] of its {count}"
                " channels"
            )
        self.offsets: tuple[Vec3, ...] = tuple(as_vec3(row) for row in offsets)
        if len(self.offsets) != count or (0, 0, 0) in self.offsets:
            raise InvalidFileError(
                f"{name}: {count} channels and offsets {list(self.offsets)}, expected one for each channel, not 0"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to open the file again."""
        return AffinityFile, self._arguments

    def _geometry(self) -> Geometry:
        size = self._channels.numbers("resolution")
        if size is not None and not (is_triple(size) and min(size) > 0):
            raise InvalidFileError(
                f"{self.name}: attribute resolution is {size}, expected three positive numbers (z, y, x) in nm"
            )
        found = open_dataset(*path_and_dataset(self.name), 0)
        if not found.plain:
            raise InvalidFileError(
                f"{self.name}: names its axes in another order, expected offsets, z, y, x: transpose it first"
            )
        return found.geometry

    def read(self, box: Box) -> NDArray[np.float32]:
        """Return the affinities (offsets, z, y, x) of a box, in voxels of the image."""
        start = [a - b for a, b in zip(box[0], self._start, strict=True)]
        values: NDArray[np.float32] = self._channels.read(start, box[1])
        _require_range(self.name, values)
        return values


def segments_of(
    affinities: Affinities, offsets: Sequence[Vec3], options: AffinityOptions | None = None
) -> NDArray[np.uint64]:
    """Return the segments of affinities, uint64 (z, y, x) from 1, in the order of their first voxels; 0 is background.

    Args:
        affinities: (offsets, z, y, x), from 0 (different objects) to 1 (same object). The affinity of a voxel for an
            offset is that of the voxel and the one at the offset.
        offsets: Offsets (z, y, x).
        options: The method and its parameters; None: the defaults.

    Raises:
        ShapeError: If there is not one offset for each channel.
        InvalidArgumentError: If an affinity is not from 0 to 1, or the method lacks an offset.
        UnsupportedError: If the library of the method is not installed.
    """
    options = options or AffinityOptions()
    if affinities.ndim != 4 or len(affinities) != len(offsets):
        raise ShapeError(
            f"agglomerate: affinities of shape {affinities.shape} and {len(offsets)} offsets, expected"
            " (offsets, z, y, x)"
        )
    _require_range("agglomerate", affinities)
    _require_memory(affinities.shape)
    make = {"mean": _mean, "mutex": _mutex}[options.method]
    labels = make(affinities, offsets, options)
    if options.background > 0:
        nearest = affinities[_nearest(offsets, "background")]
        labels[nearest.mean(axis=0) < options.background] = 0
    return _numbered(labels, options.min_size)


def _require_range(name: str, affinities: Affinities) -> None:
    """Refuse values that are no affinities from 0 to 1: numbers of 8 bits as floats, or logits."""
    if affinities.size == 0:
        return
    lowest, highest = float(affinities.min()), float(affinities.max())
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        raise InvalidArgumentError(f"{name}: an affinity is not a finite number")
    if lowest >= -_BEYOND and highest <= 1 + _BEYOND:
        return
    hint = "divide them by 255" if lowest >= 0 and highest <= 255 else "apply the sigmoid to logits"
    raise InvalidArgumentError(
        f"{name}: affinities reach from {lowest:.4g} to {highest:.4g}, expected 0 to 1: {hint}"
    )


def _mutex(
    affinities: Affinities, offsets: Sequence[Vec3], options: AffinityOptions
) -> NDArray[np.uint64]:
    mwatershed = library("mwatershed", "agglomerate", "affinities")
    is_near = [sum(map(abs, offset)) == 1 for offset in offsets]
    biases = np.array([options.threshold if near else options.far_bias for near in is_near])
    shifted = affinities.astype(np.float64) - biases[:, None, None, None]
    strides = [[1 if near else options.stride] * 3 for near in is_near]
    labels: NDArray[np.uint64] = mwatershed.agglom(
        shifted, [list(o) for o in offsets], strides=strides
    )
    return labels


def _mean(
    affinities: Affinities, offsets: Sequence[Vec3], options: AffinityOptions
) -> NDArray[np.uint64]:
    waterz = library("waterz", "agglomerate", "affinities")
    nearest = affinities[_nearest(offsets, "the method mean")]
    values = np.ascontiguousarray(nearest, dtype=np.float32)
    # waterz merges while 1 - mean affinity is below its threshold, and tells standard output about it.
    with _silent():
        (labels,) = (
            found.copy() for found in waterz.agglomerate(values, [1.0 - options.threshold])
        )
    return labels  # type: ignore[no-any-return]


def _nearest(offsets: Sequence[Vec3], what: str) -> list[int]:
    """Return the channels of the nearest neighbours along z, y and x."""
    missing = [offset for offset in NEAREST if offset not in offsets]
    if missing:
        raise InvalidArgumentError(
            f"agglomerate: {what} needs the offsets {list(NEAREST)}, of which {missing} are not there"
        )
    return [list(offsets).index(offset) for offset in NEAREST]


def _numbered(labels: NDArray[np.uint64], min_size: int) -> NDArray[np.uint64]:
    """Return the labels without small segments, numbered from 1 in the order of their first voxels."""
    ids, first, place, sizes = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    kept = (ids > 0) & (sizes >= min_size)
    numbers = np.zeros(len(ids), np.uint64)
    order = np.flatnonzero(kept)[np.argsort(first[kept])]
    numbers[order] = np.arange(1, len(order) + 1)
    return numbers[place].reshape(labels.shape)


def _require_memory(shape: Sequence[int]) -> None:
    voxels = math.prod(shape[1:])
    limits.require_memory(
        f"agglomerate: {' x '.join(map(str, shape[1:]))} voxels with {shape[0]} offsets need",
        (_BYTES_PER_AFFINITY * shape[0] + _BYTES_PER_VOXEL) * voxels,
        "subvolumes (--subvolume)",
    )


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what a library writes to standard output, from Python or native code, from being seen."""
    sys.stdout.flush()
    flush = ctypes.CDLL(None).fflush  # of C, which native code's output goes through
    flush(None)
    saved = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        flush(None)
        os.dup2(saved, 1)
        os.close(nowhere)
        os.close(saved)
