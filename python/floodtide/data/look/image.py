# SPDX-License-Identifier: Apache-2.0
"""Statistics of an image volume: grey levels, proposed normalisation, sections, sharpness."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.data.boxes import Box, Progress
from floodtide.data.look.sampling import FULL, Sample, sample, slabs, whole_of
from floodtide.data.look.sections import Sections, SectionSums
from floodtide.data.look.sharpness import Sharpness, sharpness
from floodtide.data.volumes import Volume
from floodtide.errors import InvalidFileError

PERCENTILES = (0.1, 1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9)
"""Percentiles of the grey levels in `ImageStatistics`."""

BINS = 64
"""Most bins of the histogram in `ImageStatistics`."""

_MOST_SECTIONS = 1 << 22  # each needs memory; metadata may claim any number
_PADDED = 0.05  # share of one grey level above which it may be padding
_PEAK = 10.0  # times the share of the levels beside it
_BESIDE = 3  # levels on each side that are compared
_KEPT = 1 << 22  # floating-point grey levels that are kept


@dataclass(frozen=True, kw_only=True)
class ImageStatistics(Sample):
    """Statistics of a box of an image volume. Grey levels are as stored.

    Attributes:
        minimum, maximum, mean, std: Of the grey levels of the sampled voxels.
        percentiles: Grey levels at PERCENTILES.
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
    percentiles: tuple[float, ...]
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
    budget: int = FULL,
    sections: bool = True,
    progress: Progress | None = None,
) -> ImageStatistics:
    """Return the statistics of an image. A box of more than `budget` voxels is sampled.

    Args:
        volume: The image: integers of 8 or 16 bits, or floating-point numbers.
        box: The part (start, size) to look at; None: the whole volume.
        voxel_size_nm: Voxel size (z, y, x); None: what the format states.
        budget: Voxels to read. `FULL` is for reports, `QUICK` for checks that must take less than a second.
        sections: Look at every section (z), in columns. Else the sample is a grid of cubes.
        progress: Called as progress(voxels read, voxels to read).

    Raises:
        InvalidFileError: If the volume cannot be read, holds integers of more than 16 bits, has more than 2^22
            sections, or a voxel is not finite.
    """
    require_image(volume)
    whole = box or whole_of(volume.shape)
    if sections and whole[1][0] > _MOST_SECTIONS:
        raise InvalidFileError(
            f"{volume.name}: has {whole[1][0]} sections (z), expected at most {_MOST_SECTIONS}"
        )
    boxes = sample(whole, budget, sections)
    total = sum(math.prod(size) for _, size in boxes)
    levels = GreyLevels(volume.dtype, total)
    sums = SectionSums(whole[0][0], whole[1][0]) if sections else None
    for first, voxels in slabs(volume, boxes, progress):
        levels.add(voxels)
        if sums is not None:
            sums.add(first, voxels)
    found = sums.sections() if sums is not None else None
    proposed_mean, proposed_std, left_out = _proposal(levels, sums, found)
    padding = levels.padding()
    return ImageStatistics(
        name=volume.name,
        shape=whole[1],
        dtype=volume.dtype.name,
        sampled=total,
        proposed_mean=proposed_mean,
        proposed_std=proposed_std,
        left_out=left_out,
        padding=padding[1] / total if padding is not None else 0.0,
        voxel_size_nm=voxel_size_nm or volume.geometry.voxel_size_nm,
        sharpness=sharpness(volume, whole, budget),
        sections=found,
        **levels.summary(),
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
        least = int(self._range.min)
        shifted = flat.astype(np.int64) - least if least else flat
        self._counts += np.bincount(shifted, minlength=len(self._counts))

    @functools.cached_property
    def table(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The occurring grey levels in ascending order, and their counts, after the last voxels were added."""
        if self._range is not None:
            at = np.flatnonzero(self._counts)
            return (at + int(self._range.min)).astype(np.float64), self._counts[at]
        values, counts = np.unique(np.concatenate(self._kept), return_counts=True)
        return values, counts.astype(np.int64)

    def moments(self) -> tuple[int, float, float]:
        """Return the number of voxels, their mean and their standard deviation."""
        values, counts = self.table
        n = int(counts.sum())
        mean = float(np.dot(values, counts) / n)
        return n, mean, float(np.sqrt(np.dot((values - mean) ** 2, counts) / n))

    def summary(self) -> dict[str, Any]:
        """Return what `ImageStatistics` has of the grey levels alone."""
        values, counts = self.table
        least, most = float(values[0]), float(values[-1])
        _, mean, std = self.moments()
        at = np.searchsorted(np.cumsum(counts) / counts.sum(), np.asarray(PERCENTILES) / 100.0)
        edges = bin_edges(least, most, whole=self._range is not None)
        binned, _ = np.histogram(values, bins=edges, weights=counts)
        # That the type can hold; for floating-point types, that occur.
        low, high = (least, most) if self._range is None else (self._range.min, self._range.max)
        return {
            "minimum": least,
            "maximum": most,
            "mean": mean,
            "std": std,
            "percentiles": tuple(values[np.minimum(at, len(values) - 1)].tolist()),
            "histogram": tuple(round(one) for one in binned.tolist()),
            "lowest_share": float(counts[values == low].sum() / counts.sum()),
            "highest_share": float(counts[values == high].sum() / counts.sum()),
        }

    def padding(self) -> tuple[float, int] | None:
        """Return the grey level that fills the places without image, with its count; None without such a level.

        It is 0, or the highest value of the type, and far more frequent than the levels beside it. An image of two
        levels has none.
        """
        values, counts = self.table
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
    n, offset, std = levels.moments()
    level, filled = levels.padding() or (0.0, 0)
    total, square = 0.0, n * std**2
    left_out = []
    if sums is not None and found is not None:
        good = np.ones(len(sums.sums), bool)
        good[[section - found.first for section in found.bad]] = False
        if good.any():
            offset, n = sums.offset, int(good.sum()) * sums.count
            total, square = float(sums.sums[good].sum()), float(sums.squares[good].sum())
            filled = filled and int(sums.edges[level][good].sum())
            if not good.all():
                left_out.append(notes.count_of(int(np.count_nonzero(~good)), "bad section"))
    if 0 < filled < n:
        n -= filled
        total -= filled * (level - offset)
        square -= filled * (level - offset) ** 2
        left_out.append(f"voxels of value {level:g} (padding)")
    away = total / n
    return offset + away, math.sqrt(max(0.0, square / n - away**2)), " and ".join(left_out)
