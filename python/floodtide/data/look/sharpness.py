# SPDX-License-Identifier: Apache-2.0
"""Sharpness of an image along each axis, and whether its thin structures are dark or bright.

Tissue looks much the same along all axes. So the distance in nanometres over which grey levels stay alike is similar
along z, y and x, if the voxel size is right. In voxels, the distance is short along an axis of thick sections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import Box
from floodtide.data.look.sampling import CUBE, cubes_within, read
from floodtide.data.volumes import Volume

LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Distances in voxels at which the autocorrelation is measured."""

_LEVEL = 0.5  # of the autocorrelation, at the correlation length
_LEAST = 0.05  # share of the variance that is not noise, below which nothing is measured
_PADDED = 0.02  # share of the lowest or highest grey level in a cube, above which these voxels are left out
# share of these that have such a neighbour along x, as regions have and noise has not
_JOINED = 0.8
_LEAST_KEPT = 0.25  # share of the voxels of a cube that must be left
_WINDOWS = ((1, 5), (3, 9), (3, 15))  # voxels along y and x over which grey levels are averaged
_VOXELS = 1 << 23  # that are compared; more do not change the result


@dataclass(frozen=True)
class Sharpness:
    """Autocorrelation of an image along z, y and x.

    Attributes:
        lags: Distances in voxels.
        autocorrelation: For each axis, the autocorrelation at each lag: the median over cubes of 64 voxels. Lags of
            more than half of a cube are left out.
        length: For each axis, the distance in voxels at which the autocorrelation is half of its value near 0; None if
            it stays above that up to the longest lag.
        skewness: Of the difference between a voxel's surroundings of 1, 3 and 3 voxels (y, x) and those of 5, 9 and 15
            voxels: negative where thin structures are dark. Empty for a smaller image.
    """

    lags: tuple[int, ...]
    autocorrelation: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
    length: tuple[float | None, float | None, float | None]
    skewness: tuple[float, ...] = ()

    @property
    def detail(self) -> tuple[float | None, float | None, float | None]:
        """Share of the variance that one voxel along z, y and x makes: noise and fine detail. None if unknown."""
        nearest = [curve[0] if curve else 1.0 for curve in self.autocorrelation]
        z, y, x = (1 - one if one < 1 else None for one in nearest)
        return z, y, x


def sharpness(volume: Volume, box: Box, budget: int = _VOXELS) -> Sharpness | None:
    """Return the sharpness of a box of an image, from cubes of 64 voxels; None if no cube varies."""
    measured, skews = [], []
    for cube in cubes_within(box, min(budget, _VOXELS), CUBE):
        voxels = read(volume, cube)
        kept = _unpadded(voxels)
        if (rows := _of_cube(voxels, kept)) is not None:
            measured.append(rows)
            skews.append(_skewness(voxels, kept))
    if not measured:
        return None
    table = np.median(np.stack(measured), axis=0)  # a bad section spoils few cubes
    curves = [row[np.isfinite(row)] for row in table]
    # Noise differs from voxel to voxel: without noise, the curve would reach 1 at distance 0.
    near = [2 * curve[0] - curve[1] if len(curve) > 1 else 0.0 for curve in curves]
    signal = min(1.0, max(near))
    lengths = [_length(curve / signal) if signal > _LEAST else None for curve in curves]
    z, y, x = (tuple(float(value) for value in curve) for curve in curves)
    skews = [one for one in skews if len(one)]
    skewness = tuple(map(float, np.median(np.stack(skews), axis=0))) if skews else ()
    return Sharpness(LAGS, (z, y, x), (lengths[0], lengths[1], lengths[2]), skewness)


def _unpadded(voxels: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return the voxels that are not padding, regions of the lowest or highest grey level; None without padding."""
    padding = np.zeros(voxels.shape, bool)
    for there in (voxels == voxels.min(), voxels == voxels.max()):
        share, joined = np.mean(there), np.sum(there[..., 1:] & there[..., :-1])
        if share > _PADDED and joined > _JOINED * share * voxels.size:
            padding |= there
    return ~padding if padding.any() else None


def _of_cube(voxels: NDArray[Any], kept: NDArray[np.bool_] | None) -> NDArray[np.float64] | None:
    """Return the autocorrelation (axis, lag) of voxels that are kept; NaN for lags of more than half a side.

    None if few voxels are left, or if these do not vary.
    """
    share = 1.0 if kept is None else float(np.mean(kept))
    if share < _LEAST_KEPT:
        return None
    values = voxels.astype(np.float32)
    values -= (values if kept is None else values[kept]).mean(dtype=np.float64)
    if kept is not None:
        values[~kept] = 0
    variance = float(np.mean(np.square(values), dtype=np.float64)) / share
    if variance <= 0:
        return None
    result = np.full((3, len(LAGS)), np.nan)
    for axis, extent in enumerate(values.shape):
        along = np.moveaxis(values, axis, 0)
        inside = None if kept is None else np.moveaxis(kept, axis, 0)
        for index, lag in enumerate(LAGS):
            if 2 * lag <= extent:
                product = np.mean(along[lag:] * along[:-lag], dtype=np.float64)
                pairs = 1.0 if inside is None else float(np.mean(inside[lag:] & inside[:-lag]))
                result[axis, index] = product / (variance * pairs) if pairs > 0 else np.nan
    return result


def _skewness(voxels: NDArray[Any], kept: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Return the skewness of a cube for each pair of _WINDOWS, where no padding is near; nothing for a small cube."""
    most = max(window for pair in _WINDOWS for window in pair)
    if min(voxels.shape[1:]) < 2 * most:
        return np.empty(0)

    def means(values: NDArray[Any]) -> Callable[[int], NDArray[np.float64]]:
        table = np.pad(values, ((0, 0), (1, 0), (1, 0))).astype(np.float64).cumsum(1).cumsum(2)

        def mean(window: int) -> NDArray[np.float64]:
            """Return the means of squares of `window` voxels around the same voxels for every window."""
            sums = table[:, window:] - table[:, :-window]
            sums = sums[:, :, window:] - sums[:, :, :-window]
            cut = (most - window) // 2
            rows, columns = (slice(cut, n - cut) for n in sums.shape[1:])
            result: NDArray[np.float64] = sums[:, rows, columns] / window**2
            return result

        return mean

    inside = None if kept is None else means(kept)(most) > 1 - 1e-6
    if inside is not None and np.mean(inside) < _LEAST_KEPT / 2:
        return np.empty(0)
    mean, result = means(voxels), []
    for fine, coarse in _WINDOWS:
        values = mean(fine) - mean(coarse)
        values = values if inside is None else values[inside]
        values = values - values.mean()
        spread = float(np.mean(np.square(values))) ** 1.5
        result.append(float(np.mean(values**3)) / spread if spread > 0 else 0.0)
    return np.asarray(result)


def _length(curve: NDArray[np.float64]) -> float | None:
    """Return where a curve over LAGS, which is 1 at 0, falls below the level, with straight lines between lags."""
    before, value = 0, 1.0
    for lag, after in zip(LAGS, curve, strict=False):
        if after < _LEVEL:
            return float(before + (value - _LEVEL) / (value - after) * (lag - before))
        before, value = lag, float(after)
    return None
