# SPDX-License-Identifier: Apache-2.0
"""What the images looked like that a network was trained on: checkpoints keep it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from floodtide import _core
from floodtide.base import reading
from floodtide.data.look.image import PERCENTILES, ImageStatistics
from floodtide.data.look.sharpness import Sharpness
from floodtide.errors import InvalidFileError

_LARGEST = 1e30


@dataclass(frozen=True, kw_only=True)
class TrainedOn:
    """Statistics of a training volume, as a network's checkpoint keeps them.

    Attributes:
        name: Name of the volume in messages.
        dtype: Type of its voxels; empty if unknown.
        mean: The network read (grey level - mean) / std.
        std: See mean.
        image_mean: Mean of the grey levels.
        image_std: Standard deviation of the grey levels.
        percentiles: Grey levels at PERCENTILES; empty if unknown.
        histogram: Counts as in `ImageStatistics`; empty if unknown.
        voxel_size_nm: Voxel size (z, y, x); None if unknown.
        length: Correlation lengths (z, y, x) in voxels, as in `Sharpness`; an axis is None if unknown.
    """

    name: str
    mean: float
    std: float
    image_mean: float
    image_std: float
    dtype: str = ""
    percentiles: tuple[float, ...] = ()
    histogram: tuple[int, ...] = ()
    voxel_size_nm: tuple[float, float, float] | None = None
    length: tuple[float | None, float | None, float | None] = (None, None, None)

    @property
    def normalised(self) -> tuple[float, float]:
        """Mean and standard deviation of the values that the network read."""
        return (self.image_mean - self.mean) / self.std, self.image_std / self.std

    @property
    def length_nm(self) -> float | None:
        """Correlation length in nanometres, the geometric mean of the axes; None if it is unknown."""
        known = [n for n in self.length if n is not None]
        if self.voxel_size_nm is None or len(known) != 3:
            return None
        return math.prod(n * s for n, s in zip(known, self.voxel_size_nm, strict=True)) ** (1 / 3)


def trained_on(
    statistics: ImageStatistics,
    *,
    name: str,
    mean: float,
    std: float,
    voxel_size_nm: tuple[float, float, float] | None,
) -> TrainedOn:
    """Return what a checkpoint keeps of the statistics of a training volume.

    Args:
        statistics: Statistics of the part of the volume that the network is trained on.
        name: Name of the volume in the configuration.
        mean: The network reads (grey level - mean) / std.
        std: See mean.
        voxel_size_nm: Voxel size (z, y, x) of the volume; None if unknown.
    """
    found: Sharpness | None = statistics.sharpness
    return TrainedOn(
        name=name,
        dtype=statistics.dtype,
        mean=mean,
        std=std,
        image_mean=statistics.mean,
        image_std=statistics.std,
        percentiles=statistics.percentiles,
        histogram=statistics.histogram,
        voxel_size_nm=voxel_size_nm,
        length=found.length if found is not None else (None, None, None),
    )


def to_text(volumes: Sequence[TrainedOn]) -> str:
    """Return the statistics of training volumes as the JSON text that a checkpoint keeps; empty for none."""
    return json.dumps([asdict(volume) for volume in volumes]) if volumes else ""


def from_text(text: str, where: str) -> tuple[TrainedOn, ...]:
    """Return the statistics of training volumes that a checkpoint keeps; none for an empty text.

    Args:
        text: What `to_text` has returned.
        where: Name of the checkpoint for messages.

    Raises:
        InvalidFileError: If the text is something else.
    """
    if not text:
        return ()
    expected = "statistics of training volumes"
    rows = reading.parse_json(text, where, expected)
    try:
        if not isinstance(rows, list):
            raise TypeError("no list")
        found = tuple(_volume(row) for row in rows)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidFileError(
            f"{where}: has statistics of another form: {reading.reason(error)}; expected {expected}"
        ) from None
    return found


def _volume(row: dict[str, Any]) -> TrainedOn:
    size, length = row["voxel_size_nm"], row["length"]
    if len(length) != 3 or (size is not None and len(size) != 3):
        raise ValueError("not three axes")
    volume = TrainedOn(
        name=str(row["name"]),
        dtype=str(row["dtype"]),
        mean=_number(row["mean"]),
        std=_number(row["std"]),
        image_mean=_number(row["image_mean"]),
        image_std=_number(row["image_std"]),
        percentiles=tuple(map(_number, row["percentiles"])),
        histogram=tuple(int(_number(count)) for count in row["histogram"]),
        voxel_size_nm=None if size is None else (_size(size[0]), _size(size[1]), _size(size[2])),
        length=(_length(length[0]), _length(length[1]), _length(length[2])),
    )
    if not volume.std > 0 or volume.image_std < 0:
        raise ValueError("a standard deviation that is not positive")
    if len(volume.percentiles) not in (0, len(PERCENTILES)):
        raise ValueError(f"{len(volume.percentiles)} percentiles")
    return volume


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, str | bool) or not abs(number) < _LARGEST:
        raise ValueError(f"{value!r} is no usual number")
    return number


def _size(value: Any) -> float:
    number = _number(value)
    if not number > 0:
        raise ValueError(f"{value!r} is no size")
    return number


def _length(value: Any) -> float | None:
    return None if value is None else _size(value)


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
    return from_text(_core.stored_text(path, "statistics"), path)


FIB25 = TrainedOn(
    name="FIB-25",
    dtype="uint8",
    mean=128.0,
    std=33.0,
    image_mean=131.0,
    image_std=34.5,
    percentiles=(60.0, 70.0, 80.0, 102.0, 130.0, 160.0, 188.0, 198.0, 204.0),
    voxel_size_nm=(10.0, 10.0, 10.0),
    length=(6.2, 7.6, 6.4),
)
"""The training volume of google/ffn's published network (models/fib25), a TensorFlow checkpoint without statistics.

Normalisation and voxel size are those of the repository's inference configurations. The network's training volume
(`validation_sample`) is not public; grey levels and lengths are means of `image_statistics` of the data set's public
samples `training_sample1` and `training_sample2`.
"""

PUBLISHED: dict[str, tuple[TrainedOn, ...]] = {"model.ckpt-27465036": (FIB25,)}
"""Published TensorFlow checkpoints by the name of their files, and what they were trained on."""
