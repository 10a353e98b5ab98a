# SPDX-License-Identifier: Apache-2.0
"""Statistics of each section (z) of an image, and which sections are bad: missing, repeated, dark, shifted, foreign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING, JUMP = "missing", "jump"
_WINDOW = 31  # sections of the running median
_LEAST_SECTIONS = 5  # fewer cannot be compared

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """A bad section.

    Attributes:
        section: Its number (z) in the volume.
        kind: "missing" (all voxels are equal), "repeated" (equal to the section before), "dark", "bright" or "flat"
            (less contrast) compared with its neighbours, "foreign" (unlike both) or "jump" (shifted against the one
            before).
    """

    section: int
    kind: str


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
    """

    first: int
    means: tuple[float, ...]
    stds: tuple[float, ...]
    correlations: tuple[float, ...]
    findings: tuple[Finding, ...]
    drift: float

    @property
    def bad(self) -> tuple[int, ...]:
        """Numbers (z) of the sections that are bad as a whole. A section after a jump is good."""
        return tuple(found.section for found in self.findings if found.kind != JUMP)


class SectionSums:
    """Sums over the sampled voxels of each section, from which `Sections` are computed.

    Attributes:
        count: Voxels of a section.
        edges: Voxels of each section at 0, and at the highest value of an integer type.
    """

    def __init__(self, first: int, depth: int) -> None:
        self.first = first
        self.count = 0
        self.edges: dict[float, NDArray[np.int64]] = {}
        self._offset = 0.0  # subtracted from all values, so that the sums keep their digits
        self._sums, self._squares, self._products = np.zeros((3, depth))  # with the section before
        self._equal = np.ones(depth, bool)
        self._lowest = np.full(depth, np.inf)
        self._highest = np.full(depth, -np.inf)
        self._last = np.empty(0)

    def add(self, section: int, voxels: NDArray[Any]) -> None:
        """Add a slab (z, y, x) of a column that begins with a section. Slabs of a column follow each other."""
        at, depth = section - self.first, len(voxels)
        rows = voxels.reshape(depth, -1)
        if self.count == 0:
            self._offset = float(voxels.mean(dtype=np.float64))
        if at == 0:
            self.count += rows.shape[1]
            self._last = rows[:1]
        before = np.concatenate([self._last, rows[:-1]])
        self._last = rows[-1:].copy()
        here = slice(at, at + depth)
        values = rows.astype(np.float64) - self._offset
        self._sums[here] += values.sum(axis=1)
        self._squares[here] += np.einsum("ij,ij->i", values, values)
        self._products[here] += np.einsum("ij,ij->i", values, before - self._offset)
        self._equal[here] &= (rows == before).all(axis=1)
        levels = (0, np.iinfo(voxels.dtype).max) if voxels.dtype.kind in "iu" else (0,)
        for level in map(float, levels):
            counts = self.edges.setdefault(level, np.zeros(len(self._sums), np.int64))
            counts[here] += np.count_nonzero(rows == level, axis=1)
        self._lowest[here] = np.minimum(self._lowest[here], rows.min(axis=1))
        self._highest[here] = np.maximum(self._highest[here], rows.max(axis=1))

    def sections(self) -> Sections:
        """Return the statistics of the sections, and the bad ones."""
        n = self.count
        means = self._sums / n
        constant = self._lowest == self._highest
        stds = np.sqrt(np.maximum(self._squares / n - means**2, 0.0)) * ~constant
        both = stds[:-1] * stds[1:]
        shared = self._products[1:] / n - means[:-1] * means[1:]
        correlations = np.where(both > 0, shared / np.where(both > 0, both, 1.0), np.nan)
        findings = _findings(means, stds, correlations, constant, self._equal[1:])
        good = np.ones(len(means), bool)
        good[[at for at, kind in findings if kind != JUMP]] = False
        inside = float(np.median(stds[good])) if good.any() else 0.0
        return Sections(
            first=self.first,
            means=tuple((means + self._offset).tolist()),
            stds=tuple(stds.tolist()),
            correlations=tuple(correlations.tolist()),
            findings=tuple(Finding(self.first + at, kind) for at, kind in findings),
            drift=float(np.ptp(_running(means[good]))) / inside if inside > 0 else 0.0,
        )


def _findings(
    means: Row, stds: Row, correlations: Row, constant: NDArray[np.bool_], equal: NDArray[np.bool_]
) -> list[tuple[int, str]]:
    """Return (index, kind) of each bad section; the first reason that holds."""
    reasons = [(np.flatnonzero(constant), MISSING), (np.flatnonzero(equal) + 1, "repeated")]
    varying = np.flatnonzero(~constant)
    if len(varying) >= _LEAST_SECTIONS:
        away = means[varying] - _running(means[varying])
        limit = max(6 * _spread(away), 0.75 * float(np.median(stds[varying])))
        less = stds[varying] / np.maximum(_running(stds[varying]), 1e-30)
        reasons += [
            (varying[away < -limit], "dark"),
            (varying[away > limit], "bright"),
            (varying[less < 0.4], "flat"),
        ]
    found: dict[int, str] = {}
    for places, kind in reasons + _unlike(correlations):
        for at in places.tolist():
            found.setdefault(at, kind)
    return sorted(found.items())


def _unlike(correlations: Row) -> list[tuple[NDArray[np.int64], str]]:
    """Return the indices of sections that do not resemble both neighbours, or only not the section before."""
    known = correlations[np.isfinite(correlations)]
    usual = float(np.median(known)) if len(known) >= _LEAST_SECTIONS - 1 else 0.0
    if usual < 0.2:  # sections so thick or so noisy that neighbours never look alike
        return []
    limit = max(usual - max(6 * _spread(known - usual), 0.25), 0.3 * usual)
    low = correlations < limit  # False for NaN
    before = np.concatenate([[False], low])  # against the section before
    foreign = before & np.concatenate([low, [False]])
    jumps = low & ~foreign[1:] & ~foreign[:-1]
    return [(np.flatnonzero(foreign), "foreign"), (np.flatnonzero(jumps) + 1, JUMP)]


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
