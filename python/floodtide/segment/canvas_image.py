# SPDX-License-Identifier: Apache-2.0
"""The part of an image that is flooded, and positions and labels in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3
from floodtide.data.no_label import cleared
from floodtide.errors import InvalidArgumentError, OutOfRangeError, ShapeError

Image = NDArray[Any] | Volume

BYTES_PER_VOXEL = 20
"""Memory (bytes) for each voxel of a box: stored image, normalised image, canvas, labels and seeds."""


class CanvasImage(NamedTuple):
    """A box of an image, with a halo of reflected voxels at the faces of the volume."""

    voxels: NDArray[np.float32]  # (z, y, x), with the halo
    start: Vec3  # first voxel of the box, in voxels of the volume
    halo_low: Vec3
    halo_high: Vec3
    offset: Vec3 | None = None  # first voxel of the volume, as its file states it

    @property
    def inner(self) -> Vec3:
        """Return the size (z, y, x) of the box, without the halo."""
        return difference(difference(self.voxels.shape, self.halo_low), self.halo_high)


def total(a: Sequence[int], b: Sequence[int]) -> Vec3:
    z, y, x = (i + j for i, j in zip(a, b, strict=True))
    return z, y, x


def difference(a: Sequence[int], b: Sequence[int]) -> Vec3:
    z, y, x = (i - j for i, j in zip(a, b, strict=True))
    return z, y, x


def halo(box: Box, volume_shape: Sequence[int], margin: Sequence[int]) -> tuple[Vec3, Vec3]:
    """Return how many voxels `read_image` reflects at the low and at the high faces of a box."""
    start, size = box
    ends = total(start, size)
    low = as_vec3([n if a == 0 else 0 for n, a in zip(margin, start, strict=True)])
    high = as_vec3([n if b == m else 0 for n, b, m in zip(margin, ends, volume_shape, strict=True)])
    return low, high


def read_image(volume: Image, box: Box | None, margin: Sequence[int]) -> CanvasImage:
    """Read a box as float32, and reflect `margin` voxels at each of its faces that is a face of the volume."""
    if not isinstance(volume, Volume):
        volume = np.asarray(volume)
        if volume.ndim != 3:
            raise ShapeError(f"segment: image has {volume.ndim} axes, expected 3 (z, y, x)")
    start, size = ((0, 0, 0), as_vec3(volume.shape)) if box is None else box
    ends = total(start, size)
    low, high = halo((start, size), volume.shape, margin)
    limits.require_memory(
        f"segment: {' x '.join(map(str, size))} voxels need",
        BYTES_PER_VOXEL * math.prod(total(total(low, size), high)),
        "a smaller box",
    )
    if isinstance(volume, Volume):
        voxels = volume.read(box)
    elif min(start) < 0 or any(b > n for b, n in zip(ends, volume.shape, strict=True)):
        raise OutOfRangeError(
            f"segment: box {box} (start, size) is not inside a volume of {volume.shape}"
        )
    else:
        voxels = volume[tuple(slice(a, b) for a, b in zip(start, ends, strict=True))]
    if max(low + high) > 0:
        voxels = np.pad(voxels, list(zip(low, high, strict=True)), mode="reflect")
    offset = volume.geometry.offset if isinstance(volume, Volume) else None
    return CanvasImage(as_float32(voxels), start, low, high, offset)


def as_float32(voxels: NDArray[Any]) -> NDArray[np.float32]:
    """Return voxels as the core reads them. Numbers beyond float32 become infinite, which the core refuses."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(voxels, dtype=np.float32)


def read_labels(
    labels: Image, what: str, volume_shape: Sequence[int], image: CanvasImage
) -> NDArray[np.integer[Any]]:
    """Return the labels of a volume in the box of an image, without the halo. Voxels without a label are 0.

    Raises:
        ShapeError: If the labels do not cover the box.
        InvalidArgumentError: If they are not integers.
    """
    values = read_part(labels, what, volume_shape, image)
    if not np.issubdtype(values.dtype, np.integer):
        raise InvalidArgumentError(f"segment: {what} holds {values.dtype}, expected integers")
    return cleared(values, what)


def read_part(
    labels: Image, what: str, volume_shape: Sequence[int], image: CanvasImage
) -> NDArray[Any]:
    """Return the voxels of another volume in the box of an image, without the halo.

    Args:
        labels: An array or volume that covers the box. A volume without offset begins where the image begins.
        what: Name of the volume in messages: "the mask".
        volume_shape: Size of the volume that has the image.
        image: The box.

    Raises:
        ShapeError: If the volume does not cover the box.
    """
    offset = placed(labels, volume_shape, image.offset)
    size = image.inner
    start = difference(image.start, offset)
    ends = total(start, size)
    if min(start) < 0 or any(b > n for b, n in zip(ends, labels.shape, strict=True)):
        raise ShapeError(
            f"segment: {what} has {labels.shape} voxels from {offset}, expected one that covers {size} from"
            f" {image.start}"
        )
    if isinstance(labels, Volume):
        return labels.read((start, size))
    return labels[tuple(slice(a, b) for a, b in zip(start, ends, strict=True))]


def without_halo(image: CanvasImage) -> NDArray[np.float32]:
    """Return the voxels of the box, a view."""
    ends = difference(image.voxels.shape, image.halo_high)
    return image.voxels[tuple(slice(a, b) for a, b in zip(image.halo_low, ends, strict=True))]


def with_halo(part: NDArray[Any], image: CanvasImage) -> NDArray[Any]:
    """Return voxels of the box with the reflected halo of an image."""
    halo = list(zip(image.halo_low, image.halo_high, strict=True))
    return np.ascontiguousarray(np.pad(part, halo, mode="reflect"))


def placed(labels: Image, volume_shape: Sequence[int], image_offset: Vec3 | None) -> Vec3:
    """Return the first voxel of labels, in voxels of the volume of this shape.

    Without an offset, labels begin where the volume begins. An offset counts from where that of the volume does. If the
    volume states none, or the labels are a result of floodtide, an offset counts from the first voxel of the volume.
    """
    offset = labels.geometry.offset if isinstance(labels, Volume) else None
    if isinstance(labels, Volume) and offset is not None and image_offset is not None:
        return offset if labels.text("image") else difference(offset, image_offset)
    return (0, 0, 0) if offset is None or labels.shape == tuple(volume_shape) else offset


def place_seeds(
    seeds: NDArray[np.integer[Any]] | Sequence[Sequence[int]],
    image: CanvasImage,
    fov: Sequence[int],
) -> NDArray[np.int64]:
    """Return the seeds (n, 3), given in voxels of the volume, in voxels of the canvas, where a field of view fits.

    Raises:
        InvalidArgumentError: If they are not rows of three integers.
    """
    rows = np.asarray(seeds)
    if rows.size == 0:
        return np.zeros((0, 3), np.int64)
    if rows.ndim != 2 or rows.shape[1] != 3 or not np.issubdtype(rows.dtype, np.integer):
        raise InvalidArgumentError(
            f"segment: seeds of shape {rows.shape} and type {rows.dtype}, expected integers (n, 3) of z, y, x"
        )
    local = rows.astype(np.int64) - difference(image.start, image.halo_low)
    margin = np.array(fov) // 2
    fits = (local >= margin) & (local + margin < image.voxels.shape)
    return np.ascontiguousarray(local[fits.all(axis=1)])
