# SPDX-License-Identifier: Apache-2.0
"""What the images looked like that a network was trained on: checkpoints keep it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from floodtide.base import network_files, reading
from floodtide.data.look.image import Axes, ImageStatistics

_LARGEST = 1e30


@dataclass(frozen=True, kw_only=True)
class TrainedOn:
    """Statistics of a training volume, as a network's checkpoint keeps them.

    Attributes:
        name: Name of the volume in messages.
        mean, std: The network read (grey level - mean) / std.
        image_mean, image_std: Mean and standard deviation of the grey levels.
        unpadded: Mean and standard deviation of the grey levels without padding; None: the same.
        voxel_size_nm: Voxel size (z, y, x); None if unknown.
        length, detail, skewness: As in `Sharpness`.
    """

    name: str
    mean: float
    std: float
    image_mean: float
    image_std: float
    unpadded: tuple[float, float] | None = None
    voxel_size_nm: tuple[float, float, float] | None = None
    length: Axes = (None, None, None)
    detail: Axes = (None, None, None)
    skewness: tuple[float, ...] = ()


def trained_on(statistics: ImageStatistics, **reading: Any) -> TrainedOn:
    """Return what a checkpoint keeps of the statistics of a training volume.

    Args:
        statistics: Statistics of the volume, or of the part of it that the network is trained on.
        reading: `name`, `mean`, `std` and `voxel_size_nm` of the volume, as `TrainedOn` has them.
    """
    return TrainedOn(
        image_mean=statistics.mean,
        image_std=statistics.std,
        unpadded=(statistics.proposed_mean, statistics.proposed_std),
        **reading,
        **(vars(statistics.sharpness) if statistics.sharpness else {}),
    )


def to_text(volumes: Sequence[TrainedOn]) -> str:
    """Return the statistics of training volumes as the JSON text that a checkpoint keeps; empty for none."""
    return json.dumps([asdict(volume) for volume in volumes]) if volumes else ""


def from_text(text: str, where: str) -> tuple[TrainedOn, ...]:
    """Return the statistics of training volumes that a checkpoint keeps; none for an empty text."""
    if not text:
        return ()
    expected = "statistics of training volumes"
    with reading.reading(where, expected):
        rows = reading.parse_json(text, where, expected)
        if not isinstance(rows, list):
            raise TypeError("no list")
        return tuple(_volume(**row) for row in rows)


def _volume(**row: Any) -> TrainedOn:
    known = {field.name for field in fields(TrainedOn)}  # earlier versions kept more
    values: Any = {
        key: tuple(n) if isinstance(n, list) else n for key, n in row.items() if key in known
    }
    volume = TrainedOn(**values)
    size = (1, 1, 1) if volume.voxel_size_nm is None else volume.voxel_size_nm
    measured = [n for n in (*volume.length, *volume.detail) if n is not None]
    positive = [volume.std, *size, *measured]
    mean, std = volume.unpadded or (volume.image_mean, volume.image_std)
    numbers = [volume.mean, volume.image_mean, volume.image_std, mean, std, *positive]
    numbers += volume.skewness
    if not all(type(n) in (int, float) and abs(n) < _LARGEST for n in numbers):
        raise ValueError("not all numbers are usual ones")
    if min(positive) <= 0 or min(std, volume.image_std) < 0:
        raise ValueError("a size or a standard deviation that is not positive")
    if (len(size), len(volume.length), len(volume.detail), type(volume.name)) != (3, 3, 3, str):
        raise ValueError("not three axes, or no name")
    return volume


def training_images(checkpoint: str | os.PathLike[str]) -> tuple[TrainedOn, ...]:
    """Return what a network was trained on, as its checkpoint keeps it, or as it is known of a published one.

    Args:
        checkpoint: A floodtide checkpoint, or the prefix of a TensorFlow checkpoint.

    Returns:
        The statistics of the training volumes; none for another TensorFlow checkpoint, and for a checkpoint of a
        version of floodtide that kept none.

    Raises:
        InvalidFileError: If the file cannot be read, or its statistics have another form.
    """
    path = os.fspath(checkpoint)
    name = os.path.basename(path).removesuffix(".index")
    if path.endswith(".index") or not reading.exists(path):
        return PUBLISHED.get(name, ())
    return from_text(network_files.stored_text(path, "statistics"), path)


FIB25 = TrainedOn(
    name="FIB-25",
    mean=128.0,
    std=33.0,
    image_mean=131.0,
    image_std=34.5,
    voxel_size_nm=(10.0, 10.0, 10.0),
    length=(6.2, 7.6, 6.4),
    detail=(0.061, 0.052, 0.048),
    skewness=(-0.14, -0.03, 0.09),
)
"""The training volume of google/ffn's published network (models/fib25), a TensorFlow checkpoint without statistics.

Normalisation and voxel size are those of the repository's inference configurations. The network's training volume
(`validation_sample`) is in the bucket gs://ffn-flyem-fib25, which floodtide does not fetch; grey levels, lengths,
detail and skewness are means of `image_statistics` of the data set's samples `training_sample1` and `training_sample2`.
"""

PUBLISHED: dict[str, tuple[TrainedOn, ...]] = {"model.ckpt-27465036": (FIB25,)}
"""Published TensorFlow checkpoints by the name of their files, and what they were trained on."""
