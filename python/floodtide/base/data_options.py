# SPDX-License-Identifier: Apache-2.0
"""Training data: options that a configuration ([data], [augmentation]) and the sources of `floodtide.data` share."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from floodtide.base import limits
from floodtide.base.networks.network import Vec3
from floodtide.base.options import (
    FLOOD,
    FOLDER,
    PATCHES,
    REQUIRED,
    Checked,
    of_patches,
    one_of,
    option,
)
from floodtide.errors import ConfigurationError

VolumeName = str | Any
"""A volume as an option: its name; in a script also a `floodtide.data.Volume`."""


def volume_name(volume: VolumeName) -> str:
    """Return the name of a volume."""
    return os.fspath(volume) if isinstance(volume, str | os.PathLike) else str(volume.name)


WHOLE = "whole"
"""`data.patch` of samples that are whole sections."""


@dataclass(frozen=True)
class Channel(Checked):
    """One more channel of an image: a volume of the same shape."""

    image: VolumeName = option(
        REQUIRED, "Intensities, a volume of the same shape as the image", path=True, differs=FOLDER
    )
    mean: float = option(
        128.0, "Mean: the network receives (value - mean) / std", range=limits.INTENSITY
    )
    std: float = option(33.0, "Standard deviation of the channel", range=limits.DEVIATION)


@dataclass(frozen=True)
class TrainingVolume(Checked):
    """One image volume, or stack of sections, with its labels."""

    image: VolumeName = option(
        REQUIRED,
        "Image, file:dataset or another form (docs/formats.md); axes z, y, x",
        path=True,
        differs=FOLDER,
    )
    labels: VolumeName = option(
        "",
        "Labels (ids of objects, or classes), file:dataset; needed for training and validation",
        path=True,
        differs=FOLDER,
    )
    partitions: VolumeName = option(
        "",
        "Partition volume, file:dataset, made by `floodtide partition`; left out: a training of a flood-filling network"
        " makes the partitions of the labels, and keeps them in the run directory",
        path=True,
        kinds=(FLOOD,),
        differs=FOLDER,
    )
    name: str = option("volume", "Name of the volume in messages, logs and other sections")
    box: str = option(
        "",
        "Boxes whose labels are used, z0:z1,y0:y1,x0:x1 in voxels, separated by semicolons; empty: all labels. Outside"
        " of them nothing is learnt and nothing is scored",
    )
    mean: float = option(
        128.0, "Mean: the network receives (image - mean) / std", range=limits.INTENSITY
    )
    std: float = option(33.0, "Standard deviation of the image", range=limits.DEVIATION)
    voxel_size_nm: tuple[float, float, float] | None = option(
        None,
        "Voxel size (z, y, x) in nanometres; left out: what the image states, if it states one",
        range=limits.VOXEL_SIZE,
    )
    labels_start: Vec3 | None = of_patches(
        None,
        "Voxel (z, y, x) of the image at which the labels begin; needed if they are smaller than the image",
        range=limits.EXTENT,
    )
    masks: Mapping[str, VolumeName] = option(
        {},
        "Instead of labels, a binary mask for each class: `{ mitochondria = "
        '"mito.tif", vesicles = "vesicles.tif" }`; a voxel is in one of them at most',
        path=True,
        kinds=("classes",),
        differs=FOLDER,
    )
    groups: VolumeName = of_patches(
        "",
        "Number of the patient (animal, block) of each section, file:dataset (HDF5) of one axis: sections of one number"
        " are trained on, or held out, together; empty: the volume is one group",
        path=True,
        differs=FOLDER,
    )
    channels: tuple[Channel, ...] = of_patches(
        (), "More channels of the image, one [[data.volumes.channels]] table each"
    )

    @property
    def inputs(self) -> tuple[Channel, ...]:
        """The channels that a network receives: the image first."""
        return (Channel(self.image, self.mean, self.std), *self.channels)

    @property
    def labels_box_start(self) -> Vec3:
        """The voxel (z, y, x) of the image at which the labels begin."""
        return self.labels_start or (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class DataOptions(Checked):
    """Training data, and how each rank reads them."""

    volumes: tuple[TrainingVolume, ...] = option((), "Volumes, one [[data.volumes]] table each")
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
    patch: Vec3 | str = of_patches(
        (16, 128, 128),
        'Size (z, y, x) of the patches, in voxels; "whole": each section of the boxes is one sample',
        choices=(WHOLE,),
        range=limits.PATCH,
    )
    size: tuple[int, int] = of_patches(
        (0, 0),
        'With patch = "whole": size (y, x) to which sections are cut or padded about their centre, with their mean and'
        " without labels; 0, 0: that of the largest one, padded to a multiple of the network's pooling",
        range=limits.PIXELS_OR_STORED,
    )
    patches: int = of_patches(
        0, "Patches of an epoch; 0: as many as windows cover the boxes", range=limits.COUNT_OR_NONE
    )
    unlabelled: int | None = of_patches(
        None,
        "One more value of voxels without a label; negative values, 2^32 - 1 and 2^64 - 3 to 2^64 - 1 always mean this",
        range=limits.STORED_VALUE,
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

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [volume.name for volume in self.volumes if not volume.groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(
                f"{self._prefix}volumes has two tables with the name '{twice}', expected different names"
            )

    def of(self, volumes: TrainingVolume | Any, examples: str = PATCHES) -> DataOptions:
        """Return the options of a source: these, with its volume or volumes.

        Raises:
            ConfigurationError: If there is no volume, or an option has a meaning for other examples only.
        """
        given = (volumes,) if isinstance(volumes, TrainingVolume) else tuple(volumes)
        if not given:
            raise ConfigurationError("data.volumes is empty, expected a [[data.volumes]] table")
        for field in dataclasses.fields(self):
            kinds = field.metadata["kinds"]
            if kinds and examples not in kinds and getattr(self, field.name) != field.default:
                raise ConfigurationError(
                    f"data.{field.name} has no meaning for {examples}, expected it only for {one_of(kinds)}"
                )
        return dataclasses.replace(self, volumes=given)


@dataclass(frozen=True, kw_only=True)
class Augmentation(Checked):
    """Random changes of training examples, drawn anew in each epoch. A section is a plane z of a patch."""

    permutable_axes: tuple[int, ...] = option(
        (1, 2), "Axes (0: z, 1: y, 2: x) that one random permutation shuffles", range=limits.AXIS
    )
    reflectable_axes: tuple[int, ...] = option(
        (0, 1, 2), "Axes that are reflected, each with probability 0.5", range=limits.AXIS
    )
    rotation_deg: float = option(
        0.0,
        "Rotate in the plane by a random angle from -rotation_deg to rotation_deg (degrees)",
        range=limits.ANGLE,
    )
    rotate_in_space: bool = option(
        False,
        "Rotate about a random axis, and displace along z, too: for voxels that are alike along all axes",
    )
    scale: float = option(
        0.0, "Magnify by a random factor from 1 / (1 + scale) to 1 + scale", range=limits.SCALE
    )
    elastic: float = option(
        0.0,
        "Standard deviation in voxels of a smooth random displacement, which varies over 32 voxels",
        range=limits.SIGMA,
    )
    blur: float = option(
        0.0,
        "Blur the sections with a Gaussian whose standard deviation is random, up to this number of voxels",
        range=limits.SIGMA,
    )
    gamma: float = option(
        0.0,
        "Raise intensities, scaled to 0 to 1, to a random power from 1 / (1 + gamma) to 1 + gamma",
        range=limits.SCALE,
    )
    gain: float = option(
        0.0, "Random factor of the normalised values, from 1 - gain to 1 + gain", range=limits.GAIN
    )
    offset: float = option(
        0.0, "Add a random number from -offset to offset to normalised values", range=limits.NOISE
    )
    noise: float = option(
        0.0, "Standard deviation of Gaussian noise, added to normalised values", range=limits.NOISE
    )
    faint_object: float = option(
        0.0,
        "Probability that an object has little contrast: inside, it is about as dark as its boundary, or darker",
        range=limits.FRACTION,
    )
    bad_sections: float = option(
        0.0,
        "Probability that a section suffers what serial sections suffer: it is missing (black), dark or faint,"
        " defocused, or displaced in the plane by up to 1/16 of the patch with its labels, each with a quarter of it",
        range=limits.FRACTION,
    )
