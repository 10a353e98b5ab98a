# SPDX-License-Identifier: Apache-2.0
"""Labels with a boundary between objects that touch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data import no_label
from floodtide.data.boxes import Vec3, grown, of_slices, slices
from floodtide.data.volumes import Volume


class Eroded:
    """Labels in which voxels near another object are 0, read in boxes.

    A network cannot learn a membrane that labels give to the objects on its two sides: it needs voxels between them.
    Where objects do not touch, nothing changes. Source: funkelab/gunpowder, GrowBoundary, which also erodes objects
    beside voxels of label 0.

    Args:
        volume: Integer labels (z, y, x); 0, negative values and the largest of 32 and 64 bits: no object.
        steps: Voxels (z, y, x) along each axis within which an object keeps away from a face to another one.

    Attributes:
        shape, dtype, chunks: Those of the labels.
    """

    def __init__(self, volume: Volume, steps: Vec3) -> None:
        self._volume, self._steps = volume, steps
        self.shape, self.dtype, self.chunks = volume.shape, volume.dtype, volume.chunks

    def __getitem__(self, where: tuple[slice, slice, slice]) -> NDArray[Any]:
        """Return the labels of a box."""
        box = of_slices(where)
        around = grown(box, self._steps, self.shape)
        labels = self._volume.read(around)
        known = no_label.cleared(labels)
        near = np.zeros(labels.shape, bool)
        for axis, steps in enumerate(self._steps):
            near |= _near_another(known, axis, steps)
        labels = np.where(near & (known > 0), labels.dtype.type(0), labels)
        return np.ascontiguousarray(labels[slices(box, around[0])])


def _near_another(labels: NDArray[Any], axis: int, steps: int) -> NDArray[np.bool_]:
    """Return the voxels within `steps` voxels along an axis of a face between two objects."""
    lines = np.moveaxis(labels, axis, 0)
    a, b = lines[:-1], lines[1:]
    faces = (a != b) & (a > 0) & (b > 0)
    near = np.zeros(lines.shape, bool)
    for step in range(min(steps, len(faces))):
        near[: len(faces) - step] |= faces[step:]
        near[1 + step :] |= faces[: len(faces) - step]
    return np.moveaxis(near, 0, axis)
