# SPDX-License-Identifier: Apache-2.0
"""Labels that cannot belong to their image: checks of types and shapes, before anything else opens the volumes."""

from __future__ import annotations

from collections.abc import Sequence

from floodtide.data import TrainingVolume, Volume
from floodtide.data.formats.table import place
from floodtide.data.look.alignment import require_same_shape
from floodtide.data.look.labels import require_labels
from floodtide.data.volumes import VolumeLike, name_of, require_same_grid
from floodtide.errors import InvalidArgumentError

MOST = 8
"""Volumes that are looked at. More would take longer than a start should."""


def require_fitting(volumes: Sequence[TrainingVolume]) -> None:
    """Check types and shapes before anything else opens the volumes, so that the message says what to do.

    Raises:
        InvalidArgumentError: If an image is given as its own labels.
        InvalidFileError: If labels are not integers, or a file cannot be read.
        ShapeError: If labels have another shape than the image.
    """
    for volume in volumes[:MOST]:
        if not volume.labels:
            continue
        image = as_volume(volume.image)
        if same_volume(volume.image, volume.labels):
            raise InvalidArgumentError(
                f"volume '{volume.name}': {name_of(volume.labels)} is given as image and as labels; expected labels,"
                " one id for each object"
            )
        labels = as_volume(volume.labels)
        require_labels(labels)
        require_same_shape(image, labels)
        require_same_grid(f"volume '{volume.name}'", labels, image)


def as_volume(volume: VolumeLike) -> Volume:
    """Return a volume that is given by itself or by its name."""
    return volume if isinstance(volume, Volume) else Volume(volume)


def same_volume(a: VolumeLike, b: VolumeLike) -> bool:
    """Return True if two names or objects are the same volume."""
    if isinstance(a, Volume) or isinstance(b, Volume):
        return a is b
    try:
        return place(str(a)) == place(str(b))
    except InvalidArgumentError:
        return str(a) == str(b)
