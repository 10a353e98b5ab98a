# SPDX-License-Identifier: Apache-2.0
"""Scores of voxels against the ground truth: adapted Rand error, variation of information, CREMI score, coverage.

Voxels whose truth is 0 are ignored. Every score is computed twice: over the segmented voxels
(id > 0); and, with the prefix `all_`, over all voxels, with all unsegmented voxels as one segment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
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
from floodtide.evaluate.borders import near_border

ContingencyTable = _core.evaluate.ContingencyTable

Labels = NDArray[np.integer[Any]]

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
        segmentation, truth, box = self.segmentation, self.truth, self.box
        require_same_size("evaluate", segmentation, truth)
        start, truth_start = first_voxels(segmentation, truth)
        if segmentation.shape == truth.shape:
            note_place("evaluate", segmentation, truth)
        mine, theirs = (start, segmentation.shape), (truth_start, truth.shape)
        placed = truth.whole.offset is not None
        common = intersection(mine, theirs) if placed or box is not None else mine
        if common is None or intersection(common, theirs) != common:
            raise ShapeError(
                f"segmentation {segmentation.name} covers {box_text(mine)},"
                f" {truth.name} covers {box_text(theirs)}, expected "
                + ("common voxels" if placed else "one that covers the segmentation")
            )
        region = common if box is None else box
        for name, whole in ((segmentation.name, mine), (truth.name, theirs)):
            if intersection(region, whole) != region:
                raise OutOfRangeError(
                    f"box {box_text(region)} is not inside {name}, {box_text(whole)}"
                )
        return region, start, truth_start

    def of_same_voxels(self, other: Volume) -> Pair:
        """Return the pair of another segmentation and the truth, compared in the same box.

        Raises:
            OutOfRangeError: If the other segmentation does not cover the box.
        """
        pair = Pair(other, self.truth, self.places[0], self.border)
        pair.places  # noqa: B018  # fail before the counting
        return pair

    def table(
        self, progress: Progress | None = None, parts: slice = slice(None)
    ) -> _core.evaluate.ContingencyTable:
        """Return the table of the voxels of each pair of ids. Arguments as for `stored_blocks`."""
        table = ContingencyTable()
        for _, labels, objects in self.blocks(progress, parts):
            table.add(labels, objects)
        return table

    def table_on_ranks(self, progress: Progress | None = None) -> _core.evaluate.ContingencyTable:
        """Return `table` on every rank; each rank reads a part of the volumes. Collective."""
        with world.agreed():
            table = self.table(progress, own_parts())
        whole = ContingencyTable()
        for rows in allgather_object(table.rows()):
            whole.add_rows(rows)
        return whole

    def read(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return both volumes (z, y, x) in the box, read whole, without label 0."""
        (start, size), *starts = self.places
        volumes = zip((self.segmentation, self.truth), starts, strict=True)
        labels, other = (volume.read((difference(start, first), size)) for volume, first in volumes)
        return cleared(labels), self._counted(start, cleared(other))

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
        self, progress: Progress | None = None, parts: slice = slice(None)
    ) -> Iterator[tuple[Vec3, NDArray[Any], NDArray[Any]]]:
        """Yield the blocks of `stored_blocks`; voxels without a label, and truth near a border, are 0."""
        for start, labels, objects in self.stored_blocks(progress, parts):
            known = self._counted(start, cleared(objects, self.truth.name))
            yield start, cleared(labels, self.segmentation.name), known

    def _counted(self, start: Vec3, objects: NDArray[Any]) -> NDArray[Any]:
        """Return the truth of a block with 0 near borders; rows around the block are read again if there are any."""
        if self.border is None:
            return objects
        (_, low, _), (_, rows, _) = self.places[0]
        margin = min(int(self.border[0]), rows) + 1
        first = max(low, start[1] - margin)
        end = min(low + rows, start[1] + objects.shape[1] + margin)
        around = objects
        if end - first > objects.shape[1]:
            place = difference((start[0], first, start[2]), self.places[2])
            size = (objects.shape[0], end - first, objects.shape[2])
            around = cleared(self.truth.read((place, size)))
        own = slice(start[1] - first, start[1] - first + objects.shape[1])
        return np.where(near_border(around, self.border)[:, own], 0, objects)

    def stored_blocks(
        self,
        progress: Progress | None = None,
        parts: slice = slice(None),
        cut: Callable[[Box, Vec3], Iterable[Box]] | None = None,
    ) -> Iterator[tuple[Vec3, NDArray[Any], NDArray[Any]]]:
        """Yield first voxel (in the whole volume) and both parts of the blocks of the box, as they are stored.

        Args:
            progress: Called as progress(voxels done, voxels).
            parts: The blocks that are read, of all of them.
            cut: Returns the blocks of a box, from the box and the size of the segmentation's chunks.
        """
        region, *starts = self.places
        chosen = list((cut or _blocks)(region, self.segmentation.chunks))[parts]
        for start, size in reported(chosen, progress):
            labels, objects = (
                volume.read((difference(start, first), size))
                for volume, first in zip((self.segmentation, self.truth), starts, strict=True)
            )
            yield start, labels, objects

    @property
    def assumed_place(self) -> str | None:
        """Return a sentence if no file says where a segmentation lies in the truth, or if only a part is compared.

        None: both places are known, and the whole segmentation or `box` is compared.
        """
        segmentation, truth = self.segmentation, self.truth
        region, start, _ = self.places
        if self.box is None and region[1] != segmentation.shape:
            share = 100 * math.prod(region[1]) / math.prod(segmentation.shape)
            stated = segmentation.whole.offset is not None
            return (
                f"compared: {box_text(region)}, which both volumes cover, {share:.1f} % of {segmentation.name}"
                f" ({box_text((start, segmentation.shape))}{'' if stated else ', as it does not say where it lies'})"
            )
        if segmentation.shape == truth.shape or segmentation.whole.offset is not None:
            return None
        mine, theirs = (" x ".join(map(str, volume.shape)) for volume in (segmentation, truth))
        return (
            f"{segmentation.name} has {mine} voxels and does not say where it lies in {truth.name}"
            f" ({theirs}): compared with {box_text(((0, 0, 0), segmentation.shape))}"
        )


def own_parts() -> slice:
    """Return which blocks this rank reads, of all of them."""
    return slice(world.rank(), None, world.size())


def first_voxels(segmentation: Volume, truth: Volume) -> tuple[Vec3, Vec3]:
    """Return the first voxels of two volumes in the whole volume.

    Without a stated place, volumes of one shape cover the same voxels, and others begin at 0, 0, 0.
    """
    start, truth_start = segmentation.whole.offset, truth.whole.offset
    if segmentation.shape == truth.shape:
        start, truth_start = start or truth_start, truth_start or start
    return start or (0, 0, 0), truth_start or (0, 0, 0)


def _blocks(region: Box, chunks: Vec3) -> Iterator[Box]:
    """Return blocks of whole planes with at most BLOCK_VOXELS voxels; planes that are too large are split along y."""
    nz, ny, nx = region[1]
    rows = max(1, min(ny, BLOCK_VOXELS // (nx * min(chunks[0], nz))))
    depth = max(1, min(nz, BLOCK_VOXELS // (nx * rows)))
    return tiles(region, (depth, rows, nx))
