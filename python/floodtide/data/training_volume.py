# SPDX-License-Identifier: Apache-2.0
"""Labelled volumes for training and validation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide import _core
from floodtide.data.boxes import Box, parse_box
from floodtide.data.volumes import Volume, VolumeLike, opened, opened_labels
from floodtide.errors import InvalidArgumentError


@dataclass(frozen=True)
class TrainingVolume:
    """An image volume with its labels, for training or validation.

    Attributes:
        image: Image volume, its name or a `Volume`, axes (z, y, x).
        labels: Integer object ids of the same shape; 0 is no object.
        partitions: Partitions of the labels, made by `partition`. Only flood-filling networks need them.
        box: Part to use: (start, size) in voxels, or "z0:z1,y0:y1,x0:x1". None: the whole volume.
        mean: Intensities become (image - mean) / std.
        std: See mean.
        name: Name of the volume in messages and logs.
        voxel_size_nm: Voxel size (z, y, x) in nanometres, for pictures.

    Raises:
        InvalidArgumentError: If the box is a text of another form.
    """

    image: VolumeLike
    labels: VolumeLike
    partitions: VolumeLike = ""
    box: Box | str | None = None
    mean: float = 128.0
    std: float = 33.0
    name: str = "volume"
    voxel_size_nm: tuple[float, float, float] | None = None

    @property
    def extent(self) -> Box | None:
        """The part to use as (start, size); None for the whole volume."""
        return parse_box(self.box) if isinstance(self.box, str) else self.box

    def __post_init__(self) -> None:
        _ = self.extent  # refuses a wrong text now


def source_of(volume: TrainingVolume, *, partitions: bool) -> _core.data.SourceOptions:
    """Return the core's description of a volume.

    Args:
        volume: The volume.
        partitions: True if its partitions are needed, as flood-filling networks do.

    Raises:
        InvalidArgumentError: If the labels or the needed partitions are missing.
    """
    for key in ("labels", "partitions") if partitions else ("labels",):
        if not getattr(volume, key):
            raise InvalidArgumentError(
                f"volume '{volume.name}': {key} is empty, expected file:dataset"
            )
    return _core.data.SourceOptions(
        name=volume.name,
        image=opened(volume.image),
        labels=opened_labels(volume.labels),
        partitions=opened(volume.partitions) if partitions else "",
        box=volume.extent,
        mean=volume.mean,
        std=volume.std,
    )


def volumes_of(
    given: VolumeLike | TrainingVolume | Sequence[TrainingVolume],
    labels: VolumeLike,
    partitions: VolumeLike,
    box: Box | None,
    mean: float,
    std: float,
) -> tuple[TrainingVolume, ...]:
    """Return the training volumes of a constructor that takes several, one, or the names of one.

    Raises:
        InvalidArgumentError: If there is none, or attributes of a volume are given beside it.
    """
    if isinstance(given, str | os.PathLike | Volume):
        return (TrainingVolume(given, labels, partitions, box, mean, std),)
    own = TrainingVolume("", "")
    if labels or partitions or box is not None or (mean, std) != (own.mean, own.std):
        raise InvalidArgumentError(
            "labels, partitions, box, mean or std are given beside a TrainingVolume, expected them as its attributes"
        )
    volumes = (given,) if isinstance(given, TrainingVolume) else tuple(given)
    if not volumes:
        raise InvalidArgumentError("there is no training volume, expected at least one")
    return volumes
