# SPDX-License-Identifier: Apache-2.0
"""From coarse to fine: objects of a downsampled image that the network confirms at full resolution.

The network floods the image averaged over blocks, where a field of view covers more voxels of the image. Large objects
need few network calls there. The others are flooded at full resolution, around the objects that are kept.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from floodtide.config.segment_options import SegmentOptions
from floodtide.data import Vec3
from floodtide.data.boxes import as_vec3
from floodtide.errors import ShapeError
from floodtide.segment.canvas_image import CanvasImage

Progress = Callable[[int, int], None]
Labels = NDArray[np.integer[Any]]

_LEAST_CHECKS = 8  # of an object; a larger one has a check for each field of view's volume
_MOST_DISPUTED = 0.1  # share of the checks that may disagree with an object that is kept
_BLOCK_VOXELS = 1 << 21  # of the image, upsampled at a time


class Floods(Protocol):
    """What is needed of a `Segmenter`."""

    model: Any
    options: SegmentOptions
    network_calls: int
    coarse_calls: int

    def __init__(self, model: Any, options: SegmentOptions) -> None: ...

    def segment(
        self,
        volume: NDArray[Any],
        *,
        progress: Progress | None,
        initial: NDArray[Any] | None,
        seeds: NDArray[np.int64] | None,
        limit_s: float | None,
    ) -> Any: ...

    def evaluate(
        self, image: NDArray[np.float32], logits: NDArray[np.float32]
    ) -> NDArray[np.float32]: ...


class CoarseCounts(NamedTuple):
    """What the coarse level found, and what it took."""

    objects: int  # found at the coarse level
    kept: int  # those that full resolution confirms
    network_calls: int  # at the coarse level
    check_calls: int  # at full resolution, to check objects


def coarse_objects(
    segmenter: Floods,
    image: CanvasImage,
    initial: NDArray[np.int64] | None,
    mask: NDArray[np.uint8] | None,
    seeds: NDArray[np.integer[Any]] | Sequence[Sequence[int]] | None,
    progress: Progress | None,
    limit_s: float | None = None,
) -> tuple[NDArray[np.int64], CoarseCounts]:
    """Flood the image averaged over blocks of `options.coarse` voxels, and keep the objects that pass the checks.

    An object is kept if it has at least `options.coarse_min_size` voxels, and if the network confirms it at full
    resolution. For this the network is applied once, from a fresh seed, at places spread over the object. At nine of
    ten places, the intersection over union of its mask and the object must be at least `options.coarse_agreement`. Only
    the middle of the field of view counts, three quarters of its size.

    Args:
        segmenter: Network and options.
        image: The box at full resolution.
        initial: Segments (z, y, x) of the box that keep their voxels and ids.
        mask: 1 where no field of view may be centred, (z, y, x) with the halo; None: nowhere. Coarse objects end there.
        seeds: As for `Segmenter.segment`.
        progress: Called as progress(voxels settled, voxels) of the coarse level.
        limit_s: Seconds of flooding at the coarse level, after which the objects found by then are checked; None: no
            limit.

    Returns:
        Labels (z, y, x) of the box: the initial segments, and the objects that are kept; and the counts.

    Raises:
        ShapeError: If the field of view is larger than the box at the coarse level.
    """
    factors, model = segmenter.options.coarse, segmenter.model
    size = image.inner
    low, high = _coarse_halo(image.halo_low, model.fov), _coarse_halo(image.halo_high, model.fov)
    shape = coarse_shape(size, factors)
    require_fit(model.fov, np.add(np.add(shape, low), high), factors)
    small = downsampled(_inside(image.voxels, image.halo_low, size), factors)
    blocked, largest = _blocked(image, initial, mask, factors)
    halo = list(zip(low, high, strict=True))
    flooded = _coarse_segmenter(segmenter)
    before = segmenter.network_calls

    def counted(done: int, total: int) -> None:
        segmenter.network_calls = before + flooded.network_calls
        if progress is not None:
            progress(done, total)

    result = flooded.segment(
        np.pad(small, halo, mode="reflect"),
        progress=counted,
        initial=None if blocked is None else np.pad(blocked, halo, mode="reflect"),
        seeds=None if seeds is None else _coarse_seeds(seeds, image.start, low, factors),
        limit_s=limit_s,
    )
    found = _inside(result.segmentation, low, shape).astype(np.int32)
    found = np.where(found > largest, found - largest, 0)  # without what was there before
    labels, kept, checks = _confirmed(segmenter, image, found, initial)
    calls = result.counters.get("inference-calls", 0)
    segmenter.coarse_calls += calls + checks
    return labels, CoarseCounts(len(np.unique(found[found > 0])), kept, calls, checks)


def coarse_shape(size: Sequence[int], factors: Sequence[int]) -> Vec3:
    """Return the size (z, y, x) of a box at the coarse level."""
    return as_vec3([-(-n // factor) for n, factor in zip(size, factors, strict=True)])


def require_fit(fov: Vec3, shape: Sequence[int] | NDArray[Any], factors: Vec3) -> None:
    """Raise a ShapeError if no field of view fits into a box of this shape at the coarse level."""
    if any(n < least for n, least in zip(shape, fov, strict=True)):
        raise ShapeError(
            f"segment: with segment.coarse = {list(factors)} the box has {' x '.join(str(n) for n in shape)} voxels,"
            f" the field of view {' x '.join(str(n) for n in fov)} (z, y, x); expected smaller factors, a larger box,"
            " or segment.reflect"
        )


def both_levels(
    progress: Progress | None, size: Sequence[int], factors: Sequence[int]
) -> tuple[Progress | None, Progress | None]:
    """Return the progress callbacks of the coarse level and of full resolution, which count voxels of both levels."""
    if progress is None:
        return None, None
    fine, coarse = math.prod(size), math.prod(coarse_shape(size, factors))
    return (
        lambda done, total: progress(done * coarse // max(1, total), coarse + fine),
        lambda done, total: progress(coarse + done * fine // max(1, total), coarse + fine),
    )


def away_from(
    labels: NDArray[np.int64], seeds: NDArray[np.int64], image: CanvasImage, distance: Vec3
) -> NDArray[np.int64]:
    """Return the seeds (n, 3) of the canvas that are more than `distance` voxels away from all labels of the box.

    Beside an object of the coarse level, a block of voxels may have the wrong label.
    """
    halo = list(zip(image.halo_low, image.halo_high, strict=True))
    return np.ascontiguousarray(seeds[far_from(np.pad(labels, halo), seeds, distance)])


def downsampled(voxels: NDArray[Any], factors: Vec3) -> NDArray[np.float32]:
    """Return the means over blocks of an image (z, y, x); the last blocks are continued with the voxels at the face."""
    ends = [(0, -n % factor) for n, factor in zip(voxels.shape, factors, strict=True)]
    blocks = _blocks(np.pad(voxels, ends, mode="edge"), factors)
    means: NDArray[np.float32] = blocks.mean(axis=(1, 3, 5), dtype=np.float32)
    return means


def upsampled(labels: Labels, factors: Vec3, size: Vec3) -> Labels:
    """Return labels of blocks at full resolution, with smooth surfaces.

    The label of a voxel is the one with most weight among the eight nearest blocks, with the weights of linear
    interpolation; of labels with the same weight, the smallest.

    Args:
        labels: Labels (z, y, x) of blocks, 0 for none.
        factors: Size of a block.
        size: Size of the result, at most that of all blocks.
    """
    out = np.zeros(size, labels.dtype)
    pairs = [_neighbours(n, f, c) for n, f, c in zip(size, factors, labels.shape, strict=True)]
    planes = max(1, _BLOCK_VOXELS // (size[1] * size[2]))
    for z in range(0, size[0], planes):
        part = slice(z, z + planes)
        near = [[(at[part], weight[part]) for at, weight in pairs[0]], pairs[1], pairs[2]]
        out[part] = _most_weight(labels, near)
    return out


def far_from(labels: Labels, positions: NDArray[np.int64], distance: Vec3) -> NDArray[np.bool_]:
    """Return for each position (n, 3) in a label volume whether no label lies within `distance` along the axes."""
    near = labels > 0
    for axis, reach in enumerate(distance):
        spread = near.copy()
        for shift in range(1, min(reach, near.shape[axis] - 1) + 1):
            one, other = [slice(None)] * 3, [slice(None)] * 3
            one[axis], other[axis] = slice(shift, None), slice(None, -shift)
            spread[tuple(one)] |= near[tuple(other)]
            spread[tuple(other)] |= near[tuple(one)]
        near = spread
    z, y, x = positions.T
    far: NDArray[np.bool_] = ~near[z, y, x]
    return far


def _coarse_segmenter(segmenter: Floods) -> Floods:
    """Return a segmenter for the coarse image: one box, sizes in its voxels."""
    options = segmenter.options
    block = math.prod(options.coarse)
    return type(segmenter)(
        segmenter.model,
        dataclasses.replace(
            options.alone(),
            reflect=False,
            min_segment_size=-(-options.min_segment_size // block),
            consensus_min_size=-(-options.consensus_min_size // block),
        ),
    )


def _confirmed(
    segmenter: Floods, image: CanvasImage, found: Labels, initial: Labels | None
) -> tuple[NDArray[np.int64], int, int]:
    """Return the labels of the box with the objects that are kept, their number, and the network calls."""
    options = segmenter.options
    size = image.inner
    objects = upsampled(found, options.coarse, size)
    if initial is not None:
        objects[initial > 0] = 0
    voxels = np.bincount(objects.ravel(), minlength=int(found.max(initial=0)) + 1)
    ids = np.zeros(len(voxels), np.int64)
    first = 1 if initial is None else int(initial.max(initial=0)) + 1
    kept = checks = 0
    inner = _inner_voxels(found)
    halo = list(zip(image.halo_low, image.halo_high, strict=True))
    canvas = np.pad(objects, halo, constant_values=-1)
    voxels[0] = 0
    for name in np.flatnonzero(voxels >= max(1, options.coarse_min_size)).tolist():
        count = max(_LEAST_CHECKS, int(voxels[name]) // math.prod(segmenter.model.fov))
        places = _places(inner == name, image, options.coarse, segmenter.model.fov, count)
        agreements = np.array(
            [_agreement(segmenter, image, canvas, name, place) for place in places]
        )
        checks += len(places)
        disputed = np.count_nonzero(agreements < options.coarse_agreement)
        if len(places) > 0 and disputed <= _MOST_DISPUTED * len(places):
            ids[name] = first + kept
            kept += 1
    labels = ids[objects]
    if initial is not None:
        labels[initial > 0] = initial[initial > 0]
    return labels, kept, checks


def _agreement(
    segmenter: Floods, image: CanvasImage, canvas: Labels, name: int, place: Vec3
) -> float:
    """Return the intersection over union of an object and the network's mask around a place of the canvas.

    `canvas` has the objects, and -1 in the halo, which does not count.
    """
    options, fov = segmenter.options, segmenter.model.fov
    assert options.mean is not None  # the segmenter has checked it
    assert options.std is not None
    margin = [n // 2 for n in fov]
    view = tuple(slice(a - n, a - n + m) for a, n, m in zip(place, margin, fov, strict=True))
    voxels = (image.voxels[view] - np.float32(options.mean)) / np.float32(options.std)
    logits = np.full(fov, _logit(options.pad_value), np.float32)
    logits[tuple(margin)] = _logit(options.init_activation)
    answer = segmenter.evaluate(np.ascontiguousarray(voxels), logits)
    segmenter.network_calls += 1
    middle = tuple(slice(n - 3 * n // 4, n + 3 * n // 4 + 1) for n in margin)
    grown, labels = answer[middle] >= _logit(options.segment_threshold), canvas[view][middle]
    own = labels == name
    both, either = grown & own, (grown | own) & (labels >= 0)
    return int(np.count_nonzero(both)) / max(1, int(np.count_nonzero(either)))


def _places(
    inner: NDArray[np.bool_], image: CanvasImage, factors: Vec3, fov: Vec3, count: int
) -> list[Vec3]:
    """Return up to `count` places of the canvas, spread evenly over the given voxels of the coarse level."""
    middles = np.argwhere(inner) * factors + np.array(factors) // 2 + image.halo_low
    margin = np.array(fov) // 2
    fits = (middles >= margin) & (middles + margin < image.voxels.shape)
    middles = middles[fits.all(axis=1)]
    count = min(count, len(middles))
    chosen = [(2 * i + 1) * len(middles) // (2 * count) for i in range(count)]
    return [as_vec3([int(n) for n in middles[i]]) for i in chosen]


def _inner_voxels(labels: Labels) -> Labels:
    """Return the labels of voxels whose six neighbours are in the same object; all voxels of objects without such."""
    padded = np.pad(labels, 1, mode="edge")
    inner = labels.copy()
    for axis in range(3):
        for side in (slice(None, -2), slice(2, None)):
            beside = [slice(1, -1)] * 3
            beside[axis] = side
            inner[padded[tuple(beside)] != labels] = 0
    return np.where(np.isin(labels, np.unique(inner)), inner, labels)


def _blocked(
    image: CanvasImage,
    initial: Labels | None,
    mask: NDArray[np.uint8] | None,
    factors: Vec3,
) -> tuple[Labels | None, int]:
    """Return what coarse objects must not enter, as an initial segmentation of the coarse level, and its largest id."""
    if initial is None and mask is None:
        return None, 0
    size = image.inner
    labels = np.zeros(size, np.int64) if initial is None else initial
    middles = (
        np.minimum(np.arange(0, n, factor) + factor // 2, n - 1)
        for n, factor in zip(size, factors, strict=True)
    )
    blocked = labels[np.ix_(*middles)].copy()
    if mask is not None:
        ends = [(0, -n % factor) for n, factor in zip(size, factors, strict=True)]
        inner = np.pad(_inside(mask, image.halo_low, size), ends)
        masked = _blocks(inner, factors).any(axis=(1, 3, 5))
        blocked[masked & (blocked == 0)] = int(labels.max(initial=0)) + 1
    return blocked, int(blocked.max(initial=0))


def _coarse_seeds(
    seeds: NDArray[np.integer[Any]] | Sequence[Sequence[int]],
    start: Vec3,
    halo: Vec3,
    factors: Vec3,
) -> NDArray[np.int64]:
    rows = np.asarray(seeds, np.int64).reshape(-1, 3)
    local: NDArray[np.int64] = (rows - np.array(start)) // np.array(factors) + np.array(halo)
    return local


def _coarse_halo(halo: Vec3, fov: Vec3) -> Vec3:
    """Return how many voxels of the coarse level are reflected, at the faces where the image has a halo."""
    return as_vec3([n // 2 if wide > 0 else 0 for wide, n in zip(halo, fov, strict=True)])


def _inside(voxels: NDArray[Any], start: Vec3, size: Vec3) -> NDArray[Any]:
    return voxels[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))]


def _blocks(voxels: NDArray[Any], factors: Vec3) -> NDArray[Any]:
    """Return a view (z, fz, y, fy, x, fx) of the blocks of a volume."""
    shape = itertools.chain(*((n // f, f) for n, f in zip(voxels.shape, factors, strict=True)))
    return voxels.reshape(*shape)


def _neighbours(
    size: int, factor: int, blocks: int
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Return the two nearest blocks of each voxel along an axis, and their weights of linear interpolation."""
    place = (np.arange(size) + 0.5) / factor - 0.5
    below = np.floor(place).astype(np.int64)
    above_weight = (place - below).astype(np.float32)
    return [
        (np.clip(below, 0, blocks - 1), 1 - above_weight),
        (np.clip(below + 1, 0, blocks - 1), above_weight),
    ]


def _most_weight(
    labels: Labels,
    near: Sequence[Sequence[tuple[NDArray[np.int64], NDArray[np.float32]]]],
) -> Labels:
    corners = list(_corners(labels, near))
    best = np.zeros_like(corners[0][0])
    most = np.zeros(best.shape, np.float32)
    for label, _ in corners:
        weight = np.zeros(best.shape, np.float32)
        for other, part in corners:
            weight += np.where(other == label, part, 0)
        better = (weight > most) | ((weight == most) & (label < best))
        best[better], most[better] = label[better], weight[better]
    return best


def _corners(
    labels: Labels,
    near: Sequence[Sequence[tuple[NDArray[np.int64], NDArray[np.float32]]]],
) -> Iterator[tuple[Labels, NDArray[np.float32]]]:
    for (z, wz), (y, wy), (x, wx) in itertools.product(*near):
        yield labels[np.ix_(z, y, x)], wz[:, None, None] * wy[:, None] * wx


def _logit(probability: float) -> np.float32:
    return np.float32(math.log(probability / (1 - probability)))
