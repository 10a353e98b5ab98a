# SPDX-License-Identifier: Apache-2.0
"""Places of segments from affinities that a person should look at first, found without truth.

There are three kinds: two segments that were nearly merged, two pieces of a segment that were barely merged, and small
segments that touch no face of the box.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from floodtide.data import Vec3
from floodtide.data.boxes import as_vec3
from floodtide.data.places import END, MERGE, MOST, SPLIT, Place, doubt
from floodtide.segment import linking

_WINDOW = 0.3  # largest distance of a score from the threshold
_LEAST = 50  # voxels of the smaller side of a merge
_SMALL = 0.1  # largest size of a segment that ends, relative to that of the middle voxel's segment
_QUANTILES = {"median": 0.5, "quantile75": 0.75}
_NEAR = 8  # voxels along each axis from a contact to the voxels that stand for its sides
_REACH = 2  # voxels around these that should be of the same side

Numbers = NDArray[np.int64]
Side = tuple[int, int]  # numbers from the first to below the second


class _Doubt(NamedTuple):
    kind: str
    score: float
    voxels: tuple[int, int]
    sides: tuple[Side, Side]


def segments_with_places(
    affinities: linking.Affinities, offsets: Sequence[Vec3], options: linking.AffinityOptions
) -> tuple[NDArray[np.uint64], list[Place]]:
    """Return what `segments_of` returns, and the places to look at, the most doubtful first.

    Positions are voxels of the array.
    """
    higher = min(options.threshold + _WINDOW, 0.999)
    labels, pieces = linking.segments_and_pieces(affinities, offsets, options, higher)
    values = linking.nearest_affinities(affinities, offsets, options.method)
    between = _Contacts(labels.view(np.int64), values)
    doubts = [(one, between) for one in _splits_and_ends(between, options)]
    history = linking.joined(values, options.method, options.threshold, pieces)
    positions, merges = _merges(history, pieces)
    inside = _Contacts(positions, values)
    doubts += [(one, inside) for one in merges]
    threshold = options.threshold
    doubts.sort(key=lambda pair: -doubt(pair[0].kind, pair[0].score, pair[0].voxels, threshold))
    found = [_place(one, contacts, labels) for one, contacts in doubts[:MOST]]
    return labels, [place for place in found if place is not None]


class _Contacts:
    """Pairs of neighbouring voxels with different numbers.

    Args:
        numbers: (z, y, x); 0 is nothing.
        values: Affinities of the nearest neighbours.

    Attributes:
        first: The smaller number of each contact, ascending.
        second: The larger one.
        begins: Index of the first pair of voxels of each contact.
        counts: Number of pairs of each contact.
        affinities: Of each pair, ascending in a contact.
        voxels: Flat index of the second voxel of each pair.
    """

    def __init__(self, numbers: Numbers, values: NDArray[np.float32]) -> None:
        self.numbers = numbers = np.ascontiguousarray(numbers)
        keys, voxels, affinities = [], [], []
        most = int(numbers.max(initial=0)) + 1
        flat = numbers.ravel()
        for axis, stride in enumerate(numbers.strides):
            here = tuple(slice(1 if axis == k else 0, None) for k in range(3))
            before = tuple(slice(None, -1 if axis == k else None) for k in range(3))
            apart = np.zeros(numbers.shape, np.bool_)
            a, b = numbers[before], numbers[here]
            apart[here] = (a != b) & (a > 0) & (b > 0)
            at = np.flatnonzero(apart)
            a, b = flat[at - stride // numbers.itemsize], flat[at]
            keys.append(np.minimum(a, b) * most + np.maximum(a, b))
            affinities.append(values[axis].ravel()[at])
            voxels.append(at)
        key, affinity = np.concatenate(keys), np.concatenate(affinities)
        order = np.lexsort((affinity, key))
        self.affinities, self.voxels = affinity[order], np.concatenate(voxels)[order]
        known, self.begins, self.counts = np.unique(
            key[order], return_index=True, return_counts=True
        )
        self.first, self.second = np.divmod(known, most)

    def scores(self, method: str) -> NDArray[np.float64]:
        """Return the affinity of each contact."""
        if method in _QUANTILES:
            at = self.begins + (_QUANTILES[method] * (self.counts - 1)).astype(np.int64)
            return self.affinities[at].astype(np.float64)
        sums = np.add.reduceat(self.affinities.astype(np.float64), self.begins)
        means: NDArray[np.float64] = sums / self.counts
        return means

    def middle(self, a: Side, b: Side) -> Numbers:
        """Return the voxel in the middle of the contact of two sides; of the first side if they do not touch."""
        low, high = min(a, b), max(a, b)
        begin, end = np.searchsorted(self.first, low)
        other = self.second[begin:end]
        chosen = begin + np.flatnonzero((other >= high[0]) & (other < high[1]))
        if len(chosen):
            ranges = zip(self.begins[chosen], self.counts[chosen], strict=True)
            voxels = np.concatenate([self.voxels[n : n + k] for n, k in ranges])
        else:
            voxels = np.flatnonzero((self.numbers >= a[0]) & (self.numbers < a[1]))
        where = np.stack(np.unravel_index(voxels, self.numbers.shape), axis=1)
        middle: Numbers = where[((where - where.mean(axis=0)) ** 2).sum(axis=1).argmin()]
        return middle


def _splits_and_ends(contacts: _Contacts, options: linking.AffinityOptions) -> Iterator[_Doubt]:
    """Yield the contacts of segments that were nearly merged, and the small segments that touch no face."""
    labels = contacts.numbers
    sizes = np.bincount(labels.ravel())
    ends = set(_ends(labels, sizes))
    pairs = list(zip(contacts.first.tolist(), contacts.second.tolist(), strict=True))
    scores = contacts.scores(options.method).tolist()
    best: dict[int, int] = {}
    for number, pair in enumerate(pairs):
        for one in ends.intersection(pair):
            if one not in best or scores[number] > scores[best[one]]:
                best[one] = number
    for one in sorted(ends):
        score, other = 0.0, 0
        if one in best:
            score, other = scores[best[one]], sum(pairs[best[one]]) - one
        voxels = int(sizes[one]), int(sizes[other]) if other else 0
        yield _Doubt(END, score, voxels, ((one, one + 1), (other, other + 1)))
    known = set(best.values())
    for number, (a, b) in enumerate(pairs):
        if number not in known and abs(scores[number] - options.threshold) <= _WINDOW:
            voxels = int(sizes[a]), int(sizes[b])
            yield _Doubt(SPLIT, scores[number], voxels, ((a, a + 1), (b, b + 1)))


def _ends(labels: Numbers, sizes: Numbers) -> list[int]:
    """Return the small segments that touch no face of the array."""
    inside = sizes > 0
    inside[0] = False
    for axis in range(3):
        for face in (0, -1):
            inside[np.unique(labels.take(face, axis))] = False
    order = np.sort(sizes[1:])
    half = np.searchsorted(np.cumsum(order), order.sum() / 2)
    usual = order[half] if len(order) else 0
    return np.flatnonzero(inside & (sizes < _SMALL * usual)).tolist()


def _merges(
    history: Sequence[tuple[float, int, int]], pieces: NDArray[np.uint64]
) -> tuple[Numbers, list[_Doubt]]:
    """Return new numbers of pieces, and the merges of large pieces. Both sides of a merge have successive numbers."""
    voxels = np.bincount(pieces.ravel().view(np.int64)).tolist()
    members = [[piece] for piece in range(len(voxels))]  # of what has the number of its first one
    large = []
    for score, a, b in history:
        if min(voxels[a], voxels[b]) >= _LEAST:
            sides = (a, len(members[a])), (b, len(members[b]))
            large.append((score, (voxels[a], voxels[b]), sides))
        voxels[a] += voxels[b]
        members[a] += members[b]
        members[b] = []
    order = [piece for group in members[1:] for piece in group]
    place = np.zeros(len(voxels), np.int64)
    place[order] = np.arange(1, len(order) + 1)
    found = []
    for score, of_both, sides in large:
        (a, of_a), (b, of_b) = ((int(place[one]), count) for one, count in sides)
        found.append(_Doubt(MERGE, score, of_both, ((a, a + of_a), (b, b + of_b))))
    return place[pieces], found


def _place(doubt: _Doubt, contacts: _Contacts, labels: NDArray[np.uint64]) -> Place | None:
    """Return where a doubt is; None if its segment was too small, or is background."""
    middle = contacts.middle(*doubt.sides)
    near = tuple(slice(max(0, n - _NEAR), n + _NEAR + 1) for n in middle.tolist())
    corner = np.array([part.start for part in near])
    numbers = contacts.numbers[near]
    found = []
    for low, high in doubt.sides:
        depth = _depth((numbers >= low) & (numbers < high))
        deepest = np.stack(np.nonzero(depth == depth.max()), axis=1) + corner
        nearest = ((deepest - middle) ** 2).sum(axis=1).argmin()
        found.append(as_vec3(deepest[nearest].tolist()))
    a, b = (int(labels[side]) for side in found)
    if doubt.kind == END and doubt.sides[1][0] == 0:
        found[1], b = found[0], 0
    if a == 0 or (doubt.kind == MERGE and a != b):
        return None
    zyx = as_vec3(middle.tolist())
    return Place(zyx, doubt.kind, doubt.score, (a, b), doubt.voxels, (found[0], found[1]))


def _depth(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many of the voxels around each voxel of a mask are in the mask; 0 elsewhere."""
    counts = np.pad(mask.astype(np.int64), _REACH)
    for axis in range(3):
        counts = sliding_window_view(counts, 2 * _REACH + 1, axis).sum(axis=-1)
    return np.where(mask, counts, 0)
