# SPDX-License-Identifier: Apache-2.0
"""Two segmentations of the same voxels, object by object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data import Vec3, Volume
from floodtide.data.no_label import cleared
from floodtide.data.volumes import place_of, require_same_size
from floodtide.errors import ShapeError
from floodtide.evaluate.voxels import ContingencyTable, Difference, differing_objects


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
    def table(self) -> ContingencyTable:
        """Return the counts of voxels by segment and object."""
        table = ContingencyTable()
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
    require_same_size("compare", found, other)
    starts = [place_of(v) or (0, 0, 0) for v in (found, other)]
    if starts[0] != starts[1] or found.shape != other.shape:
        raise ShapeError(
            f"compare: {found.name} has {found.shape} voxels from {starts[0]}, {other.name} {other.shape} from"
            f" {starts[1]}; expected the same voxels"
        )
    return Compared(
        found=found,
        other=other,
        start=found.geometry.offset or (0, 0, 0),
        labels=cleared(found.read(), found.name),
        stored=cleared(other.read(), other.name),
    )
