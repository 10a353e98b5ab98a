# SPDX-License-Identifier: Apache-2.0
"""Statistics of an image volume: grey levels, proposed normalisation, sections, sharpness.

Tissue looks much the same along all axes. So the distance in nanometres over which grey levels stay alike is similar
along z, y and x, if the voxel size is right. In voxels, the distance is short along an axis of thick sections.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.data.boxes import Box, Progress
from floodtide.data.look import sampling
from floodtide.data.look.sections import Sections, SectionSums
from floodtide.data.volumes import Volume
from floodtide.errors import InvalidFileError

BINS = 64
"""Most bins of the histogram in `ImageStatistics`."""

_MOST_SECTIONS = 1 << 22  # each needs memory; metadata may claim any number
_PADDED = 0.05  # share of one grey level above which it may be padding
_PEAK = 10.0  # times the share of the levels beside it
_BESIDE = 3  # levels on each side that are compared
_KEPT = 1 << 22  # floating-point grey levels that are kept

LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Distances in voxels at which the autocorrelation is measured."""

Axes = tuple[float | None, float | None, float | None]  # along z, y and x

_LEVEL = 0.5  # of the autocorrelation, at the correlation length
_LEAST = 0.05  # share of the variance that is not noise, below which nothing is measured
_REGION = 0.02  # share of the lowest or highest grey level in a cube, above which these voxels are left out
# share of these that have such a neighbour along x, as regions have and noise has not
_JOINED = 0.8
_LEAST_KEPT = 0.25  # share of the voxels of a cube that must be left
_WINDOWS = ((1, 5), (3, 9), (3, 15))  # voxels along y and x over which grey levels are averaged
_VOXELS = 1 << 23  # that are compared; more do not change the result


@dataclass(frozen=True)
class Sharpness:
    """Autocorrelation of an image along z, y and x: the median over cubes of 64 voxels.

    Attributes:
        length: For each axis, the distance in voxels at which the autocorrelation is half of its value near 0; None if
            it stays above that up to the longest lag, or up to half a cube.
        detail: For each axis, the share of the variance that one voxel makes: noise and fine detail. None if unknown.
        skewness: Of the difference between a voxel's surroundings of 1, 3 and 3 voxels (y, x) and those of 5, 9 and 15
            voxels: negative where thin structures are dark. Empty for a smaller image.
    """

    length: Axes
    detail: Axes
    skewness: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImageStatistics(sampling.Sample):
    """Statistics of a box of an image volume. Grey levels are as stored.

    Attributes:
        minimum, maximum, mean, std: Of the grey levels of the sampled voxels.
        histogram: Counts of at most BINS bins of equal width, see `bin_edges`. For floating-point images, these and the
            numbers above are those of a subset of at most 4 million voxels.
        lowest_share: Share of the voxels at the lowest value that the type can hold (floating point: that occurs).
        highest_share: Share of the voxels at the highest value that the type can hold (floating point: that occurs).
        proposed_mean, proposed_std: Those for training, without bad sections and padding.
        left_out: What the proposal leaves out, in words; empty for nothing.
        padding: Share of the voxels that fill places without image: all are 0, or the highest value of the type.
        voxel_size_nm: Voxel size (z, y, x) that the caller or the format states; None if unknown.
        sharpness: Autocorrelation along each axis; None for a constant image.
        sections: Statistics of each section (z); None if they were not asked for.
    """

    minimum: float
    maximum: float
    mean: float
    std: float
    histogram: tuple[int, ...]
    lowest_share: float
    highest_share: float
    proposed_mean: float
    proposed_std: float
    left_out: str
    padding: float
    voxel_size_nm: tuple[float, float, float] | None
    sharpness: Sharpness | None
    sections: Sections | None


def image_statistics(
    volume: Volume,
    *,
    box: Box | None = None,
    voxel_size_nm: tuple[float, float, float] | None = None,
    budget: int = sampling.FULL,
    progress: Progress | None = None,
) -> ImageStatistics:
    """Return the statistics of an image. A box of more than `budget` voxels is sampled.

    Args:
        volume: The image: integers of 8 or 16 bits, or floating-point numbers.
        box: The part (start, size) to look at; None: the whole volume.
        voxel_size_nm: Voxel size (z, y, x); None: what the format states.
        budget: Voxels to read. `FULL` is for reports, with columns through all sections (z). `QUICK` is for checks that
            must take less than a second, with a grid of cubes, and without `ImageStatistics.sections`.
        progress: Called as progress(voxels read, voxels to read).

    Raises:
        InvalidFileError: If the volume cannot be read, holds integers of more than 16 bits, has more than 2^22
            sections, or a voxel is not finite.
    """
    require_image(volume)
    whole, sections = box or sampling.whole_of(volume.shape), budget >= sampling.FULL
    if sections and whole[1][0] > _MOST_SECTIONS:
        raise InvalidFileError(
            f"{volume.name}: has {whole[1][0]} sections (z), expected at most {_MOST_SECTIONS}"
        )
    boxes = sampling.sample(whole, budget, sections)
    total = sum(math.prod(size) for _, size in boxes)
    levels = GreyLevels(volume.dtype, total)
    sums = SectionSums(whole[0][0], whole[1][0]) if sections else None
    for first, voxels in sampling.slabs(volume, boxes, progress):
        levels.add(voxels)
        if sums is not None:
            sums.add(first, voxels)
    found = sums.sections() if sums is not None else None
    proposed_mean, proposed_std, left_out = _proposal(levels, sums, found)
    values, counts = levels.table
    n, mean, std = levels.moments()
    least, most = float(values[0]), float(values[-1])
    known = np.iinfo(volume.dtype) if volume.dtype.kind in "iu" else None
    low, high = (known.min, known.max) if known else (least, most)
    edges = bin_edges(least, most, whole=known is not None)
    binned, _ = np.histogram(values, bins=edges, weights=counts)
    return ImageStatistics(
        name=volume.name,
        shape=whole[1],
        dtype=volume.dtype.name,
        sampled=total,
        minimum=least,
        maximum=most,
        mean=mean,
        std=std,
        histogram=tuple(round(one) for one in binned.tolist()),
        lowest_share=float(counts[values == low].sum() / n),
        highest_share=float(counts[values == high].sum() / n),
        proposed_mean=proposed_mean,
        proposed_std=proposed_std,
        left_out=left_out,
        padding=levels.padding()[1] / n,
        voxel_size_nm=voxel_size_nm or volume.geometry.voxel_size_nm,
        sharpness=sharpness(volume, whole, budget),
        sections=found,
    )


class GreyLevels:
    """Counts of the grey levels of sampled voxels: exact for integers of at most 16 bits, else of a subset."""

    def __init__(self, dtype: np.dtype[Any], total: int) -> None:
        self._range = np.iinfo(dtype) if dtype.kind in "iu" else None
        self._counts = np.zeros(0 if self._range is None else 1 << self._range.bits, np.int64)
        self._step = -(-total // _KEPT)
        self._kept: list[NDArray[np.float64]] = []

    def add(self, voxels: NDArray[Any]) -> None:
        """Add voxels of any shape."""
        flat = voxels.reshape(-1)
        if self._range is None:
            self._kept.append(flat[:: self._step].astype(np.float64))
            return
        shifted = flat.astype(np.int64) - int(self._range.min)
        self._counts += np.bincount(shifted, minlength=len(self._counts))

    @functools.cached_property
    def table(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The occurring grey levels in ascending order, and their counts, after the last voxels were added."""
        if self._range is not None:
            at = np.flatnonzero(self._counts)
            return (at + int(self._range.min)).astype(np.float64), self._counts[at]
        return np.unique(np.concatenate(self._kept), return_counts=True)

    def moments(self) -> tuple[int, float, float]:
        """Return the number of voxels, their mean and their standard deviation."""
        values, counts = self.table
        mean = np.average(values, weights=counts)
        variance = np.average((values - mean) ** 2, weights=counts)
        return int(counts.sum()), float(mean), float(np.sqrt(variance))

    def padding(self) -> tuple[float, int]:
        """Return the grey level that fills the places without image, and its count; 0 and 0 without such a level.

        It is 0, or the highest value of the type, and far more frequent than the levels beside it. An image of two
        levels has none.
        """
        values, counts = self.table
        n = int(counts.sum())
        for level in (0,) if self._range is None else (0, int(self._range.max)):
            for at in np.flatnonzero(values == level) if len(values) > 2 else ():
                beside = [*counts[max(0, at - _BESIDE) : at], *counts[at + 1 : at + _BESIDE + 1]]
                if counts[at] > max(_PADDED * n, _PEAK * max(beside)):
                    return float(level), int(counts[at])
        return 0.0, 0


def bin_edges(least: float, most: float, *, whole: bool) -> NDArray[np.float64]:
    """Return the edges of the bins of the histogram of grey levels from `least` to `most`.

    Args:
        whole: The grey levels are integers. Then each bin holds as many of them as the others.
    """
    if not whole:
        return np.linspace(least, most + (least == most), BINS + 1)  # one level: in the first bin
    levels = int(most - least) + 1
    width = -(-levels // BINS)
    return least - 0.5 + width * np.arange(-(-levels // width) + 1.0)


def require_image(volume: Volume) -> None:
    """Raise InvalidFileError unless networks read voxels of this type: they read no integers of more than 16 bits."""
    if volume.dtype.kind in "iu" and volume.dtype.itemsize > 2:
        raise InvalidFileError(
            f"{volume.name}: holds {volume.dtype}, as labels do; expected an image of 8 or 16 bits, or of"
            " floating-point numbers"
        )


def _proposal(
    levels: GreyLevels, sums: SectionSums | None, found: Sections | None
) -> tuple[float, float, str]:
    """Return mean and standard deviation without bad sections and padding, and what was left out in words."""
    n, mean, std = levels.moments()
    level, filled = levels.padding()
    left_out = []
    if sums is not None and found is not None and len(found.bad) < len(found.means):
        good = np.isin(np.arange(len(found.means)) + found.first, found.bad, invert=True)
        means, stds = np.asarray(found.means)[good], np.asarray(found.stds)[good]
        n, mean = len(means) * sums.count, float(means.mean())
        std = math.sqrt(np.mean(stds**2 + (means - mean) ** 2))
        filled = filled and int(sums.edges[level][good].sum())
        if found.bad:
            left_out.append(notes.count_of(len(found.bad), "bad section"))
    if 0 < filled < n:
        left_out.append(f"voxels of value {level:g} (padding)")
        share = filled / n
        whole, mean = mean, (mean - share * level) / (1 - share)
        variance = std**2 + (whole - mean) ** 2 - share * (level - mean) ** 2
        std = math.sqrt(max(0.0, variance / (1 - share)))
    return mean, std, " and ".join(left_out)


def sharpness(volume: Volume, box: Box, budget: int = _VOXELS) -> Sharpness | None:
    """Return the sharpness of a box of an image, from cubes of 64 voxels; None if no cube varies."""
    measured, skews = [], []
    for cube in sampling.cubes_within(box, min(budget, _VOXELS), sampling.CUBE):
        voxels = sampling.read(volume, cube)
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
    nearest = [float(curve[0]) if len(curve) else 1.0 for curve in curves]
    detail = [1 - one if one < 1 else None for one in nearest]
    skews = [one for one in skews if one]
    skewness = tuple(np.median(skews, axis=0).tolist()) if skews else ()
    return Sharpness(
        (lengths[0], lengths[1], lengths[2]), (detail[0], detail[1], detail[2]), skewness
    )


def _unpadded(voxels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the voxels that are not padding, regions of the lowest or highest grey level."""
    kept = np.ones(voxels.shape, bool)
    for there in (voxels == voxels.min(), voxels == voxels.max()):
        share, joined = np.mean(there), np.sum(there[..., 1:] & there[..., :-1])
        if share > _REGION and joined > _JOINED * share * voxels.size:
            kept &= ~there
    return kept


def _of_cube(voxels: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return the autocorrelation (axis, lag) of voxels that are kept; NaN for lags of more than half a side.

    None if few voxels are left, or if these do not vary.
    """
    share = float(np.mean(kept))
    if share < _LEAST_KEPT:
        return None
    values = voxels.astype(np.float32)
    values -= values[kept].mean(dtype=np.float64)
    values *= kept
    variance = float(np.mean(np.square(values), dtype=np.float64)) / share
    if variance <= 0:
        return None
    result = np.full((3, len(LAGS)), np.nan)
    for axis, extent in enumerate(values.shape):
        along, inside = np.moveaxis(values, axis, 0), np.moveaxis(kept, axis, 0)
        for index, lag in enumerate(LAGS):
            if 2 * lag <= extent and (pairs := np.mean(inside[lag:] & inside[:-lag])) > 0:
                product = np.mean(along[lag:] * along[:-lag], dtype=np.float64)
                result[axis, index] = product / (variance * pairs)
    return result


def _skewness(voxels: NDArray[Any], kept: NDArray[np.bool_]) -> list[float]:
    """Return the skewness of a cube for each pair of _WINDOWS, where no padding is near; nothing for a small cube."""
    most = max(window for pair in _WINDOWS for window in pair)
    if min(voxels.shape[1:]) < 2 * most:
        return []
    inside = _means(kept, most, most) > 1 - 1e-6
    if np.mean(inside) < _LEAST_KEPT / 2:
        return []
    result = []
    for fine, coarse in _WINDOWS:
        values = (_means(voxels, fine, most) - _means(voxels, coarse, most))[inside]
        values -= values.mean()
        spread = float(np.mean(np.square(values))) ** 1.5
        result.append(float(np.mean(values**3)) / spread if spread > 0 else 0.0)
    return result


def _means(voxels: NDArray[Any], window: int, most: int) -> NDArray[np.float64]:
    """Return the means of squares (y, x) of `window` voxels, around those voxels that have one of `most` voxels."""
    sums = np.pad(voxels, ((0, 0), (1, 0), (1, 0))).astype(np.float64).cumsum(1).cumsum(2)
    sums = sums[:, window:] - sums[:, :-window]
    sums = sums[:, :, window:] - sums[:, :, :-window]
    cut = (most - window) // 2
    rows, columns = (slice(cut, n - cut) for n in sums.shape[1:])
    result: NDArray[np.float64] = sums[:, rows, columns] / window**2
    return result


def _length(curve: NDArray[np.float64]) -> float | None:
    """Return where a curve over LAGS, which is 1 at 0, falls below the level, with straight lines between lags."""
    before, value = 0, 1.0
    for lag, after in zip(LAGS, curve, strict=False):
        if after < _LEVEL:
            return float(before + (value - _LEVEL) / (value - after) * (lag - before))
        before, value = lag, float(after)
    return None
