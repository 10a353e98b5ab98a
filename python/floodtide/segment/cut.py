# SPDX-License-Identifier: Apache-2.0
"""How a box is cut into overlapping subvolumes, which are segmented one by one and reconciled afterwards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from floodtide.data import Box, Vec3
from floodtide.data.boxes import intersection
from floodtide.errors import InvalidArgumentError, OutOfRangeError

_MOST = 1 << 22  # subvolumes; a damaged plan may claim any number


@dataclass(frozen=True)
class Cut:
    """Overlapping subvolumes of one size that cover a box. Their numbers count from 0, along x first.

    The subvolumes are spread evenly, so that each overlap is at least the one asked for. The core of a subvolume is its
    part up to the middle of each overlap. The cores cover every voxel of the box once.

    Args:
        box: (start, size) of the whole box, in voxels of the volume.
        size: Size (z, y, x) of a subvolume; where the box is smaller, the size of the box.
        overlap: Smallest number of voxels (z, y, x) that neighbours share; at most half a subvolume.

    Raises:
        InvalidArgumentError: If a size is below 1, an overlap is negative or more than half a subvolume, or there are
            more than 2^22 subvolumes.
    """

    box: Box
    size: Vec3
    overlap: Vec3

    def __post_init__(self) -> None:
        if min(self.size) < 1:
            raise InvalidArgumentError(
                f"segment: subvolumes of {self.size} voxels, expected at least 1 along each axis"
            )
        cut = [n for n, whole in zip(self.size, self.box[1], strict=True) if n < whole]
        overlaps = [
            o for o, n, w in zip(self.overlap, self.size, self.box[1], strict=True) if n < w
        ]
        if min(self.overlap) < 0 or any(2 * o > n for o, n in zip(overlaps, cut, strict=True)):
            raise InvalidArgumentError(
                f"segment: an overlap of {self.overlap} voxels between subvolumes of {self.size}, expected at most half"
                " a subvolume"
            )
        z, y, x = (min(n, whole) for n, whole in zip(self.size, self.box[1], strict=True))
        object.__setattr__(self, "size", (z, y, x))
        count = math.prod(map(_count, self.box[1], self.size, self.overlap))
        if count > _MOST:
            raise InvalidArgumentError(
                f"segment: {count} subvolumes of {self.size} voxels, expected at most {_MOST}: larger ones"
            )

    @cached_property
    def starts(self) -> tuple[tuple[int, ...], ...]:
        """First voxels of the subvolumes along z, y and x, in voxels of the volume."""
        return tuple(
            tuple(begin + at for at in _starts(whole, n, overlap))
            for begin, whole, n, overlap in zip(*self.box, self.size, self.overlap, strict=True)
        )

    @property
    def counts(self) -> Vec3:
        """Numbers of subvolumes along z, y and x."""
        z, y, x = map(len, self.starts)
        return z, y, x

    def __len__(self) -> int:
        z, y, x = self.counts
        return z * y * x

    def subvolume(self, number: int) -> Box:
        """Return the box (start, size) of a subvolume, in voxels of the volume.

        Raises:
            OutOfRangeError: If there is no subvolume of this number.
        """
        z, y, x = (starts[i] for starts, i in zip(self.starts, self._place(number), strict=True))
        return (z, y, x), self.size

    def core(self, number: int) -> Box:
        """Return the box of the voxels that the whole segmentation takes from a subvolume.

        Raises:
            OutOfRangeError: If there is no subvolume of this number.
        """
        edges = [
            self._edges(axis)[i : i + 2] for axis, i in enumerate(self._place(number))
        ]  # begin and end
        z, y, x = (begin for begin, _ in edges)
        nz, ny, nx = (end - begin for begin, end in edges)
        return (z, y, x), (nz, ny, nx)

    def neighbours(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs (smaller number, larger number) of subvolumes that share a face, an edge or a corner."""
        for number in range(len(self)):
            here = self._place(number)
            for step in itertools.product((-1, 0, 1), repeat=3):
                there = [i + d for i, d in zip(here, step, strict=True)]
                if all(0 <= i < n for i, n in zip(there, self.counts, strict=True)):
                    other = self._number(there)
                    if other > number:
                        yield number, other

    def shared(self, a: int, b: int) -> Box:
        """Return the box that two neighbours share.

        Raises:
            OutOfRangeError: If they share none.
        """
        box = intersection(self.subvolume(a), self.subvolume(b))
        if box is None:
            raise OutOfRangeError(f"subvolumes {a} and {b} share no voxel")
        return box

    def cores_in(self, box: Box) -> list[int]:
        """Return the numbers of the subvolumes whose cores have voxels in a box."""
        ranges = []
        for axis in range(3):
            edges = self._edges(axis)
            begin, end = box[0][axis], box[0][axis] + box[1][axis]
            ranges.append(
                [i for i, (a, b) in enumerate(itertools.pairwise(edges)) if a < end and b > begin]
            )
        return [self._number(place) for place in itertools.product(*ranges)]

    def _edges(self, axis: int) -> list[int]:
        starts, size = self.starts[axis], self.size[axis]
        middles = [(before + size + after) // 2 for before, after in itertools.pairwise(starts)]
        return [starts[0], *middles, starts[-1] + size]

    def _place(self, number: int) -> Vec3:
        if not 0 <= number < len(self):
            raise OutOfRangeError(f"subvolume {number}: expected one from 0 to {len(self) - 1}")
        _, y, x = self.counts
        return number // (y * x), number // x % y, number % x

    def _number(self, place: Sequence[int]) -> int:
        _, y, x = self.counts
        return (place[0] * y + place[1]) * x + place[2]


def _count(whole: int, size: int, overlap: int) -> int:
    return 1 if size >= whole else 1 - (size - whole) // (size - overlap)


def _starts(whole: int, size: int, overlap: int) -> list[int]:
    last = _count(whole, size, overlap) - 1
    return [i * (whole - size) // max(1, last) for i in range(last + 1)]
