# SPDX-License-Identifier: Apache-2.0
"""Boxes of voxels: pairs (start, size) in the order z, y, x, and the texts that users write for them."""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence

from floodtide import errors
from floodtide.base import limits, options

Vec3 = tuple[int, int, int]
Box = tuple[Vec3, Vec3]
Progress = Callable[[int, int], None]


def as_vec3(numbers: Sequence[int]) -> Vec3:
    """Return three numbers (z, y, x) as a tuple. Raise InvalidArgumentError if there are not three."""
    if len(numbers) != 3:
        raise errors.InvalidArgumentError(
            f"{options.shown(numbers)} has {len(numbers)} numbers, expected three (z, y, x)"
        )
    z, y, x = numbers
    return z, y, x


def total(a: Sequence[int], b: Sequence[int]) -> Vec3:
    """Return a + b, of each axis."""
    return as_vec3([i + j for i, j in zip(a, b, strict=True)])


def difference(a: Sequence[int], b: Sequence[int]) -> Vec3:
    """Return a - b, of each axis."""
    return as_vec3([i - j for i, j in zip(a, b, strict=True)])


def slices(box: Box, first: Sequence[int] = (0, 0, 0)) -> tuple[slice, slice, slice]:
    """Return the slices of a box in an array whose first voxel is `first`."""
    z, y, x = (slice(a - b, a - b + n) for a, n, b in zip(*box, first, strict=True))
    return z, y, x


def of_slices(where: Sequence[slice]) -> Box:
    """Return the box of three slices: the inverse of `slices`."""
    return as_vec3([s.start for s in where]), as_vec3([s.stop - s.start for s in where])


def middle(box: Box, size: Sequence[int]) -> Box:
    """Return the box of this size in the middle of another one."""
    return as_vec3([a + (n - m) // 2 for a, n, m in zip(*box, size, strict=True)]), as_vec3(size)


def between(box: Box, axis: int, start: int, end: int) -> Box:
    """Return the planes from `start` to `end` of a box, counted from its first one along an axis."""
    first, size = list(box[0]), list(box[1])
    first[axis], size[axis] = first[axis] + start, end - start
    return as_vec3(first), as_vec3(size)


def is_inside(box: Box, shape: Sequence[int]) -> bool:
    """Return True if all voxels of a box are in a volume of this shape."""
    return all(a >= 0 and a + n <= whole for a, n, whole in zip(*box, shape, strict=True))


def parse_box(text: str) -> Box | None:
    """Return the box of a text "z0:z1,y0:y1,x0:x1" (ends excluded); None for an empty text.

    Raises:
        InvalidArgumentError: If the text is anything else.
    """
    text = str(text or "")
    if not text.strip():
        return None
    start, ends = parse_ends(text, r"\d{1,13}")  # limits.EXTENT has 13 digits
    if not ends or max(ends) not in limits.EXTENT:
        raise errors.InvalidArgumentError(
            f"box {options.shown(text)}: expected z0:z1,y0:y1,x0:x1 with z0 < z1, y0 < y1, x0 < x1,"
            " for example 0:64,0:128,0:128"
        )
    return as_vec3(start), difference(ends, start)


def parse_ends(text: str, number: str) -> tuple[list[int], list[int]]:
    """Return z0, y0, x0 and z1, y1, x1 of a text "z0:z1,y0:y1,x0:x1"; empty lists unless each end is above its start.

    Args:
        number: Regular expression of a number.
    """
    match = re.fullmatch(",".join([rf"\s*({number})\s*:\s*({number})\s*"] * 3), text)
    numbers = [int(number) for number in match.groups()] if match else []
    start, ends = numbers[::2], numbers[1::2]
    return (start, ends) if all(map(operator.lt, start, ends)) else ([], [])


def parse_boxes(text: str) -> list[Box]:
    """Return the boxes of a text "z0:z1,y0:y1,x0:x1; z0:...", each as `parse_box`; none for an empty text."""
    boxes = [parse_box(part) for part in str(text or "").split(";")]
    return [box for box in boxes if box is not None]


def box_text(box: Box | None) -> str:
    """Return "z0:z1,y0:y1,x0:x1" for a box, the inverse of `parse_box`; an empty text for None."""
    if box is None:
        return ""
    return ",".join(f"{start}:{start + size}" for start, size in zip(*box, strict=True))


def intersection(a: Box, b: Box) -> Box | None:
    """Return the box that two boxes share; None if they share no voxel."""
    start = as_vec3([*map(max, a[0], b[0])])
    size = difference([*map(min, total(*a), total(*b))], start)
    return None if min(size) < 1 else (start, size)


def grown(box: Box, by: Sequence[int], shape: Sequence[int]) -> Box:
    """Return a box with `by` more voxels on each side of an axis, as far as a volume of this shape has them."""
    low = [max(0, a - more) for a, more in zip(box[0], by, strict=True)]
    high = [min(b + more, n) for b, more, n in zip(total(*box), by, shape, strict=True)]
    return as_vec3(low), difference(high, low)


def tiles(whole: Box, size: Sequence[int]) -> Iterator[Box]:
    """Yield the boxes of a size, smaller at the ends, that cover a box, in the order of their first voxels."""
    for place in itertools.product(*map(range, (0, 0, 0), whole[1], size)):
        yield total(whole[0], place), as_vec3([*map(min, size, difference(whole[1], place))])


def reported(boxes: Sequence[Box], progress: Progress | None) -> Iterator[Box]:
    """Yield boxes. When the next one is asked for, call progress(voxels done, voxels)."""
    done, voxels = 0, sum(math.prod(size) for _, size in boxes)
    for box in boxes:
        yield box
        done += math.prod(box[1])
        if progress is not None:
            progress(done, voxels)


def part_of(progress: Progress, index: int, parts: int) -> Progress:
    """Return the progress callback of one of several equal parts of the work, counted from 0."""
    return lambda done, total: progress(index * total + done, parts * total)
