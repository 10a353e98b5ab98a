# SPDX-License-Identifier: Apache-2.0
"""Where the labels of a volume are: everywhere, in boxes, in single sections, or scattered."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import (
    Box,
    Progress,
    as_vec3,
    between,
    difference,
    reported,
    slices,
    total,
)
from floodtide.data.formats.writers import blocks
from floodtide.data.no_label import cleared
from floodtide.data.volumes import Volume

Form = Literal["everywhere", "box", "boxes", "sections", "scattered", "none"]

_READ = 16  # times the budget: voxels up to which every voxel is read
_CELLS = 1 << 26  # of the map of labelled places
_TILE = 1 << 22  # voxels that are read at a time; a chunk may be up to four times as large
_MOST = 64  # boxes
_GAP = 4  # unlabelled planes between two boxes
_THIN = 3  # planes of a labelled section, at most
_SOLID = 0.5  # labelled share of each face of a box of labels, to that of the whole box
_NEARLY = 0.9  # share of an axis over which scattered labels reach, if they are everywhere

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Where labels other than 0 are in a box of a volume.

    Attributes:
        form: "everywhere"; "box" or "boxes" that labels fill; "sections" of at most three planes; "scattered" if labels
            fill no boxes, so that 0 between them may be background or unlabelled; "none".
        boxes: Boxes (start, size), in voxels of the volume, that contain every labelled voxel that was read. The faces
            of boxes that labels fill, and of sections, are exact if `exact`.
        voxels: Number of labelled voxels; estimated unless `exact`.
        empty_sections: Number of sections (z) without labels.
        exact: True if every voxel was read.
    """

    form: Form
    boxes: tuple[Box, ...]
    voxels: int
    empty_sections: int
    exact: bool

    @property
    def share(self) -> float:
        """Share of the voxels in the boxes that are labelled."""
        return self.voxels / max(1, sum(math.prod(size) for _, size in self.boxes))


def labelled(volume: Volume, whole: Box, budget: int, progress: Progress | None = None) -> Labelled:
    """Return where the labels of a box are.

    Every voxel is read if there are at most 16 times `budget`; else layers at regular distances, and labels are taken
    to reach to the next layers on both sides.
    """
    mask, cell, voxels, exact = _scan(volume, whole, budget, progress)
    empty = int(np.count_nonzero(~mask.any(axis=(1, 2))))
    form, boxes = _boxes(mask, cell) if mask.any() else ("none", [])
    open_ = form in ("everywhere", "sections")  # up to the faces of the volume, whatever the labels
    inside = tuple(_cut(volume, whole, box, cell, open_) for box in boxes)
    return Labelled(form=form, boxes=inside, voxels=voxels, empty_sections=empty, exact=exact)


def _scan(
    volume: Volume, whole: Box, budget: int, progress: Progress | None
) -> tuple[Mask, int, int, bool]:
    """Return a map of labelled places (z, y / cell, x / cell), `cell`, the labelled voxels, and if all were read."""
    first, shape = whole
    cell = 1
    while shape[0] * -(-shape[1] // cell) * -(-shape[2] // cell) > _CELLS:
        cell *= 2
    mask = np.zeros((shape[0], -(-shape[1] // cell), -(-shape[2] // cell)), bool)
    chunks = volume.chunks if math.prod(volume.chunks) <= 4 * _TILE else (1, 2048, 2048)
    cells = as_vec3([chunks[0], *(math.lcm(n, cell) for n in chunks[1:])])
    parts = list(blocks(shape, cells, _TILE))
    depth = parts[0][1][0]
    step = max(1, -(-math.prod(shape) // (_READ * budget)))
    layers = range(0, shape[0], depth * step)
    read = voxels = 0
    for at, size in reported([part for part in parts if part[0][0] in layers], progress):
        there = cleared(volume.read((total(first, at), size))) != 0
        voxels += int(np.count_nonzero(there))
        read += there.size
        for axis in (1, 2) if cell > 1 else ():
            starts = np.arange(0, there.shape[axis], cell)
            there = np.logical_or.reduceat(there, starts, axis=axis)
        z, y, x = at[0], at[1] // cell, at[2] // cell
        mask[slices(((z, y, x), as_vec3(there.shape)))] = there
    gap = depth * (step - 1)  # sections between two layers, which are not read
    for z in layers if gap else ():
        seen = mask[z : z + depth].any(axis=0)
        mask[max(0, z - gap) : z] |= seen
        mask[z + depth : z + depth + gap] |= seen
    exact = read == math.prod(shape)
    return mask, cell, voxels if exact else round(voxels / read * math.prod(shape)), exact


def _boxes(mask: Mask, cell: int) -> tuple[Form, list[Box]]:
    """Return the form of the labels of a map, and the boxes (start, size) in the map."""
    whole = ((0, 0, 0), as_vec3(mask.shape))
    if thin := _sections(mask, (0, 1, 2) if cell == 1 else (0,)):
        return "sections", thin
    found = _tight(mask, whole)
    pieces = _split(mask, found, 1)
    if not pieces or not all(mask[slices(one)].all() for one in pieces):
        pieces = _split(mask, found, _GAP)
    if pieces and all(_solid(mask, piece) for piece in pieces):
        if pieces == [whole]:
            return "everywhere", pieces
        return "box" if len(pieces) == 1 else "boxes", pieces
    if all(n >= _NEARLY * extent for n, extent in zip(found[1], mask.shape, strict=True)):
        return "everywhere", [whole]
    return "scattered", [found]


def _sections(mask: Mask, axes: tuple[int, ...]) -> list[Box]:
    """Return single labelled planes along one of the axes, others being unlabelled; nothing for other labels."""
    for axis in axes:
        runs = _runs(_profile(mask, axis), 1)
        planes = sum(end - start for start, end in runs)
        if len(runs) > _MOST or planes == mask.shape[axis] or any(b - a > _THIN for a, b in runs):
            continue
        thin = [between(((0, 0, 0), as_vec3(mask.shape)), axis, *run) for run in runs]
        tight = [(_tight(mask, one), one) for one in thin]
        return [box if _solid(mask, box, skip=axis) else one for box, one in tight]
    return []


def _split(mask: Mask, box: Box, gap: int) -> list[Box]:
    """Return tight boxes that at least `gap` unlabelled planes separate; none if there are too many."""
    open_, done = [box], []
    while open_:
        part = open_.pop()
        for axis in range(3):
            runs = _runs(_profile(mask[slices(part)], axis), gap)
            if len(runs) > 1:
                open_ += [_tight(mask, between(part, axis, *run)) for run in runs]
                break
        else:
            done.append(part)
        if len(open_) + len(done) > _MOST:
            return []
    return sorted(done)


def _solid(mask: Mask, box: Box, skip: int | None = None) -> bool:
    """Return True if labels fill a box up to its faces, apart from those at the end of the volume."""
    view = mask[slices(box)]
    least = _SOLID * float(view.mean())
    for axis in range(3):
        planes = np.moveaxis(view, axis, 0)
        inner = (box[0][axis] > 0, box[0][axis] + box[1][axis] < mask.shape[axis])
        for plane, judged in zip((planes[0], planes[-1]), inner, strict=True):
            if judged and axis != skip and float(plane.mean()) < least:
                return False
    return True


def _profile(mask: Mask, axis: int) -> Mask:
    """Return which planes along an axis have labels."""
    return np.asarray(mask.any(axis=tuple(other for other in range(3) if other != axis)))


def _runs(profile: Mask, gap: int) -> list[tuple[int, int]]:
    """Return (start, end) of the runs of True, joined over fewer than `gap` times False."""
    at = np.flatnonzero(profile)
    breaks = np.flatnonzero(np.diff(at) > gap)
    starts, ends = at[np.concatenate([[0], breaks + 1])], at[np.concatenate([breaks, [-1]])]
    return [(int(a), int(b) + 1) for a, b in zip(starts, ends, strict=True)]


def _tight(mask: Mask, box: Box) -> Box:
    """Return the smallest box around True in a box, which must have some."""
    at = [np.flatnonzero(_profile(mask[slices(box)], axis)) for axis in range(3)]
    first = as_vec3([int(one[0]) for one in at])
    return total(box[0], first), difference([int(one[-1]) + 1 for one in at], first)


def _cut(volume: Volume, whole: Box, box: Box, cell: int, open_: bool) -> Box:
    """Return a box of the map in voxels of the volume, cut to the labelled voxels in the cells at its faces.

    If `open_`, faces at the end of the volume stay.
    """
    first, shape = whole
    cells = (1, cell, cell)
    low = [a * n for a, n in zip(box[0], cells, strict=True)]
    high = [min(a * n, end) for a, n, end in zip(total(*box), cells, shape, strict=True)]
    for axis, at_end in itertools.product((1, 2) if cell > 1 else (), (False, True)):
        if open_ and (high[axis] == shape[axis] if at_end else low[axis] == 0):
            continue
        start, size = list(low), list(difference(high, low))
        size[axis] = min(cell, size[axis])
        start[axis] = high[axis] - size[axis] if at_end else low[axis]
        there = cleared(volume.read((total(first, start), as_vec3(size)))) != 0
        at = np.flatnonzero(_profile(there, axis)).tolist() or [0, size[axis] - 1]
        if at_end:
            high[axis] = start[axis] + at[-1] + 1
        else:
            low[axis] = start[axis] + at[0]
    return total(first, low), difference(high, low)
