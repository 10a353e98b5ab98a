# SPDX-License-Identifier: Apache-2.0
"""Statistics of each section (z) of an image, and which sections are bad: missing, repeated, dark, shifted, foreign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING, JUMP = "missing", "jump"
_WORDS = {
    MISSING: "all voxels are equal",
    "repeated": "equal to the section before",
    "dark": "much darker than its neighbours",
    "bright": "much brighter than its neighbours",
    "flat": "much less contrast than its neighbours",
    "foreign": "does not resemble its neighbours",
    JUMP: "shifted against the section before",
}
_WINDOW = 31  # sections of the running median
_LEAST_SECTIONS = 5  # fewer cannot be compared

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """A bad section.

    Attributes:
        section: Its number (z) in the volume.
        kind: "missing", "repeated", "dark", "bright", "flat", "foreign" or "jump".
    """

    section: int
    kind: str

    @property
    def words(self) -> str:
        """What is wrong with the section."""
        return _WORDS[self.kind]


@dataclass(frozen=True)
class Sections:
    """Statistics of the sections of an image.

    Attributes:
        first: Number (z) of the first section.
        means, stds: Mean and standard deviation of each section.
        correlations: Correlation of each section with the next one; NaN if one of them does not vary. One fewer.
        findings: The bad sections, in order of z.
        drift: Difference between the highest and the lowest running median of the means, as a multiple of the standard
            deviation inside sections.
        contrast_drift: Highest running median of the standard deviations, divided by the lowest.
    """

    first: int
    means: tuple[float, ...]
    stds: tuple[float, ...]
    correlations: tuple[float, ...]
    findings: tuple[Finding, ...]
    drift: float
    contrast_drift: float

    @property
    def bad(self) -> tuple[int, ...]:
        """Numbers (z) of the sections that are bad as a whole. A section after a jump is good."""
        return tuple(found.section for found in self.findings if found.kind != JUMP)


class SectionSums:
    """Sums over the sampled voxels of each section, from which `Sections` are computed.

    Attributes:
        count: Voxels of a section.
        offset: Number that is subtracted from all values, so that the sums keep their digits.
        sums, squares: Sums of the values of each section, and of their squares.
        edges: Voxels of each section at 0, and at the highest value of an integer type.
    """

    def __init__(self, first: int, depth: int) -> None:
        self.first = first
        self.count = 0
        self.offset = 0.0
        self.sums = np.zeros(depth)
        self.squares = np.zeros(depth)
        self.edges: dict[float, NDArray[np.int64]] = {}
        self._products = np.zeros(max(0, depth - 1))
        self._equal = np.ones(max(0, depth - 1), bool)
        self._lowest = np.full(depth, np.inf)
        self._highest = np.full(depth, -np.inf)
        self._last = np.empty(0)

    def add(self, section: int, voxels: NDArray[Any]) -> None:
        """Add a slab (z, y, x) of a column that begins with a section. Slabs of a column follow each other."""
        at, depth = section - self.first, len(voxels)
        if self.count == 0:
            self.offset = float(voxels.mean(dtype=np.float64))
        rows = voxels.reshape(depth, -1)
        before = int(at > 0)  # rows of the slab before
        if at == 0:
            self.count += rows.shape[1]
        else:
            rows = np.concatenate([self._last, rows])
        values = rows.astype(np.float64) - self.offset
        pairs = slice(at - before, at + depth - 1)
        self._products[pairs] += np.einsum("ij,ij->i", values[:-1], values[1:])
        self._equal[pairs] &= (rows[:-1] == rows[1:]).all(axis=1)
        rows, values = rows[before:], values[before:]
        here = slice(at, at + depth)
        self.sums[here] += values.sum(axis=1)
        self.squares[here] += np.einsum("ij,ij->i", values, values)
        levels = (0, np.iinfo(voxels.dtype).max) if voxels.dtype.kind in "iu" else (0,)
        for level in map(float, levels):
            counts = self.edges.setdefault(level, np.zeros(len(self.sums), np.int64))
            counts[here] += np.count_nonzero(rows == level, axis=1)
        self._lowest[here] = np.minimum(self._lowest[here], rows.min(axis=1))
        self._highest[here] = np.maximum(self._highest[here], rows.max(axis=1))
        self._last = rows[-1:].copy()

    def sections(self) -> Sections:
        """Return the statistics of the sections, and the bad ones."""
        n = self.count
        means = self.sums / n
        variances = np.maximum(self.squares / n - means**2, 0.0)
        constant = self._lowest == self._highest
        stds = np.where(constant, 0.0, np.sqrt(variances))
        both = stds[:-1] * stds[1:]
        shared = self._products / n - means[:-1] * means[1:]
        correlations = np.where(both > 0, shared / np.where(both > 0, both, 1.0), np.nan)
        findings = _findings(means, stds, correlations, constant, self._equal)
        good = np.ones(len(means), bool)
        good[[at for at, kind in findings if kind != JUMP]] = False
        level, contrast = _running(means[good]), _running(stds[good])
        inside = float(np.median(stds[good])) if good.any() else 0.0
        least = contrast.min() if len(contrast) else 0.0
        return Sections(
            first=self.first,
            means=tuple((means + self.offset).tolist()),
            stds=tuple(stds.tolist()),
            correlations=tuple(correlations.tolist()),
            findings=tuple(Finding(self.first + at, kind) for at, kind in findings),
            drift=float(np.ptp(level)) / inside if inside > 0 else 0.0,
            contrast_drift=float(contrast.max() / least) if least > 0 else 1.0,
        )


def _findings(
    means: Row, stds: Row, correlations: Row, constant: NDArray[np.bool_], equal: NDArray[np.bool_]
) -> list[tuple[int, str]]:
    """Return (index, kind) of each bad section; the first reason that holds."""
    found: dict[int, str] = {int(at): MISSING for at in np.flatnonzero(constant)}
    for repeated in np.flatnonzero(equal).tolist():
        found.setdefault(repeated + 1, "repeated")
    varying = np.flatnonzero(~constant)
    if len(varying) >= _LEAST_SECTIONS:
        usual = float(np.median(stds[varying]))
        away = means[varying] - _running(means[varying])
        limit = max(6 * _spread(away), 0.75 * usual)
        for at, difference in zip(varying.tolist(), away, strict=True):
            if abs(difference) > limit:
                found.setdefault(int(at), "dark" if difference < 0 else "bright")
        less = stds[varying] / np.maximum(_running(stds[varying]), 1e-30)
        for at in varying[less < 0.4].tolist():
            found.setdefault(int(at), "flat")
    for at, kind in _unlike(correlations):
        found.setdefault(at, kind)
    return sorted(found.items())


def _unlike(correlations: Row) -> list[tuple[int, str]]:
    """Return (index, kind) of sections that do not resemble both neighbours, or only not the section before."""
    known = correlations[np.isfinite(correlations)]
    if len(known) < _LEAST_SECTIONS - 1:
        return []
    usual = float(np.median(known))
    if usual < 0.2:  # sections so thick or so noisy that neighbours never look alike
        return []
    limit = max(usual - max(6 * _spread(known - usual), 0.25), 0.3 * usual)
    low = correlations < limit  # False for NaN
    before = np.concatenate([[False], low])  # against the section before
    after = np.concatenate([low, [False]])
    foreign = before & after
    found = [(int(at), "foreign") for at in np.flatnonzero(foreign)]
    jumps = np.flatnonzero(before & ~foreign)
    return found + [(int(at), JUMP) for at in jumps if not foreign[at - 1]]


def _running(values: Row) -> Row:
    """Return the median of each value and its neighbours."""
    half = min(_WINDOW, max(1, len(values) // 3)) // 2
    if len(values) == 0 or half == 0:
        return values
    padded = np.pad(values, half, mode="reflect" if len(values) > half else "edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    result: Row = np.median(windows, axis=1)
    return result


def _spread(values: Row) -> float:
    """Return the standard deviation that the median absolute deviation stands for."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))
