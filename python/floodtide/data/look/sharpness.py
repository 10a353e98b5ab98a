# SPDX-License-Identifier: Apache-2.0
"""Sharpness of an image along each axis, which tells voxel size and order of axes without looking at the objects.

Tissue looks the same along all axes. So the distance in nanometres over which grey levels stay alike is about the same
along z, y and x, if the voxel size is right. In voxels, the distance is short along an axis of thick sections.
"""

from __future__ import annotations

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
_PADDED = 0.25  # share of the lowest grey level in a cube, above which the cube is left out
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
    """

    lags: tuple[int, ...]
    autocorrelation: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
    length: tuple[float | None, float | None, float | None]


def sharpness(volume: Volume, box: Box, budget: int = _VOXELS) -> Sharpness | None:
    """Return the sharpness of a box of an image, from cubes of 64 voxels; None if no cube varies.

    Raises:
        InvalidFileError: If the volume cannot be read.
    """
    measured = []
    for cube in cubes_within(box, min(budget, _VOXELS), CUBE):
        rows = _of_cube(read(volume, cube))
        if rows is not None:
            measured.append(rows)
    if not measured:
        return None
    table = np.median(np.stack(measured), axis=0)  # a bad section spoils few cubes
    curves = [row[np.isfinite(row)] for row in table]
    # Noise differs from voxel to voxel: without noise, the curve would reach 1 at distance 0.
    near = [2 * curve[0] - curve[1] if len(curve) > 1 else 0.0 for curve in curves]
    signal = min(1.0, max(near))
    lengths = [_length(curve / signal) if signal > _LEAST else None for curve in curves]
    z, y, x = (tuple(float(value) for value in curve) for curve in curves)
    return Sharpness(LAGS, (z, y, x), (lengths[0], lengths[1], lengths[2]))


def _of_cube(voxels: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return the autocorrelation (axis, lag), NaN for lags of more than half a side; None for a padded cube."""
    if np.mean(voxels == voxels.min()) > _PADDED:
        return None
    values = voxels.astype(np.float32)
    values -= values.mean(dtype=np.float64)
    variance = float(np.mean(np.square(values), dtype=np.float64))
    if variance <= 0:
        return None
    result = np.full((3, len(LAGS)), np.nan)
    for axis, extent in enumerate(values.shape):
        along = np.moveaxis(values, axis, 0)
        for index, lag in enumerate(LAGS):
            if 2 * lag <= extent:
                product = np.mean(along[lag:] * along[:-lag], dtype=np.float64)
                result[axis, index] = product / variance
    return result


def _length(curve: NDArray[np.float64]) -> float | None:
    """Return where a curve over LAGS, which is 1 at 0, falls below the level, with straight lines between lags."""
    before, value = 0, 1.0
    for lag, after in zip(LAGS, curve, strict=False):
        if after < _LEVEL:
            return float(before + (value - _LEVEL) / (value - after) * (lag - before))
        before, value = lag, float(after)
    return None
