# SPDX-License-Identifier: Apache-2.0
"""Voxels near a border of objects, whose label the CREMI challenge does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def near_border(labels: NDArray[np.integer[Any]], reach: Sequence[float]) -> NDArray[np.bool_]:
    """Return True for each voxel (z, y, x) at most `reach` voxels (along y, x) from a border in its section.

    A border voxel's label differs from the label of at least one of its four neighbours in the section. Label 0 counts.
    Source: `create_border_mask` of cremi_python, with the same sums and roots, for a distance of `reach[1]` voxels.
    """
    near = np.zeros(labels.shape, np.bool_)
    ny, nx = labels.shape[1:]
    ratio = reach[1] / reach[0]  # edges of a voxel along y and x
    rows = np.arange(min(int(reach[0]), ny - 1) + 1)
    columns = np.arange(min(int(reach[1]), nx - 1) + 1)
    distances = np.sqrt((rows[:, None] * ratio) ** 2 + columns**2)
    widths = np.count_nonzero(distances <= reach[1], axis=1) - 1  # -1: none, by rounding
    x, far = np.arange(nx, dtype=np.int32), np.int32(1 << 30)
    for section, out in zip(labels, near, strict=True):
        border = np.zeros(section.shape, np.bool_)
        for one, other in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
            differs = section[one] != section[other]
            border[one] |= differs
            border[other] |= differs
        before = np.maximum.accumulate(np.where(border, x, -far), axis=1)
        behind = np.minimum.accumulate(np.where(border, x, far)[:, ::-1], axis=1)[:, ::-1]
        along = np.minimum(x - before, behind - x)  # to the nearest border voxel of the row
        for row, width in enumerate(widths.tolist()):
            out[row:] |= along[: ny - row] <= width
            out[: ny - row] |= along[row:] <= width
    return near
