# SPDX-License-Identifier: Apache-2.0
"""Scores of voxels against the ground truth: adapted Rand error, variation of information, CREMI score, coverage.

Voxels whose truth is 0 are ignored. Every score is computed twice: over the segmented voxels
(id > 0); and, with the prefix `all_`, over all voxels, with all unsegmented voxels as one segment.

The 95 % intervals are by bootstrap over bodies (true objects): bodies are drawn with replacement, each with its row of
the contingency table. In its segments, a drawn body meets the other drawn bodies, but no copy of itself: a copy would
look like a merger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import notes
from floodtide.comm import world
from floodtide.comm.arrays import array_of
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, box_text, difference, intersection, reported, tiles
from floodtide.data.no_label import cleared
from floodtide.data.volumes import note_place, require_same_size
from floodtide.errors import OutOfRangeError, ShapeError

ContingencyTable = _core.evaluate.ContingencyTable

Labels = NDArray[np.integer[Any]]

SAMPLES = 2000
LEAST_BODIES, MOST_PAIRS = 10, 1 << 18
_SHARE = (2.5, 97.5)  # percentiles

BLOCK_VOXELS = 1 << 24
"""Maximum number of voxels that are read at a time from each volume."""


def scores(segmentation: Labels, truth: Labels) -> dict[str, float]:
    """Return scores that compare a segmentation with the ground truth.

    Args:
        segmentation: Integer array (z, y, x) of segment ids; 0, negative values and the largest ones of 32 and 64 bits
            are unsegmented voxels.
        truth: Integer array of the same shape with object ids; voxels with such values are ignored.

    Returns:
        {name: score}, for segmented voxels, and with the prefix `all_` for all voxels:
        `adapted_rand_error` (0 is perfect), `rand_precision` (mergers lower it), `rand_recall` (splits lower it),
        `voi_split` = H(segmentation | truth) and `voi_merge` = H(truth | segmentation) in bits, `cremi`, the geometric
        mean of their sum and of the Rand error, `voxels`, `segments` and `objects`. Also `coverage`, the share of
        voxels that are segmented. A score is NaN if no voxel can be compared.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If an array does not hold integers.
    """
    table = ContingencyTable()
    given = (array_of("scores", one) for one in (segmentation, truth))
    table.add(*(np.ascontiguousarray(cleared(one)) for one in given))
    return table.scores()


@dataclass(frozen=True)
class Pair:
    """Two volumes of the same voxels. They are read in blocks and may be larger than memory.

    The offset that a file states is the position of a volume in the whole volume. If only one of two volumes of one
    shape states its offset, both are assumed to cover the same box. If the truth states its offset, the box that both
    cover is compared. `Pair(segmentation, truth).table().scores()` returns the scores.

    Attributes:
        segmentation: Volume of segment ids, or of classes.
        truth: Volume of object ids, or of classes. Without an offset, it must cover the segmentation.
        box: Part to compare, (start, size) in voxels of the whole volume; None: all that both cover.
        border: Voxels (along y, x): the truth does not count this near to a border in its section; None: it counts.
    """

    segmentation: Volume
    truth: Volume
    box: Box | None = None
    border: tuple[float, float] | None = None

    @cached_property
    def places(self) -> tuple[Box, Vec3, Vec3]:
        """Return the box to compare, and the first voxels of both volumes, in voxels of the whole volume.

        Raises:
            ShapeError: If the volumes have no common box, or state different voxel sizes.
            OutOfRangeError: If the box is not inside both volumes.
        """
        segmentation, truth = self.segmentation, self.truth
        require_same_size("evaluate", segmentation, truth)
        start, truth_start = first_voxels(segmentation, truth)
        mine, theirs = (start, segmentation.shape), (truth_start, truth.shape)
        placed = truth.whole.offset is not None
        common = intersection(mine, theirs)
        if common is None or not (placed or self.box or common == mine):
            raise ShapeError(
                f"segmentation {segmentation.name} covers {box_text(mine)},"
                f" {truth.name} covers {box_text(theirs)}, expected "
                + ("common voxels" if placed else "one that covers the segmentation")
            )
        region = self.box or common
        if intersection(region, common) != region:
            raise OutOfRangeError(
                f"box {box_text(region)} is not inside {box_text(common)}, which {segmentation.name} and {truth.name}"
                " cover"
            )
        note_place("evaluate", segmentation, truth, difference(start, truth_start))
        return region, start, truth_start

    def table(
        self, progress: Progress | None = None, boxes: Sequence[Box] | None = None
    ) -> ContingencyTable:
        """Return the table of the voxels of each pair of ids. Arguments as for `stored_blocks`."""
        table = ContingencyTable()
        for _, labels, objects in self.blocks(progress, boxes):
            table.add(labels, objects)
        return table

    def table_on_ranks(self, progress: Progress | None = None) -> ContingencyTable:
        """Return `table` on every rank; each rank reads a part of the volumes. Collective."""
        with world.agreed():
            table = self.table(progress, self.own_boxes())
        whole = ContingencyTable()
        for rows in allgather_object(table.rows()):
            whole.add_rows(rows)
        return whole

    def read(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return both volumes (z, y, x) in the box, read whole, without label 0."""
        ((_, labels, objects),) = self.blocks(boxes=[self.places[0]])
        return labels, objects

    def start_of(self, image: Volume) -> Vec3:
        """Return the first voxel of an image in the whole volume: without a place, that of a volume of its shape."""
        _, *starts = self.places
        for volume, start in zip((self.segmentation, self.truth), starts, strict=True):
            unknown = image.whole.offset is None or volume.whole.offset is None
            if image.shape == volume.shape and unknown:
                return start
        return image.whole.offset or (0, 0, 0)

    def read_image(self, image: Volume) -> NDArray[Any]:
        """Return an image (z, y, x) in the box, read whole.

        Raises:
            ShapeError: If it does not cover the box, or has other voxels.
        """
        require_same_size("evaluate", image, self.segmentation)
        require_same_size("evaluate", image, self.truth)
        region, first = self.places[0], self.start_of(image)
        if intersection(region, (first, image.shape)) != region:
            raise ShapeError(
                f"image {image.name} covers {box_text((first, image.shape))}, expected the compared box"
                f" {box_text(region)}"
            )
        alike = image.shape in (self.segmentation.shape, self.truth.shape)
        own = self.segmentation.text("image") == image.name  # from which it counts its voxels
        if image.whole.offset is None and not alike and not own:
            notes.show(f"evaluate: {image.name} states no place: it is taken to begin at 0, 0, 0")
        return image.read((difference(region[0], first), region[1]))

    def blocks(
        self, progress: Progress | None = None, boxes: Sequence[Box] | None = None
    ) -> Iterator[tuple[Vec3, NDArray[Any], NDArray[Any]]]:
        """Yield the blocks of `stored_blocks`; voxels without a label, and truth near a border, are 0."""
        for start, labels, objects in self.stored_blocks(progress, boxes):
            known = cleared(objects, self.truth.name)
            if self.border:
                known = np.where(near_border(known, self.border), 0, known)
            yield start, cleared(labels, self.segmentation.name), known

    def stored_blocks(
        self, progress: Progress | None = None, boxes: Sequence[Box] | None = None
    ) -> Iterator[tuple[Vec3, NDArray[Any], NDArray[Any]]]:
        """Yield first voxel (in the whole volume) and both parts of blocks of the box, as they are stored.

        Args:
            progress: Called as progress(voxels done, voxels).
            boxes: The blocks; None: all.
        """
        _, *starts = self.places
        for start, size in reported(list(self._boxes()) if boxes is None else boxes, progress):
            labels, objects = (
                volume.read((difference(start, first), size))
                for volume, first in zip((self.segmentation, self.truth), starts, strict=True)
            )
            yield start, labels, objects

    def own_boxes(self, size: Vec3 | None = None) -> list[Box]:
        """Return the blocks that this rank reads, of all of them; of a size (z, y, x) if it is given."""
        boxes = self._boxes() if size is None else tiles(self.places[0], size)
        return list(boxes)[world.rank() :: world.size()]

    def _boxes(self) -> Iterator[Box]:
        """Return blocks of whole planes with at most BLOCK_VOXELS voxels; larger planes are split along y.

        Which truth counts near borders depends on the whole plane, so then no plane is split.
        """
        region = self.places[0]
        nz, ny, nx = region[1]
        depth = min(self.segmentation.chunks[0], nz)
        rows = ny if self.border else max(1, min(ny, BLOCK_VOXELS // (nx * depth)))
        return tiles(region, (max(1, min(nz, BLOCK_VOXELS // (nx * rows))), rows, nx))

    @property
    def compared_part(self) -> str:
        """A sentence if only a part of the segmentation is compared, because the truth has no more; else ""."""
        segmentation, (region, start, _) = self.segmentation, self.places
        if self.box is not None or region[1] == segmentation.shape:
            return ""
        share = 100 * math.prod(region[1]) / math.prod(segmentation.shape)
        assumed = f" (which does not say where it lies: assumed at {start})"
        what = f"{share:.1f} % of {segmentation.name}{'' if segmentation.whole.offset else assumed}"
        return f"compared: {box_text(region)}, which both volumes cover, {what}"


def first_voxels(segmentation: Volume, truth: Volume) -> tuple[Vec3, Vec3]:
    """Return the first voxels of two volumes in the whole volume.

    Without a stated place, volumes of one shape cover the same voxels, and others begin at 0, 0, 0.
    """
    start, truth_start = segmentation.whole.offset, truth.whole.offset
    if segmentation.shape == truth.shape:
        start, truth_start = start or truth_start, truth_start or start
    return start or (0, 0, 0), truth_start or (0, 0, 0)


def near_border(labels: NDArray[np.integer[Any]], reach: Sequence[float]) -> NDArray[np.bool_]:
    """Return True for each voxel (z, y, x) at most `reach` voxels (along y, x) from a border in its section.

    A border voxel's label differs from the label of at least one of its four neighbours in the section. Label 0 counts.
    Source: `create_border_mask` of cremi_python, with the same sums and roots, for a distance of `reach[1]` voxels.
    """
    near = np.zeros(labels.shape, np.bool_)
    ny, nx = labels.shape[1:]
    ratio = reach[1] / reach[0]  # edges of a voxel along y and x
    rows = np.arange(min(int(reach[0]), ny - 1) + 1)
    columns = np.arange(min(int(reach[1]), nx - 1) + 1)
    distances = np.sqrt((rows[:, None] * ratio) ** 2 + columns**2)
    widths = np.count_nonzero(distances <= reach[1], axis=1) - 1  # -1: none, by rounding
    x, far = np.arange(nx, dtype=np.int32), np.int32(1 << 30)
    for section, out in zip(labels, near, strict=True):
        border = np.zeros(section.shape, np.bool_)
        for one, other in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
            differs = section[one] != section[other]
            border[one] |= differs
            border[other] |= differs
        before = np.maximum.accumulate(np.where(border, x, -far), axis=1)
        behind = np.minimum.accumulate(np.where(border, x, far)[:, ::-1], axis=1)[:, ::-1]
        along = np.minimum(x - before, behind - x)  # to the nearest border voxel of the row
        for row, width in enumerate(widths.tolist()):
            out[row:] |= along[: ny - row] <= width
            out[: ny - row] |= along[row:] <= width
    return near


def intervals(
    table: ContingencyTable, *, samples: int = SAMPLES, seed: int = 0
) -> dict[str, tuple[float, float]] | None:
    """Return {name: (low, high)} of the adapted Rand error and both parts of VOI over all voxels.

    None: the table has fewer than LEAST_BODIES bodies, or more than MOST_PAIRS pairs of segment and body.
    """
    rows = table.rows()
    rows = rows[rows[:, 1] > 0]
    if len(rows) > MOST_PAIRS or len(np.unique(rows[:, 1])) < LEAST_BODIES:
        return None
    ends = np.percentile(_drawn(rows, samples, seed), _SHARE, axis=0)
    names = ("all_adapted_rand_error", "all_voi_split", "all_voi_merge")
    return {name: (float(low), float(high)) for name, low, high in zip(names, *ends, strict=True)}


def _drawn(rows: NDArray[np.uint64], samples: int, seed: int) -> NDArray[np.float64]:
    """Return Rand error, VOI split and VOI merge of each sample of the bodies in rows (segment, body, voxels)."""
    body = np.unique(rows[:, 1], return_inverse=True)[1]
    _, segment, parts = np.unique(rows[:, 0], return_inverse=True, return_counts=True)
    n = rows[:, 2].astype(np.float64)
    size, bodies = np.bincount(body, n), int(body.max()) + 1
    common = np.bincount(body, n * (n - 1))  # pairs of voxels in one body and one segment
    split = size * np.log2(size) - np.bincount(body, n * np.log2(n))
    linear = np.stack([size, common, size * (size - 1), split])
    # Only in segments with several bodies, a drawn body meets others.
    shared = parts[segment] > 1
    body, n, segment = body[shared], n[shared], np.unique(segment[shared], return_inverse=True)[1]
    bits = np.log2(n)
    random = np.random.default_rng(seed)
    found = np.empty((samples, 3))
    for row in found:
        times = np.bincount(random.integers(0, bodies, bodies), minlength=bodies).astype(float)
        voxels, pairs, in_bodies, split_bits = linear @ times
        weight = times[body] * n
        # Voxels that one copy meets in its segment, besides its own.
        others = np.bincount(segment, weight)[segment] - weight
        merge_bits = weight @ (np.log2((others + n).astype(np.float32)) - bits)
        whole = in_bodies + pairs + weight @ others
        error = 1 - 2 * pairs / whole if whole else 0.0  # without a pair of voxels, as the core
        row[:] = error, split_bits / voxels, merge_bits / voxels
    np.maximum(found, 0, out=found)  # rounding leaves numbers just below 0
    return found
