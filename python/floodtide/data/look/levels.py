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
_KEPT = 1 << 20  # floating-point grey levels that are kept


class GreyLevels:
    """Counts of the grey levels of sampled voxels: exact for integers of at most 16 bits, else of a subset.

    Args:
        dtype: Type of the voxels.
        total: Number of voxels that will be added.
    """

    def __init__(self, dtype: np.dtype[Any], total: int) -> None:
        self._whole = dtype.kind in "iu"
        if self._whole:
            info = np.iinfo(dtype)
            self._least, self._most = int(info.min), int(info.max)
            self._counts = np.zeros(self._most - self._least + 1, np.int64)
        self._step = -(-total // _KEPT)
        self._kept: list[NDArray[np.float64]] = []
        self._n = 0
        self._sums = np.zeros(2)
        self._offset: float | None = None
        self._range = np.inf, -np.inf

    def add(self, voxels: Array) -> None:
        """Add voxels of any shape."""
        flat = voxels.reshape(-1)
        if self._whole:
            shifted = flat.astype(np.int64) - self._least if self._least else flat
            self._counts += np.bincount(shifted, minlength=len(self._counts))
            return
        values = flat.astype(np.float64)
        self._offset = float(values.mean()) if self._offset is None else self._offset
        self._n += values.size
        centred = values - self._offset
        self._sums += centred.sum(), np.dot(centred, centred)
        self._kept.append(values[:: self._step])
        self._range = (
            min(self._range[0], float(values.min())),
            max(self._range[1], float(values.max())),
        )

    def table(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the occurring grey levels in ascending order, and their counts."""
        if self._whole:
            at = np.flatnonzero(self._counts)
            return (at + self._least).astype(np.float64), self._counts[at]
        values, counts = np.unique(np.concatenate(self._kept), return_counts=True)
        return values, counts.astype(np.int64)

    def moments(self) -> tuple[int, float, float]:
        """Return the number of voxels, their mean and their standard deviation."""
        if self._whole:
            values, counts = self.table()
            n = int(counts.sum())
            mean = float(np.dot(values, counts) / n)
            return n, mean, float(np.sqrt(np.dot((values - mean) ** 2, counts) / n))
        away, square = self._sums / self._n
        variance = max(0.0, float(square - away**2))
        return self._n, float(away) + (self._offset or 0.0), variance**0.5

    def extremes(self) -> tuple[float, float]:
        """Return the lowest and the highest grey level."""
        if self._whole:
            values, _ = self.table()
            return float(values[0]), float(values[-1])
        return self._range

    def clipped(self) -> tuple[float, float]:
        """Return the shares of voxels at the lowest and the highest value that the type can hold.

        For floating-point types: at the lowest and the highest value that occurs, in the subset.
        """
        values, counts = self.table()
        low, high = (self._least, self._most) if self._whole else self._range
        return float(counts[values == low].sum() / counts.sum()), float(
            counts[values == high].sum() / counts.sum()
        )

    def padding(self) -> tuple[float, int] | None:
        """Return the grey level that fills the places without image, with its count; None without such a level.

        It is 0, or the highest value of the type, and far more frequent than the levels beside it.
        """
        values, counts = self.table()
        n = int(counts.sum())
        for level in (0, self._most) if self._whole else (0.0,):
            at = int(np.searchsorted(values, level))
            if at == len(values) or values[at] != level:
                continue
            beside = np.delete(counts[max(0, at - _BESIDE) : at + _BESIDE + 1], min(at, _BESIDE))
            usual = int(beside.max()) if len(beside) else n
            if counts[at] > _PADDED * n and counts[at] > _PEAK * usual:
                return float(level), int(counts[at])
        return None
