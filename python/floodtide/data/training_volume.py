# SPDX-License-Identifier: Apache-2.0
"""Labelled volumes for training and validation, as the core takes them."""

from __future__ import annotations

from floodtide import _core
from floodtide.base.data_options import TrainingVolume
from floodtide.data.boxes import parse_box
from floodtide.data.volumes import opened, opened_labels
from floodtide.errors import InvalidArgumentError


def source_of(volume: TrainingVolume, *, partitions: bool) -> _core.data.SourceOptions:
    """Return the core's description of a volume.

    Args:
        volume: The volume.
        partitions: True if its partitions are needed, as flood-filling networks do.

    Raises:
        InvalidArgumentError: If the labels or the needed partitions are missing, or the box is no box.
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
        box=parse_box(volume.box),
        mean=volume.mean,
        std=volume.std,
    )
