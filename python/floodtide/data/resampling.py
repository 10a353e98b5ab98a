# SPDX-License-Identifier: Apache-2.0
"""Volumes at another voxel size: images averaged or interpolated, labels elected with the same weights.

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
_ROUNDING = 1e-9  # of a sum of weights
_AT_ONCE = 1 << 21  # old voxels of new ones that are looked at together, to save memory
_Axis = tuple[NDArray[np.int64], NDArray[np.float64]]
_FROM, _FROM_NM = "resampled_from", "resampled_from_voxel_nm"  # attributes of resampled volumes


class Resampled:
    """A volume at another voxel size, read in boxes.

    Args:
        voxel_size_nm: Its voxel size (z, y, x) in nm.
        new_voxel_size_nm: The voxel size to read it at.
        labels: False: a voxel gets the mean of the old voxels that it covers, or, for smaller new voxels, a linear
            interpolation. True: a voxel gets the label whose old voxels have the largest sum of weights in this mean
            or interpolation; of equal sums, the smallest label.
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
        weighted = [_weights(*axis) for axis in axes]
        low = as_vec3([int(old.min()) for old, _ in weighted])
        ends = [int(old.max()) + 1 for old, _ in weighted]
        block = self._volume.read((low, difference(ends, low)))
        if self._labels:
            return _elected(block, low, weighted)
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
    """Return labels of a part of a new grid at the old voxels of a box: the way back from `Resampled`, by its rule.

    Args:
        start: The first of them, in new voxels.
        ratio: New voxel size divided by the old one, for each axis.
    """
    axes = zip(*box, ratio, start, labels.shape, strict=True)
    weighted = [_weights(a, n, 1 / r, first + extent) for a, n, r, first, extent in axes]
    return _elected(labels, start, weighted)


def _weights(start: int, count: int, ratio: float, whole: int) -> _Axis:
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
    needed = weights.any(axis=1)
    return np.clip(old[needed], used.min(), used.max()).astype(np.int64), result[needed]


def _elected(block: NDArray[Any], start: Vec3, weighted: Sequence[_Axis]) -> NDArray[Any]:
    """Return the label with the largest sum of weights at each new voxel; of equal sums, the smallest label.

    `block` has the old voxels from `start`; its faces continue. `weighted` is what `_weights` returns for each axis.
    """
    pairs = zip(weighted, start, strict=True)
    z, y, x = ((np.maximum(old.T - low, 0), w.T) for (old, w), low in pairs)
    shape, counts = zip(*(old.shape for old, _ in (z, y, x)), strict=True)
    points = math.prod(counts)
    rows = max(1, _AT_ONCE // (points * shape[2]))
    steps = max(1, rows // shape[1]), min(rows, shape[1])
    result = np.empty(shape, block.dtype)
    for corner in itertools.product(range(0, shape[0], steps[0]), range(0, shape[1], steps[1])):
        at = tuple(slice(low, low + step) for low, step in zip(corner, steps, strict=True))
        axes = [*((old[s], w[s]) for (old, w), s in zip((z, y), at, strict=True)), x]
        found = block[np.ix_(*(old.ravel() for old, _ in axes))]
        found = found.reshape([n for old, _ in axes for n in old.shape])
        labels = found.transpose(0, 2, 4, 1, 3, 5).reshape(-1, points)
        weights = np.einsum("au,bv,cw->abcuvw", *(w for _, w in axes)).reshape(-1, points)
        best = np.take_along_axis(labels, weights.argmax(axis=1)[:, None], 1)
        sure = np.einsum("np,np->n", weights, labels == best) > 0.5 + _ROUNDING
        best[~sure, 0] = _of_largest_sum(labels[~sure], weights[~sure])
        result[at] = best.reshape([len(old) for old, _ in axes])
    return result


def _of_largest_sum(labels: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[Any]:
    """Return the label with the largest sum of weights in each row; of equal sums, the smallest label."""
    order = labels.argsort(axis=1)
    labels, weights = (np.take_along_axis(one, order, 1) for one in (labels, weights))
    first = np.ones(labels.shape, np.bool_)  # of equal labels in a row
    first[:, 1:] = labels[:, 1:] != labels[:, :-1]
    row = first.nonzero()[0]
    sums = np.add.reduceat(weights.ravel(), np.flatnonzero(first))
    largest = np.maximum.reduceat(sums, np.flatnonzero(np.diff(row, prepend=-1)))
    winners = sums >= largest[row] - _ROUNDING
    return labels[first][winners][np.unique(row[winners], return_index=True)[1]]
