# SPDX-License-Identifier: Apache-2.0
"""Two segmentations of the same voxels, object by object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import evaluate
from floodtide.data import Vec3, Volume
from floodtide.errors import ShapeError


@dataclass(frozen=True)
class Difference:
    """An object that no segment equals voxel for voxel.

    Attributes:
        object: The object.
        segment: The segment with most of its voxels; 0 if there is none.
        missing: Voxels of the object that are not in this segment.
        additional: Voxels of this segment that are not in the object.
    """

    object: int
    segment: int
    missing: int
    additional: int


def differing_objects(table: evaluate.ContingencyTable) -> list[Difference]:
    """Return the objects that no segment equals voxel for voxel, those with most voxels that differ first."""
    rows = table.rows().astype(np.int64)
    segments, objects, counts = rows.T
    sizes = np.bincount(segments, weights=counts) if len(rows) > 0 else np.zeros(1)
    found = []
    for name in np.unique(objects[objects > 0]).tolist():
        own = (objects == name) & (segments > 0)
        voxels = int(counts[objects == name].sum())
        if not own.any():
            found.append(Difference(name, 0, voxels, 0))
            continue
        best = np.flatnonzero(own)[counts[own].argmax()]
        segment, common = int(segments[best]), int(counts[best])
        row = Difference(name, segment, voxels - common, int(sizes[segment]) - common)
        if row.missing + row.additional > 0:
            found.append(row)
    return sorted(found, key=lambda row: (-row.missing - row.additional, row.object))


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two segmentations of the same voxels.

    Attributes:
        found: The segmentation.
        other: The reference.
        start: First voxel (z, y, x) of both in the whole volume.
        labels: Segments (z, y, x); 0: none.
        stored: Objects of the reference (z, y, x); 0: none.
    """

    found: Volume
    other: Volume
    start: Vec3
    labels: NDArray[np.integer[Any]]
    stored: NDArray[np.integer[Any]]

    @cached_property
    def table(self) -> evaluate.ContingencyTable:
        """Return the counts of voxels by segment and object."""
        table = evaluate.ContingencyTable()
        table.add(self.labels, self.stored)
        return table

    @cached_property
    def differences(self) -> list[Difference]:
        """Return the objects of the reference without an equal segment."""
        return differing_objects(self.table)


def compared(segmentation: str, reference: str) -> Compared:
    """Read two segmentations, "file:dataset", of the same voxels.

    Raises:
        ShapeError: If they have other voxels, or voxels of another size.
        InvalidFileError: If a file cannot be read.
    """
    found, other = Volume(segmentation), Volume(reference)
    labels, stored = evaluate.Pair(found, other).read()
    if not labels.shape == found.shape == other.shape:
        raise ShapeError(
            f"compare: {found.name} has {found.shape} voxels, {other.name} {other.shape}, of which {labels.shape} lie"
            " at the same place; expected the same voxels"
        )
    start = found.geometry.offset or (0, 0, 0)
    return Compared(found=found, other=other, start=start, labels=labels, stored=stored)
