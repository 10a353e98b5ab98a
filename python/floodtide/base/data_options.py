# SPDX-License-Identifier: Apache-2.0
"""Training data: options that a configuration ([data], [augmentation]) and the sources of `floodtide.data` share."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import KW_ONLY, dataclass
from typing import Any

from floodtide.base import limits
from floodtide.base.network_options import Vec3
from floodtide.base.options import FOLDER, REQUIRED, Checked, one_of, option
from floodtide.errors import ConfigurationError

FLOOD, SLICES, PATCHES = "ffn", "unet2d", "unet3d"
"""Kinds of networks, `model.kind`: what they are trained on differs."""

VolumeName = str | Any
"""A volume as an option: its name; in a script also a `floodtide.data.Volume`."""


def volume_name(volume: VolumeName) -> str:
    """Return the name of a volume."""
    return os.fspath(volume) if isinstance(volume, str | os.PathLike) else str(volume.name)


@dataclass(frozen=True)
class TrainingVolume(Checked):
    """One image volume with its labels."""

    image: VolumeName = option(
        REQUIRED,
        "Image, file:dataset or another form (docs/formats.md); axes z, y, x",
        path=True,
        differs=FOLDER,
    )
    labels: VolumeName = option(
        "",
        "Labels (object ids), file:dataset; needed for training and validation",
        path=True,
        differs=FOLDER,
    )
    partitions: VolumeName = option(
        "",
        "Partition volume, file:dataset, made by `floodtide partition`; left out: a training of a flood-filling network"
        " makes the partitions of the labels, and keeps them in the run directory",
        path=True,
        differs=FOLDER,
    )
    _: KW_ONLY
    name: str = option("volume", "Name of the volume in messages, logs and other sections")
    box: str = option("", "Box to use, z0:z1,y0:y1,x0:x1 in voxels; empty: the whole volume")
    mean: float = option(
        128.0,
        "Mean of the image: the network receives (image - mean) / std",
        range=limits.INTENSITY,
    )
    std: float = option(33.0, "Standard deviation of the image", range=limits.DEVIATION)
    voxel_size_nm: tuple[float, float, float] | None = option(
        None,
        "Voxel size (z, y, x) in nanometres; left out: what the image states, if it states one",
        range=limits.VOXEL_SIZE,
    )


@dataclass(frozen=True)
class Stack(Checked):
    """One stack of slices with class masks. A negative class, 2^32 - 1 or 2^64 - 1 marks pixels that do not count."""

    images: VolumeName = option(
        REQUIRED,
        "Images, file:dataset or another form (docs/formats.md); axes slice, y, x",
        path=True,
        differs=FOLDER,
    )
    masks: VolumeName = option(
        REQUIRED,
        "Class masks, file:dataset; classes are numbered from 0",
        path=True,
        differs=FOLDER,
    )
    patients: str = option(
        "",
        "Patient number of each slice, file:dataset (HDF5); empty: all slices are of one patient",
        path=True,
        differs=FOLDER,
    )


@dataclass(frozen=True, kw_only=True)
class DataOptions(Checked):
    """Training data, and how each rank reads them."""

    volumes: tuple[TrainingVolume, ...] = option(
        (), "Training volumes, one [[data.volumes]] table each", kinds=(FLOOD, PATCHES)
    )
    permutable_axes: tuple[int, ...] = option(
        (1, 2),
        "Axes (0: z, 1: y, 2: x) that augmentation permutes at random among themselves",
        kinds=(FLOOD, PATCHES),
        range=limits.AXIS,
    )
    reflectable_axes: tuple[int, ...] = option(
        (0, 1, 2),
        "Axes that augmentation reflects, each with probability 0.5",
        kinds=(FLOOD, PATCHES),
        range=limits.AXIS,
    )
    lom_radius: Vec3 | None = option(
        None,
        "Radius (z, y, x) in voxels of the box around a voxel for partitions that a training makes; left out: half"
        " the field of view plus model.deltas",
        kinds=(FLOOD,),
        range=limits.RADIUS,
    )
    min_object_size: int = option(
        1000,
        "Objects of fewer voxels count as background in partitions that a training makes",
        kinds=(FLOOD,),
        range=limits.VOXELS,
    )
    slices: tuple[Stack, ...] = option(
        (), "Stacks of slices, one [[data.slices]] table each", kinds=(SLICES,)
    )
    size: tuple[int, int] = option(
        (0, 0),
        "Size (y, x) in pixels to which slices are cropped or padded about their centre; 0, 0: the stored size",
        kinds=(SLICES,),
        range=limits.PIXELS_OR_STORED,
    )
    mean: float = option(
        0.0,
        "Mean of the slices: the network receives (value - mean) / std",
        kinds=(SLICES,),
        range=limits.INTENSITY,
    )
    std: float = option(
        1.0, "Standard deviation of the slices", kinds=(SLICES,), range=limits.DEVIATION
    )
    outside: float = option(
        0.0,
        "Value, before normalisation, of pixels outside of a stored slice; their class is 0",
        kinds=(SLICES,),
        range=limits.INTENSITY,
    )
    patch: Vec3 = option(
        (16, 128, 128),
        "Size (z, y, x) of the patches, in voxels",
        kinds=(PATCHES,),
        range=limits.PATCH,
    )
    patches: int = option(
        0,
        "Number of patches of an epoch; 0: the number of patches of a grid that covers the volumes",
        kinds=(PATCHES,),
        range=limits.COUNT_OR_NONE,
    )
    zero_is_boundary: bool = option(
        False,
        "True: voxels with label 0 are boundary or background, and their affinities are 0. False: they are unlabelled"
        " and the loss ignores them",
        kinds=(PATCHES,),
    )
    balance: bool = option(
        False,
        "Weight the voxels of each training patch so that affinities 0 and 1 have about equal total weight",
        kinds=(PATCHES,),
    )
    prefetch: int = option(
        2,
        "Number of examples (U-Nets: batches) that each walker loads in advance; 0: the step loads them itself",
        range=limits.PREFETCH,
    )
    readers: int = option(
        1,
        "Number of threads per rank that load examples in advance; each loads one example at a time",
        range=limits.READERS,
    )

    def of_kind(self, kind: str, tables: Any) -> DataOptions:
        """Return the options of a source: these, and the tables of its volumes or stacks.

        Args:
            kind: The kind of networks that the source is for.
            tables: One `TrainingVolume` or `Stack`, or several.

        Raises:
            ConfigurationError: If there is no table, or an option is given that other kinds of networks have.
        """
        key = "slices" if kind == SLICES else "volumes"
        given = (tables,) if dataclasses.is_dataclass(tables) else tuple(tables)
        if not given:
            raise ConfigurationError(
                f"data.{key} is empty, expected at least one [[data.{key}]] table"
            )
        for field in dataclasses.fields(self):
            kinds = field.metadata["kinds"]
            if kinds and kind not in kinds and getattr(self, field.name) != field.default:
                raise ConfigurationError(
                    f"data.{field.name} has no meaning for '{kind}', expected it only for {one_of(kinds)}"
                )
        replaced: dict[str, Any] = {key: given}
        return dataclasses.replace(self, **replaced)


@dataclass(frozen=True, kw_only=True)
class Augmentation(Checked):
    """Random changes of training slices, drawn anew in each epoch; for `unet2d`."""

    flip_y: bool = option(False, "Reverse the y axis with probability 0.5")
    flip_x: bool = option(False, "Reverse the x axis with probability 0.5")
    rotation_deg: float = option(
        0.0,
        "Rotate by a random angle from -rotation_deg to rotation_deg (degrees)",
        range=limits.ANGLE,
    )
    scale: float = option(
        0.0, "Magnify by a random factor from 1 / (1 + scale) to 1 + scale", range=limits.SCALE
    )
    gain: float = option(
        0.0,
        "Multiply normalised values by a random factor from 1 - gain to 1 + gain",
        range=limits.GAIN,
    )
    offset: float = option(
        0.0,
        "Add a random number from -offset to offset to the normalised values",
        range=limits.NOISE,
    )
    noise: float = option(
        0.0,
        "Add Gaussian noise with this standard deviation to the normalised values",
        range=limits.NOISE,
    )
