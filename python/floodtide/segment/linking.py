# SPDX-License-Identifier: Apache-2.0
"""Affinities to segments, as arrays, by the libraries of the field."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits, notes
from floodtide.base.libraries import library
from floodtide.base.options import Checked, option
from floodtide.base.tasks.affinities import NEAREST
from floodtide.config.segment_options import LINKAGES
from floodtide.data import Vec3
from floodtide.data.boxes import as_vec3
from floodtide.errors import InvalidArgumentError, ShapeError

Affinities = NDArray[np.floating[Any]]

_SCORING = {
    "mean": "OneMinus<MeanAffinity<RegionGraphType, ScoreValue>>",
    "median": "OneMinus<HistogramQuantileAffinity<RegionGraphType, 50, ScoreValue, 256, false>>",
    "quantile75": "OneMinus<HistogramQuantileAffinity<RegionGraphType, 75, ScoreValue, 256, false>>",
}
_BYTES_PER_AFFINITY = 4
_BYTES_PER_VOXEL = 250  # quantiles after 600 training steps; the mean needs 100
_LEVELS = 128  # of affinities in the watershed: noise within a level makes no pieces
_NONE = np.float32(1e-4)  # waterz leaves out voxels without a higher affinity
STEP = 0.05
"""Between the thresholds of an agglomeration."""
_SMALL_THRESHOLD = 0.3  # affinity down to which small segments merge
_BEYOND = 1e-3  # that rounding may add to affinities


@dataclass(frozen=True, kw_only=True)
class AffinityOptions(Checked):
    """How affinities become segments."""

    method: str = option(
        "mean",
        "Watershed of the nearest neighbours, and agglomeration by the mean, median or 75 % quantile of the affinities"
        " between two segments (waterz)",
        choices=LINKAGES,
    )
    threshold: float = option(
        0.5,
        "Segments are merged while the affinity between them is above this",
        range=limits.FRACTION,
    )
    small_size: int = option(
        0,
        "Segments of fewer voxels also merge below the threshold, down to an affinity of 0.3, where at most one larger"
        " segment takes part; 0: none",
        range=limits.VOXELS,
    )
    min_size: int = option(100, "Smaller segments, in voxels, are removed", range=limits.VOXELS)


def segments_of(
    affinities: Affinities, offsets: Sequence[Vec3], options: AffinityOptions | None = None
) -> NDArray[np.uint64]:
    """Return the segments of affinities, uint64 (z, y, x) from 1, in the order of their first voxels; 0 is background.

    Args:
        affinities: (offsets, z, y, x), from 0 (different objects) to 1 (same object). The affinity of a voxel for an
            offset is that of the voxel and the one at the offset.
        offsets: Offsets (z, y, x).
        options: The method and its parameters; None: the defaults.

    Raises:
        ShapeError: If there is not one offset for each channel.
        InvalidArgumentError: If an affinity is not from 0 to 1, or the method lacks an offset.
        UnsupportedError: If the library of the method is not installed.
    """
    options = options or AffinityOptions()
    return segments_and_pieces(affinities, offsets, options, options.threshold)[0]


def segments_and_pieces(
    affinities: Affinities, offsets: Sequence[Vec3], options: AffinityOptions, higher: float
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the segments of affinities, and the pieces of which agglomeration made them.

    Pieces are what is merged above the threshold `higher`, of any size and with any numbers. For the rest see
    `segments_of`.
    """
    if affinities.ndim != 4 or len(affinities) != len(offsets) or 0 in affinities.shape:
        raise ShapeError(
            f"agglomerate: affinities of shape {affinities.shape} and {len(offsets)} offsets, expected"
            " (offsets, z, y, x) of at least one voxel"
        )
    require_range("agglomerate", affinities)
    limits.require_memory(
        f"agglomerate: {' x '.join(map(str, affinities.shape[1:]))} voxels with {len(offsets)} offsets need",
        decoding_bytes(len(offsets)) * math.prod(affinities.shape[1:]),
        "subvolumes (--subvolume, or segment.subvolume)",
    )
    lower = lower_thresholds(options.threshold) if options.small_size else []
    found = linked(affinities, offsets, options.method, [higher, options.threshold, *lower])
    pieces, labels = next(found)[1], next(found)[1]
    if lower:
        sizes, groups = groups_of(labels, (one for _, one in found))
        labels = merged_small(sizes, groups, options.small_size)[labels].astype(np.uint64)
    return _numbered(labels, options.min_size), pieces


def objects_of(
    task: Any,
    predicted: NDArray[Any],
    *,
    sections: bool = False,
    options: AffinityOptions | None = None,
) -> NDArray[Any]:
    """Return the objects (z, y, x) of what `Predictor.predicted` returns for a task; 0 is none.

    `options` say how affinities become segments. If `sections`, as for a network that sees one section at a time, each
    section has separate objects, with different numbers.
    """
    decode = functools.partial(segments_of, options=options)
    if not sections:
        objects: NDArray[Any] = task.objects(predicted, decode)
        return objects
    apart, count = np.zeros(predicted.shape[-3:], np.int64), 0
    for z, out in enumerate(apart):
        found = task.objects(predicted[..., z : z + 1, :, :], decode)[0]
        out[found > 0] = found[found > 0] + count
        count += int(found.max(initial=0))
    return apart


def require_range(name: str, affinities: Affinities) -> None:
    """Refuse values that are no affinities from 0 to 1: numbers of 8 bits as floats, or logits."""
    lowest, highest = float(affinities.min(initial=0.0)), float(affinities.max(initial=0.0))
    if not (lowest >= -_BEYOND and highest <= 1 + _BEYOND):  # also of what is not a number
        raise InvalidArgumentError(
            f"{name}: affinities reach from {lowest:.4g} to {highest:.4g}, expected 0 to 1: apply the sigmoid to"
            " logits, divide numbers of 8 bits by 255, clip what interpolation has added"
        )


def linked(
    affinities: Affinities, offsets: Sequence[Vec3], method: str, thresholds: Sequence[float]
) -> Iterator[tuple[float, NDArray[np.uint64]]]:
    """Yield the segments of each threshold, the highest first, of one agglomeration. Arguments as `segments_of`."""
    waterz = library("waterz", "agglomerate", "affinities")
    values = nearest_affinities(affinities, offsets, method)
    # waterz merges while 1 - affinity is below its threshold, and tells standard output about it.
    falling = sorted(thresholds, reverse=True)
    merge = functools.partial(waterz.agglomerate, scoring_function=_SCORING[method])
    with _silent():
        levels = np.ceil((values - _NONE).clip(0) * _LEVELS) / np.float32(_LEVELS)
        pieces = next(waterz.agglomerate(levels, [0]))
        found = merge(values, [1 - x for x in falling], fragments=pieces)
    del levels
    for threshold in falling:
        with _silent():
            labels = next(found).copy()
        yield threshold, labels


def lower_thresholds(threshold: float) -> list[float]:
    """Return the thresholds at which small segments merge, in falling order."""
    return [
        round(threshold - n * STEP, 6)
        for n in range(1, math.ceil(1 / STEP))
        if threshold - n * STEP > _SMALL_THRESHOLD - STEP / 2
    ]


def groups_of(
    labels: NDArray[np.uint64], lower: Iterable[NDArray[np.uint64]]
) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """Return the voxels of each segment by its number, and the number that it has at each lower threshold."""
    flat = labels.ravel().view(np.intp)
    sizes = np.bincount(flat)
    voxel = np.zeros(len(sizes), np.intp)
    voxel[flat] = np.arange(len(flat))
    return sizes, [np.where(sizes > 0, one.ravel()[voxel], 0).astype(np.intp) for one in lower]


def merged_small(
    sizes: NDArray[np.intp], groups: Sequence[NDArray[np.intp]], small_size: int
) -> NDArray[np.intp]:
    """Return the new number of each segment, by its number, after small segments have merged.

    Merging two large segments by mistake costs most, so it asks for a higher affinity. After Zlateski and Seung, "Image
    segmentation by size-dependent single linkage clustering of a watershed basin graph" (arXiv:1505.00249).

    Args:
        sizes, groups: What `groups_of` returns, for lower thresholds in falling order.
        small_size: Segments of fewer voxels are small. The segments of a group merge, unless two of them are not small.
    """
    segment = np.arange(len(sizes))
    for group in groups:
        voxels = np.bincount(segment, sizes, len(sizes))
        alive = np.flatnonzero(voxels)
        large = alive[voxels[alive] >= small_size]
        target = np.zeros(len(sizes), np.intp)
        target[group[alive]] = alive
        target[group[large]] = large
        several = np.bincount(group[large], minlength=len(sizes)) > 1
        to = np.arange(len(sizes))
        to[alive] = np.where(several[group[alive]], alive, target[group[alive]])
        segment = to[segment]
    return segment


def joined(
    values: NDArray[np.float32], method: str, threshold: float, pieces: NDArray[np.uint64]
) -> list[tuple[float, int, int]]:
    """Return (affinity, a, b) of each merge of pieces down to a threshold, in their order; b becomes a part of a.

    Args:
        values: What `nearest_affinities` returns.
        method: The linkage.
        threshold: Pieces are merged while the affinity between them is above this.
        pieces: Segments of a higher threshold.
    """
    waterz = library("waterz", "agglomerate", "affinities")
    with _silent():
        ((_, history),) = waterz.agglomerate(
            values,
            [1.0 - threshold],
            fragments=pieces.copy(),
            return_merge_history=True,
            scoring_function=_SCORING[method],
        )
    found = []
    for row in history:
        a, b = (row["a"], row["b"]) if row["c"] == row["a"] else (row["b"], row["a"])
        found.append((1.0 - row["score"], a, b))
    return found


def nearest_affinities(
    affinities: Affinities, offsets: Sequence[Vec3], method: str
) -> NDArray[np.float32]:
    """Return the affinities of the nearest neighbours, (3, z, y, x) in the order of NEAREST.

    Without those along z, they are 0, and sections are apart. The affinity of a voxel and the next one is that of the
    next one and this voxel.
    """
    if channels_used(offsets):
        return np.require(affinities[: len(NEAREST)], np.float32, ["C", "W"])  # for waterz
    known = dict(zip(map(tuple, offsets), affinities, strict=True))
    values = np.zeros((len(NEAREST), *affinities.shape[1:]), np.float32)
    missing = []
    for axis, offset in enumerate(NEAREST):
        later = as_vec3([-n for n in offset])
        if offset in known:
            values[axis] = known[offset]
        elif later in known:
            values[axis] = np.roll(known[later], 1, axis)
            values[axis][(slice(None),) * axis + (0,)] = 0.0
        else:
            missing.append(offset)
    if missing not in ([], [NEAREST[0]]):
        raise InvalidArgumentError(
            f"agglomerate: the method {method} needs the offsets {list(NEAREST)}, of which {missing} are not there"
        )
    if missing and any(z for z, _, _ in known):
        notes.show(
            f"agglomerate: the method {method} uses nearest neighbours, and no channel has those along z: each section"
            " is segmented apart"
        )
    return values


def channels_used(offsets: Sequence[Vec3]) -> int | None:
    """Return the number of first channels that decoding needs: the nearest neighbours; None: all channels."""
    count = len(NEAREST)
    return count if tuple(map(tuple, offsets[:count])) == NEAREST else None


def _numbered(labels: NDArray[np.uint64], min_size: int) -> NDArray[np.uint64]:
    """Return the labels without small segments, numbered from 1 in the order of their first voxels."""
    flat = labels.ravel().view(np.intp)
    sizes = np.bincount(flat)
    first = np.zeros(len(sizes), np.intp)
    first[flat[::-1]] = np.arange(len(flat))[::-1]
    kept = 1 + np.flatnonzero(sizes[1:] >= max(1, min_size))
    numbers = np.zeros(len(sizes), np.uint64)
    numbers[kept[np.argsort(first[kept])]] = np.arange(1, len(kept) + 1)
    return numbers[labels]


def decoding_bytes(offsets: int) -> int:
    """Return the bytes of memory per voxel that agglomeration needs."""
    return _BYTES_PER_AFFINITY * offsets + _BYTES_PER_VOXEL


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what a library writes to standard output, from Python or native code, from being seen."""
    sys.stdout.flush()
    flush = ctypes.CDLL(None).fflush  # of C, which native code's output goes through
    flush(None)
    saved = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        flush(None)
        os.dup2(saved, 1)
        os.close(nowhere)
        os.close(saved)
