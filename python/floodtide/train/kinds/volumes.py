# SPDX-License-Identifier: Apache-2.0
"""Volumes of a configuration as objects, and back, for the kinds of networks that train on volumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from floodtide.config import Config
from floodtide.config.sections import ValidationConfig, VolumeConfig, require_tables
from floodtide.data import TrainingVolume
from floodtide.data.boxes import box_text
from floodtide.data.volumes import name_of
from floodtide.errors import ConfigurationError, InvalidArgumentError


def training_volumes(config: Config, needed: Sequence[str]) -> list[TrainingVolume]:
    """Return the training volumes of a configuration.

    Args:
        config: The whole configuration.
        needed: Keys of a volume that must be given, such as "labels".

    Raises:
        ConfigurationError: If there is no volume, or a key is missing.
    """
    require_tables(config.data.volumes, "data.volumes")
    return [_volume(config, index, needed) for index in range(len(config.data.volumes))]


def held_out_volume(config: Config, needed: Sequence[str]) -> TrainingVolume:
    """Return the volume of the section [validation], with its box. Arguments and errors as for `training_volumes`."""
    section = config.validation
    require_tables(config.data.volumes, "data.volumes")
    names = [volume.name for volume in config.data.volumes]
    name = section.volume or names[0]
    if name not in names:
        raise ConfigurationError(
            f"validation.volume is '{name}', expected one of: {', '.join(names)}"
        )
    return _volume(config, names.index(name), needed, section.box)


def _volume(
    config: Config, index: int, needed: Sequence[str], box: str | None = None
) -> TrainingVolume:
    volume: VolumeConfig = config.data.volumes[index]
    for key in needed:
        if not getattr(volume, key):
            raise ConfigurationError(
                f"data.volumes.{index}.{key} is empty, expected file:dataset (volume '{volume.name}')"
            )
    return TrainingVolume(
        volume.image,
        volume.labels,
        volume.partitions,
        box=volume.box if box is None else box,
        mean=volume.mean,
        std=volume.std,
        name=volume.name,
        voxel_size_nm=volume.voxel_size_nm,
    )


def volume_tables(volumes: Sequence[TrainingVolume]) -> tuple[VolumeConfig, ...]:
    """Return the tables [[data.volumes]] that describe volumes."""
    return tuple(
        VolumeConfig(
            name=volume.name,
            image=name_of(volume.image),
            labels=name_of(volume.labels),
            partitions=name_of(volume.partitions),
            box=box_text(volume.extent),
            mean=volume.mean,
            std=volume.std,
            voxel_size_nm=volume.voxel_size_nm,
        )
        for volume in volumes
    )


def validation_section(
    volume: TrainingVolume, training: Sequence[TrainingVolume], every: int, **more: Any
) -> ValidationConfig:
    """Return the section [validation] for a box of one of the training volumes.

    Raises:
        InvalidArgumentError: If the volume is no training volume, or has no box.
    """
    known = {one.name: one for one in training}
    same = known.get(volume.name)
    if same is None or dataclasses.replace(same, box=volume.box) != volume:
        raise InvalidArgumentError(
            f"Trainer: validation is on volume '{volume.name}', expected a box of one of the training volumes: "
            + ", ".join(known)
        )
    box = box_text(volume.extent)
    if not box:
        raise InvalidArgumentError("Trainer: the validation volume has no box, expected one")
    return ValidationConfig(volume=volume.name, box=box, every=every, **more)
