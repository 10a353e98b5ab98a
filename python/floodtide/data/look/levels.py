# SPDX-License-Identifier: Apache-2.0
"""Grey levels of an image: how often each occurs, and which are padding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data.look.sampling import Array

_PADDED = 0.05  # share of one grey level above which it may be padding
_PEAK = 10.0  # times the share of the levels beside it
_BESIDE = 3  # levels on each side that are compared
_KEPT = 1 << 22  # floating-point grey levels that are kept


class GreyLevels:
    """Counts of the grey levels of sampled voxels: exact for integers of at most 16 bits, else of a subset.

    Args:
        dtype: Type of the voxels.
        total: Number of voxels that will be added.
    """

    def __init__(self, dtype: np.dtype[Any], total: int) -> None:
        self._range = np.iinfo(dtype) if dtype.kind in "iu" else None
        self._counts = np.zeros(0 if self._range is None else 1 << self._range.bits, np.int64)
        self._step = -(-total // _KEPT)
        self._kept: list[NDArray[np.float64]] = []

    def add(self, voxels: Array) -> None:
        """Add voxels of any shape."""
        flat = voxels.reshape(-1)
        if self._range is None:
            self._kept.append(flat[:: self._step].astype(np.float64))
            return
        least = int(self._range.min)
        shifted = flat.astype(np.int64) - least if least else flat
        self._counts += np.bincount(shifted, minlength=len(self._counts))

    def table(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the occurring grey levels in ascending order, and their counts."""
        if self._range is not None:
            at = np.flatnonzero(self._counts)
            return (at + int(self._range.min)).astype(np.float64), self._counts[at]
        values, counts = np.unique(np.concatenate(self._kept), return_counts=True)
        return values, counts.astype(np.int64)

    def moments(self) -> tuple[int, float, float]:
        """Return the number of voxels, their mean and their standard deviation."""
        values, counts = self.table()
        n = int(counts.sum())
        mean = float(np.dot(values, counts) / n)
        return n, mean, float(np.sqrt(np.dot((values - mean) ** 2, counts) / n))

    def clipped(self) -> tuple[float, float]:
        """Return the shares of voxels at the lowest and the highest value that the type can hold.

        For floating-point types: at the lowest and the highest value that occurs.
        """
        values, counts = self.table()
        ends = (
            (values[0], values[-1]) if self._range is None else (self._range.min, self._range.max)
        )
        low, high = (float(counts[values == end].sum() / counts.sum()) for end in ends)
        return low, high

    def padding(self) -> tuple[float, int] | None:
        """Return the grey level that fills the places without image, with its count; None without such a level.

        It is 0, or the highest value of the type, and far more frequent than the levels beside it. An image of two
        levels has none.
        """
        values, counts = self.table()
        n = int(counts.sum())
        if len(values) <= 2:
            return None
        for level in (0,) if self._range is None else (0, int(self._range.max)):
            at = int(np.searchsorted(values, level))
            if at == len(values) or values[at] != level:
                continue
            beside = np.delete(counts[max(0, at - _BESIDE) : at + _BESIDE + 1], min(at, _BESIDE))
            usual = int(beside.max()) if len(beside) else n
            if counts[at] > _PADDED * n and counts[at] > _PEAK * usual:
                return float(level), int(counts[at])
        return None
