# SPDX-License-Identifier: Apache-2.0
"""Labels with a boundary between objects that touch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import as_vec3
from floodtide.data.volumes import Volume


class Eroded:
    """Labels in which voxels near another object are 0, read in boxes.

    A network cannot learn a membrane that labels give to the objects on its two sides: it needs voxels between them.
    Where objects do not touch, nothing changes. Source: funkelab/gunpowder, GrowBoundary, which also erodes objects
    beside voxels of label 0.

    Args:
        volume: Integer labels (z, y, x); 0 and below: no object.
        steps: Distance in voxels, counted in faces, within which an object keeps away from the face to another one.

    Attributes:
        shape, dtype, chunks: Those of the labels.
    """

    def __init__(self, volume: Volume, steps: int) -> None:
        self._volume, self._steps = volume, steps
        self.shape, self.dtype, self.chunks = volume.shape, volume.dtype, volume.chunks

    def __getitem__(self, where: tuple[slice, slice, slice]) -> NDArray[Any]:
        """Return the labels of a box."""
        low = [max(0, part.start - self._steps) for part in where]
        high = [min(n, s.stop + self._steps) for n, s in zip(self.shape, where, strict=True)]
        labels = self._volume.read(
            (as_vec3(low), as_vec3([b - a for a, b in zip(low, high, strict=True)]))
        )
        near = _beside_another(labels)
        for _ in range(self._steps - 1):
            near = _with_neighbours(near)
        labels = np.where(near & (labels > 0), labels.dtype.type(0), labels)
        z, y, x = (slice(s.start - a, s.stop - a) for s, a in zip(where, low, strict=True))
        return np.ascontiguousarray(labels[z, y, x])


def _faces(axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the indices of the voxels on both sides of each face along an axis."""
    before, after = [slice(None)] * 3, [slice(None)] * 3
    before[axis], after[axis] = slice(0, -1), slice(1, None)
    return tuple(before), tuple(after)


def _beside_another(labels: NDArray[Any]) -> NDArray[np.bool_]:
    near = np.zeros(labels.shape, bool)
    for axis in range(3):
        before, after = _faces(axis)
        a, b = labels[before], labels[after]
        other = (a != b) & (a > 0) & (b > 0)
        near[before] |= other
        near[after] |= other
    return near


def _with_neighbours(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    grown = mask.copy()
    for axis in range(3):
        before, after = _faces(axis)
        grown[before] |= mask[after]
        grown[after] |= mask[before]
    return grown
