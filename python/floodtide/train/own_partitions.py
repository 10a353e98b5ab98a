# SPDX-License-Identifier: Apache-2.0
"""Partitions of the volumes whose configuration names none: made at the start of a training, in its run directory."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path

from floodtide.base.files import make_folder
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import Config, FfnConfig
from floodtide.config.sections import VolumeConfig
from floodtide.data import Vec3, partition
from floodtide.data.boxes import as_vec3
from floodtide.data.formats.table import format_of, place
from floodtide.data.partitions import THRESHOLDS
from floodtide.data.volumes import volume_exists
from floodtide.train.fitting import require_fitting
from floodtide.train.kinds.volumes import training_volumes

DATASET = "partitions"
"""Dataset of the files that are made here."""


def with_partitions(config: Config) -> Config:
    """Return the configuration with partitions for every labelled volume. Collective.

    Nothing is made for networks that need no partitions, for volumes that name theirs, and for those without labels.
    A file in the run directory is used again if labels, radius and smallest object are the same. The ranks compute the
    blocks, rank 0 writes the file; the voxels do not depend on their number.

    Raises:
        floodtide.errors.Error: On every rank alike, for labels that cannot be read.
    """
    if not isinstance(config.model, FfnConfig):
        return config
    with world.agreed():
        if world.current().rank == 0:  # partitions of wrong labels would take long before the error
            require_fitting(training_volumes(config, ()))
    volumes = tuple(
        volume if volume.partitions or not volume.labels else _with_own(volume, config)
        for volume in config.data.volumes
    )
    if volumes == config.data.volumes:
        return config
    return dataclasses.replace(config, data=dataclasses.replace(config.data, volumes=volumes))


def lom_radius(config: Config) -> Vec3:
    """Return the radius (z, y, x) in voxels of the box of a partition: data.lom_radius, or half the field of view plus
    the step."""
    assert isinstance(config.model, FfnConfig)
    if config.data.lom_radius is not None:
        return config.data.lom_radius
    sizes = zip(config.model.fov, config.model.deltas, strict=True)
    return as_vec3([fov // 2 + delta for fov, delta in sizes])


def _with_own(volume: VolumeConfig, config: Config) -> VolumeConfig:
    """Return the volume with the partitions that this run makes of it. Collective."""
    radius, least = lom_radius(config), config.data.min_object_size
    name, there = "", False
    with world.agreed():
        if world.current().rank == 0:
            name = f"{config.run.dir}/partitions-{_digest(volume, radius, least)}.h5:{DATASET}"
            there = volume_exists(name)
            if not there:
                make_folder(Path(config.run.dir))
    name, there = world.broadcast_object((name, there))
    if not there:
        with bar("blocks", f"partition {volume.name}") as progress:
            partition(volume.labels, name, lom_radius=radius, min_size=least, progress=progress)
    return dataclasses.replace(volume, partitions=name)


def _digest(volume: VolumeConfig, radius: Vec3, least: int) -> str:
    """Return a short text that differs for other labels or other parameters."""
    path = format_of(volume.labels).path(volume.labels)
    try:
        status = os.stat(path)
        changed = [status.st_size, status.st_mtime_ns]
    except (OSError, ValueError):  # opening the labels says what is wrong
        changed = []
    facts = [place(volume.labels), changed, radius, least, THRESHOLDS]
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogateescape")).hexdigest()[:12]
