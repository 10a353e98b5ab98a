# SPDX-License-Identifier: Apache-2.0
"""Statistics of a label volume: where labels are, whether they are objects or classes, sizes, what 0 means."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.data.boxes import Box, Progress, box_text, middle, part_of
from floodtide.data.look import sampling
from floodtide.data.look.labelled import Labelled, labelled
from floodtide.data.look.sampling import Array
from floodtide.data.no_label import cleared
from floodtide.data.volumes import Volume, computed
from floodtide.errors import InvalidFileError

LIMITS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Sizes in voxels for which `LabelStatistics.at_least` counts objects."""

_CUBES = 1 << 23  # voxels in which changes between neighbours are counted
_SHOWN = 4  # boxes that messages list
_READ_BOXES = 16  # labelled boxes that are looked at
_VALUES = int(limits.MASK_CLASSES.maximum)  # values that may be classes
_EDGE = 0.5  # share of the voxels of a value that lie between a lower and a higher one, if it is that of smooth edges
_FEW_EDGES = 3  # such values that a mask with smooth edges has at least
_GREY = 0.4  # share of all voxels that are not of a value inside of such a mask, at most
_MOSTLY = 0.8  # share of these voxels that such values have
_SOME = 0.001  # share of the voxels that a value inside of a mask has at least
_BLOCK, _BLOCKS = 1 << 21, 4  # voxels of a block in which connected pieces are counted, and blocks
_MAIN = 0.995  # share of the labelled voxels that decide; smoothed edges of masks have more values
_SPECK = 10  # voxels; smaller pieces do not count
_PIECES = 4.0  # connected pieces of a value from which the values are classes
_WHOLE = 2.0  # up to which they are objects, if their ids say so
_FEW_IDS = 8  # values up to which whole pieces may be large classes
_SMALL = 255  # highest id that a class has
_APART = 0.01  # share of neighbours with 0 between them, below which they are said to touch
_NOISY = 0.3  # share of neighbours that differ, above which they do not look like labels


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """What lies beside what along the axes, inside of the boxes that have labels.

    Attributes:
        changes: Along z, y and x: share of neighbouring voxels that differ.
        zero_between: Share of the changes from one object to another along an axis with voxels labelled 0 between the
            two objects; the others touch.
        zero_width: Median number of voxels between two such objects; 0 without any.
        run: Mean number of voxels along z, y and x that an object extends.
        inner: The values of a mask whose edges are smooth, because it was resized or compressed: most voxels of other
            values lie between a lower and a higher one. Empty for other labels.
    """

    changes: tuple[float, float, float]
    zero_between: float
    zero_width: float
    run: tuple[float, float, float]
    inner: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LabelStatistics(Labelled, Neighbours, sampling.Sample):
    """Statistics of a box of a label volume. 0 is no object.

    Attributes:
        objects: Number of ids other than 0.
        lowest, highest: Lowest id that occurs, 0 included, and highest one.
        unlabelled: Share of the voxels labelled 0.
        at_least: Number of objects of at least LIMITS voxels.
        median_size: Median size of the objects in voxels.
        largest: The ten largest objects, as (id, voxels).
        values: (value, voxels) of the 33 most frequent values, and of 0 if it occurs, in ascending order.
        kind: Whether values are "classes" or "objects"; "unsure" if a sample does not tell.
        kind_reason: What says so, as a clause: "value 255 lies in 143 separate places of the sample".
    """

    objects: int
    lowest: int
    highest: int
    unlabelled: float
    at_least: tuple[int, ...]
    median_size: float
    largest: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]
    kind: Literal["classes", "objects", "unsure"]
    kind_reason: str

    @property
    def words(self) -> str:
        """What the values are, where they are, and what lies between objects, in one line."""
        unsure = "objects or classes, unsure which"
        parts = [f"{unsure if self.kind == 'unsure' else self.kind} ({self.kind_reason})"]
        if self.form == "everywhere":
            parts.append("everywhere")
        elif self.form != "none":
            parts.append(f"in {self.place}")
        if self.kind != "classes" and self.zero_between >= _APART:
            wide = f"{self.zero_width:.0f} voxel{'s' * (self.zero_width != 1)} of label 0"
            parts.append(f"{100 * self.zero_between:.0f} % of neighbours have {wide} between them")
        elif self.kind != "classes" and self.objects > 1:
            parts.append("neighbours touch")
        return ", ".join(parts)

    @property
    def place(self) -> str:
        """Where labels are, in words: "2 boxes (0:64,0:64,0:64 and 70:99,0:64,0:64), 12 % of the volume"."""
        texts = [box_text(box) for box in self.boxes[:_SHOWN]]
        more = f" and {len(self.boxes) - _SHOWN} more" if len(self.boxes) > _SHOWN else ""
        one, several = ("section", "sections") if self.form == "sections" else ("box", "boxes")
        word = several if len(self.boxes) > 1 else one
        share = sum(math.prod(size) for _, size in self.boxes) / math.prod(self.shape)
        found = "" if self.exact else ", as far as a sample tells"
        shown = f"{float(f'{100 * share:.2g}'):g} % of the volume{found}"
        return f"{len(self.boxes)} {word} ({'; '.join(texts)}{more}), {shown}"

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The first and the last value that count to each of the values `inner`."""
        ends = [(a + b) // 2 for a, b in itertools.pairwise(self.inner)]
        starts = [min(self.lowest, *self.inner), *(end + 1 for end in ends)]
        return tuple(zip(starts, [*ends, self.highest], strict=True)) if self.inner else ()

    @property
    def flat_axis(self) -> int | None:
        """The axis along which labels are those of single sections: nearly every voxel differs from the next one."""
        _, other, most = sorted(self.changes)
        return self.changes.index(most) if most > 0.6 and other < 0.3 else None

    @property
    def like_image(self) -> bool:
        """True if many neighbouring voxels differ along all axes, as grey levels do and objects do not."""
        return min(self.changes) > _NOISY


def label_statistics(
    volume: Volume,
    *,
    box: Box | None = None,
    budget: int = sampling.FULL,
    progress: Progress | None = None,
) -> LabelStatistics:
    """Return the statistics of labels. A box of more than `budget` voxels is sampled, where labels are.

    Args:
        volume: Labels: integers, or floating-point numbers that are whole.
        box, progress: As for `image_statistics`.
        budget: Voxels to read. To find where labels are, up to 16 times as many are read.

    Raises:
        InvalidFileError: If the volume cannot be read, or does not hold whole numbers.
    """
    volume = integers_of(volume)
    whole = box or sampling.whole_of(volume.shape)
    found = labelled(volume, whole, budget, progress and part_of(progress, 0, 2))
    inside = list(found.boxes or (whole,))
    step = -(-len(inside) // _READ_BOXES)
    inside = inside[step // 2 :: step]
    boxes = sampling.sample(whole, budget)
    if math.prod(whole[1]) > budget:
        boxes = [part for one in inside for part in sampling.sample(one, budget // len(inside))]
    slabs = sampling.slabs(volume, boxes, progress and part_of(progress, 1, 2))
    ids, counts = _merged([_table(cleared(stored, volume.name)) for _, stored in slabs])
    sizes = counts.astype(np.int64)
    order = np.argsort(-sizes[ids != 0], kind="stable")
    objects, voxels = ids[ids != 0][order], sizes[ids != 0][order]
    near = _neighbours(volume, inside, budget)
    frequent = [*zip(objects.tolist(), voxels.tolist(), strict=True)][: _VALUES + 1]
    zero = [(0, int(sizes[ids == 0].sum()))] if (ids == 0).any() else []
    main = objects[: 1 + int(np.searchsorted(np.cumsum(voxels), _MAIN * voxels.sum()))]
    pieces = _pieces(volume, inside, budget, main, found.form) if len(main) <= _VALUES else {}
    kind, reason = _kind(len(objects), main, pieces)
    if near.inner:
        kind = "classes"
        reason = f"a mask of {', '.join(map(str, near.inner))} with smooth edges, which have {len(ids)} values"
    return LabelStatistics(
        name=volume.name,
        shape=whole[1],
        dtype=volume.dtype.name,
        sampled=int(sizes.sum()),
        objects=len(objects),
        lowest=int(ids.min()),
        highest=int(ids.max()),
        unlabelled=1 - found.voxels / math.prod(whole[1]),
        at_least=tuple(int(np.count_nonzero(voxels >= limit)) for limit in LIMITS),
        median_size=float(np.median(voxels)) if len(voxels) else 0.0,
        largest=tuple(frequent[:10]),
        values=tuple(sorted(zero + frequent)),
        kind=kind,
        kind_reason=reason,
        **vars(found),
        **vars(near),
    )


def integers_of(volume: Volume) -> Volume:
    """Return labels as integers. Raise InvalidFileError for floating-point numbers that are not whole in a sample."""
    if volume.dtype.kind in "iu":
        return volume
    largest = 2 ** (np.finfo(volume.dtype).nmant + 1)  # integers above are rounded

    def read(box: Box) -> NDArray[np.int64]:
        values = volume.read(box)
        wrong = np.argwhere(~((np.floor(values) == values) & (np.abs(values) <= largest)))
        if len(wrong):
            place = ", ".join(map(str, wrong[0] + box[0]))
            raise InvalidFileError(
                f"{volume.name}: labels are {volume.dtype}, and {values[tuple(wrong[0])]:g} at {place} (z, y, x);"
                f" expected whole numbers (classes or ids) up to {largest}; store larger ids as integers, and segment"
                " probabilities first"
            )
        return values.astype(np.int64)

    for box in sampling.sample(sampling.whole_of(volume.shape), sampling.QUICK):
        read(box)
    return computed(volume, read, np.dtype(np.int64))


def changed(labels: Array) -> tuple[NDArray[np.bool_], tuple[float, float, float]]:
    """Return which voxels differ from a neighbour along some axis, and the share of differing pairs along z, y, x.

    Next to a plane without any label, nothing differs: such a plane is not labelled.
    """
    boundary = np.zeros(labels.shape, bool)
    shares = []
    for axis in range(3):
        along, marked = np.moveaxis(labels, axis, 0), np.moveaxis(boundary, axis, 0)
        there = np.asarray(along.any(axis=(1, 2)))
        differ = along[1:] != along[:-1]
        shares.append(float(differ.mean()) if differ.size else 0.0)
        differ &= (there[1:] & there[:-1])[:, None, None]
        marked[1:] |= differ
        marked[:-1] |= differ
    return boundary, (shares[0], shares[1], shares[2])


def _neighbours(volume: Volume, boxes: Sequence[Box], budget: int) -> Neighbours:
    """Compare voxels with their neighbours along each axis, in cubes."""
    each = min(budget, _CUBES) // len(boxes)
    touching, labelled_voxels, runs = 0, 0, np.zeros(3)
    shares, widths, tables, edges = [], [], [], []
    for cube in (cube for box in boxes for cube in sampling.cubes_within(box, each)):
        labels = cleared(volume.read(cube))
        shares.append(changed(labels)[1])
        labelled_voxels += int(np.count_nonzero(labels))
        edge = np.zeros(labels.shape, bool)
        for axis in range(3):
            # One after the other, the labelled voxels of all lines along an axis.
            lines = np.moveaxis(labels, axis, -1).reshape(-1, labels.shape[axis])
            line, at = np.nonzero(lines)
            ids = lines[line, at]
            same, other = line[1:] == line[:-1], ids[1:] != ids[:-1]
            gaps = at[1:] - at[:-1] - 1
            pairs = gaps[same & other]
            touching += int(np.count_nonzero(pairs == 0))
            widths.append(pairs[pairs > 0])
            runs[axis] += len(ids) - np.count_nonzero(same & ~other & (gaps == 0))
            along, marked = np.moveaxis(labels, axis, 0), np.moveaxis(edge, axis, 0)[1:-1]
            low, middle, high = along[:-2], along[1:-1], along[2:]
            alone = (low != middle) & (middle != high)
            # Along z, an object may be in one section.
            marked |= alone if axis else alone & ((low < middle) == (middle < high))
        judged = tuple(slice(1, -1) if n > 2 else slice(None) for n in labels.shape)
        tables.append(_table(labels[judged]))
        edges.append(_table(labels[judged][edge[judged]]))
    apart = np.concatenate(widths)
    (cz, cy, cx), (z, y, x) = np.mean(shares, axis=0), labelled_voxels / np.maximum(runs, 1)
    return Neighbours(
        changes=(float(cz), float(cy), float(cx)),
        zero_between=len(apart) / max(1, len(apart) + touching),
        zero_width=float(np.median(apart)) if len(apart) else 0.0,
        run=(float(z), float(y), float(x)),
        inner=_inner(_merged(tables), _merged(edges)),
    )


def _inner(counted: Array, edges: Array) -> tuple[int, ...]:
    """Return the values inside of a mask with smooth edges; none for other labels.

    Args:
        counted: Table of all voxels.
        edges: Table of the voxels that lie between a lower and a higher value.
    """
    values, voxels = counted
    at_edge = np.zeros(len(values))
    at_edge[np.searchsorted(values, edges[0])] = edges[1]
    smooth = at_edge > _EDGE * voxels
    inside = ~smooth & (voxels >= _SOME * voxels.sum())
    found = values[inside]
    if not 2 <= len(found) <= _FEW_IDS or np.count_nonzero(smooth) < max(_FEW_EDGES, len(found)):
        return ()
    grey = voxels[~inside].sum()
    likely = voxels[smooth].sum() > _MOSTLY * grey and grey < _GREY * voxels.sum()
    return tuple(map(int, found)) if likely else ()


def _pieces(
    volume: Volume, boxes: Sequence[Box], budget: int, values: Array, form: str
) -> dict[int, int]:
    """Return how many connected pieces each of the values has, in a block in the middle of each of the largest boxes.

    Of several sections, the one with the most pieces counts: an object that is labelled in two sections is one object.
    So do boxes, if there are more values than classes usually are.
    """
    apart = form == "sections" or len(values) > _FEW_IDS
    counts: dict[int, int] = {}
    for box in sorted(boxes, key=lambda box: -math.prod(box[1]))[:_BLOCKS]:
        extents = list(box[1])
        while math.prod(extents) > min(budget, _BLOCK):
            longest = extents.index(max(extents))
            extents[longest] = -(-extents[longest] // 2)
        labels = cleared(volume.read(middle(box, extents)))
        for value in map(int, np.intersect1d(labels, values)):
            found = _core.segment.connected_components((labels == value).astype(np.uint8), _SPECK)
            before, own = counts.get(value, 0), int(found.max())
            counts[value] = max(before, own) if apart else before + own
    return counts


def _kind(
    objects: int, main: Array, pieces: Mapping[int, int]
) -> tuple[Literal["classes", "objects", "unsure"], str]:
    """Return whether values are classes or objects, and why. `main`: the values that make up nearly all labels."""
    if objects == 0:
        return "unsure", "no voxel is labelled"
    if len(main) > _VALUES:
        return "objects", f"there are {objects} ids"
    seen = f"{objects} value{'s' * (objects > 1)} besides 0"
    if objects > len(main):
        seen += f", {len(main)} of them at nearly all labelled voxels"
    highest = int(main.max())
    mean = sum(pieces.values()) / max(1, len(pieces))
    if mean >= _PIECES:
        most = max(pieces, key=pieces.__getitem__)
        return "classes", f"{seen}; value {most} lies in {pieces[most]} separate places of a sample"
    if len(main) == 1 and highest in (1, _SMALL):
        return "classes", f"{seen}: {highest}"
    if len(main) > 1 and mean <= _WHOLE and (len(main) > _FEW_IDS or highest > _SMALL):
        return "objects", f"{seen}, up to {highest}, each in about one piece"
    return "unsure", f"{seen}, with {mean:.1f} connected pieces each in a sample"


def _table(labels: Array) -> Array:
    """Return the ids of a block and how many voxels each has, as two rows. Runs of equal voxels are counted at once."""
    flat = labels.reshape(-1)
    first = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]])[: flat.size])
    lengths = np.diff(np.append(first, flat.size))
    return _merged([np.stack([flat[first].astype(np.uint64), lengths.astype(np.uint64)])])


def _merged(tables: list[Array]) -> Array:
    ids, counts = np.concatenate(tables, axis=1)
    known, inverse = np.unique(ids, return_inverse=True)
    return np.stack([known, np.bincount(inverse, counts).astype(np.uint64)])
