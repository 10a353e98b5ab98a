# SPDX-License-Identifier: Apache-2.0
"""Voxels near a border of objects, whose label the CREMI challenge does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def near_border(labels: NDArray[np.integer[Any]], reach: Sequence[float]) -> NDArray[np.bool_]:
    """Return True for each voxel (z, y, x) at most `reach` voxels (along y, x) from a border in its section.

    A border voxel has another label than one of its four neighbours in the section. Label 0 is a label, too.
    Source: `create_border_mask` of cremi_python, with the same sums and roots, for a distance of `reach[1]` voxels.
    """
    near = np.zeros(labels.shape, np.bool_)
    ny, nx = labels.shape[1:]
    ratio = reach[1] / reach[0]  # edges of a voxel along y and x
    rows = np.arange(min(int(reach[0]), ny - 1) + 1)
    columns = np.arange(min(int(reach[1]), nx - 1) + 1)
    distances = np.sqrt((rows[:, None] * ratio) ** 2 + columns**2)
    widths = np.count_nonzero(distances <= reach[1], axis=1) - 1  # -1: none, by rounding
    for section, out in zip(labels, near, strict=True):
        along = _along_x(section)
        for row, width in enumerate(widths.tolist()):
            out[row:] |= along[: ny - row] <= width
            out[: ny - row] |= along[row:] <= width
    return near


def _along_x(section: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Return the distance along x from each voxel (y, x) to the nearest border voxel of its row; large: none."""
    border = np.zeros(section.shape, np.bool_)
    for one, other in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        differs = section[one] != section[other]
        border[one] |= differs
        border[other] |= differs
    x, far = np.arange(section.shape[1], dtype=np.int32), np.int32(1 << 30)
    before = np.maximum.accumulate(np.where(border, x, -far), axis=1)
    behind = np.minimum.accumulate(np.where(border, x, far)[:, ::-1], axis=1)[:, ::-1]
    nearest: NDArray[np.int32] = np.minimum(x - before, behind - x)
    return nearest
