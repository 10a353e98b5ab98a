# SPDX-License-Identifier: Apache-2.0
"""Volumes at another voxel size: images averaged or interpolated, labels by majority.

The grids share the first corner of the first voxel. Along each axis, voxel i of the new grid covers the old voxels from
i * r to (i + 1) * r, where r is the new voxel size divided by the old one.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits, reading
from floodtide.data.boxes import Box, Vec3, as_vec3, difference, of_slices
from floodtide.data.formats.geometry import Geometry, SizeNm, voxels_of
from floodtide.data.formats.writers import Plan
from floodtide.data.volumes import Volume
from floodtide.errors import InvalidArgumentError

_MOST_RATIO = 64.0  # between two voxel sizes
_FROM, _FROM_NM = "resampled_from", "resampled_from_voxel_nm"  # attributes of resampled volumes


class Resampled:
    """A volume at another voxel size, read in boxes.

    Args:
        voxel_size_nm: Its voxel size (z, y, x) in nm.
        new_voxel_size_nm: The voxel size to read it at.
        labels: True: a voxel gets the label that most of its sample points have (of equal counts, the smallest label).
            There are as many points along an axis as old voxels that a new voxel touches, rounded up. False: a voxel
            gets the mean of the old voxels that it covers, or, for smaller new voxels, a linear interpolation.
    """

    def __init__(
        self,
        volume: Volume,
        voxel_size_nm: Sequence[float],
        new_voxel_size_nm: Sequence[float],
        *,
        labels: bool = False,
    ) -> None:
        limits.VOXEL_SIZE.check(voxel_size_nm, "resample: voxel_size_nm")
        limits.VOXEL_SIZE.check(new_voxel_size_nm, "resample: new_voxel_size_nm")
        pairs = list(zip(voxel_size_nm, new_voxel_size_nm, strict=True))
        self.ratio = tuple(new / old for old, new in pairs)
        if any(not 1 / _MOST_RATIO <= r <= _MOST_RATIO for r in self.ratio):
            raise InvalidArgumentError(
                f"resample: from {list(voxel_size_nm)} to {list(new_voxel_size_nm)} nm, expected sizes that differ by"
                f" at most a factor of {_MOST_RATIO:g}"
            )
        self._volume = volume
        self._labels = labels
        self._old_nm = voxel_size_nm
        z, y, x = map(float, new_voxel_size_nm)
        self.voxel_size_nm: SizeNm = z, y, x
        self.shape = as_vec3(
            [max(1, round(n / r)) for n, r in zip(volume.shape, self.ratio, strict=True)]
        )
        self.dtype = volume.dtype
        extents = zip(volume.chunks, self.ratio, self.shape, strict=True)
        self.chunks = as_vec3([min(max(1, round(n / r)), whole) for n, r, whole in extents])

    def __getitem__(self, where: tuple[slice, slice, slice]) -> NDArray[Any]:
        """Return the new voxels of a box, so that `Volume` takes this as a volume."""
        return self.read(of_slices(where))

    def box_of(self, box: Box) -> Box:
        """Return the box of new voxels that covers a box of old ones."""
        start, end = [], []
        for a, n, r, whole in zip(*box, self.ratio, self.shape, strict=True):
            start.append(min(math.floor(a / r + 1e-9), whole - 1))
            end.append(min(max(math.ceil((a + n) / r - 1e-9), start[-1] + 1), whole))
        return as_vec3(start), difference(end, start)

    def old_box_of(self, box: Box) -> Box:
        """Return the box of old voxels for a box of new ones."""
        start, size = [], []
        for a, n, r, whole in zip(*box, self.ratio, self._volume.shape, strict=True):
            low = min(round(a * r), whole - 1)
            start.append(low)
            size.append(max(1, min(round((a + n) * r), whole) - low))
        return as_vec3(start), as_vec3(size)

    def read(self, box: Box) -> NDArray[Any]:
        """Return the new voxels of a box (start, size)."""
        axes = list(zip(*box, self.ratio, self._volume.shape, strict=True))
        weighted = [] if self._labels else [_weights(*axis) for axis in axes]
        points = [old for old, _ in weighted] or [_points(*axis) for axis in axes]
        low = as_vec3([int(p.min()) for p in points])
        size = as_vec3([int(p.max()) + 1 - a for p, a in zip(points, low, strict=True)])
        block = self._volume.read((low, size))
        if self._labels:
            return _majority(block, [p - a for p, a in zip(points, low, strict=True)], box[1])
        values = block.astype(np.float32 if block.dtype.itemsize <= 2 else np.float64)
        for axis, (old, weights) in enumerate(weighted):
            along = [-1 if axis == other else 1 for other in range(3)]
            values = sum(
                np.take(values, at, axis) * weight.astype(values.dtype).reshape(along)
                for at, weight in zip(old - low[axis], weights, strict=True)
            )
        if self.dtype.kind in "iu":
            known = np.iinfo(self.dtype)
            values = np.clip(np.rint(values), known.min, known.max)
        return np.ascontiguousarray(values).astype(self.dtype)

    def plan(self, old: Plan) -> Plan:
        """Return the plan that writes this volume instead of the original one."""
        begin = old.geometry.offset
        if begin is not None:
            exact = [n / r for n, r in zip(begin, self.ratio, strict=True)]
            begin = voxels_of(self._volume.name, exact, "its offset, resampled,")
        return dataclasses.replace(
            old,
            shape=self.shape,
            geometry=Geometry(voxel_size_nm=self.voxel_size_nm, offset=begin),
            notes={_FROM: self._volume.name, _FROM_NM: json.dumps(list(self._old_nm))},
        )


def original_of(volume: Volume) -> tuple[str, SizeNm] | None:
    """Return name and voxel size (z, y, x) of the volume from which `resample` made an HDF5 volume; None for others."""
    name = volume.text(_FROM)
    if not name:
        return None
    with reading.reading(volume.name, "the voxel size of the volume from which it was resampled"):
        z, y, x = (float(size) for size in json.loads(volume.text(_FROM_NM)))
    return name, (z, y, x)


def labels_at(labels: NDArray[Any], start: Vec3, ratio: Sequence[float], box: Box) -> NDArray[Any]:
    """Return labels of a new grid at the centres of the old voxels of a box: the way back from `Resampled`.

    Args:
        start: The first of them, in new voxels.
        ratio: New voxel size divided by the old one, for each axis.
    """
    indices = [
        np.clip(((np.arange(a, a + n) + 0.5) / r).astype(np.int64) - first, 0, extent - 1)
        for a, n, r, first, extent in zip(*box, ratio, start, labels.shape, strict=True)
    ]
    return labels[np.ix_(*indices)]


def _points(start: int, count: int, ratio: float, whole: int) -> NDArray[np.int64]:
    """Return the old voxels (count, points) at the sample points of new voxels along an axis."""
    points = max(1, math.ceil(ratio - 1e-9))
    inner = (np.arange(points) + 0.5) / points
    at = (np.arange(start, start + count)[:, None] + inner) * ratio
    return np.minimum(np.floor(at + 1e-9).astype(np.int64), whole - 1)


def _weights(
    start: int, count: int, ratio: float, whole: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the old voxels that make the new voxels from `start` along an axis, and their weights.

    Both are arrays (voxels of a new one, count). An old voxel of weight 0 is another one that is needed.
    """
    new = np.arange(start, start + count)
    if ratio >= 1:
        old = np.floor(new * ratio) + np.arange(math.ceil(ratio) + 1)[:, None]
        overlap = np.minimum((new + 1) * ratio, old + 1) - np.maximum(new * ratio, old)
        weights = np.maximum(overlap, 0.0)
    else:
        at = np.clip((new + 0.5) * ratio - 0.5, 0, whole - 1)
        old = np.floor(at) + np.arange(2)[:, None]
        weights = np.maximum(1.0 - np.abs(at - old), 0.0)
    weights[(old >= whole) | (weights < 1e-9)] = 0.0
    weights[0, weights.sum(axis=0) <= 0] = 1.0  # over the end, by rounding of the shape
    result: NDArray[np.float64] = weights / weights.sum(axis=0)
    used = np.minimum(old[weights > 0], whole - 1)
    return np.clip(old, used.min(), used.max()).astype(np.int64), result


def _majority(
    block: NDArray[Any], indices: Sequence[NDArray[np.int64]], size: Vec3
) -> NDArray[Any]:
    """Return the most frequent label at the sample points of each new voxel."""
    z, y, x = (index.shape[1] for index in indices)
    found = block[np.ix_(*(index.ravel() for index in indices))]
    found = found.reshape(size[0], z, size[1], y, size[2], x).transpose(0, 2, 4, 1, 3, 5)
    found = np.sort(found.reshape(*size, -1), axis=-1)
    best, most = found[..., 0].copy(), np.ones(size, np.int32)
    run = np.ones(size, np.int32)  # equal points up to the current one
    for before, label in itertools.pairwise(np.moveaxis(found, -1, 0)):
        run = np.where(label == before, run + 1, 1)
        better = run > most
        best[better], most[better] = label[better], run[better]
    return best
