# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the data of a configuration, before a training or a segmentation starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floodtide import config
from floodtide.comm import world
from floodtide.data import parse_box
from floodtide.data.image_check import image_problems, opened
from floodtide.data.look.problems import Problem
from floodtide.errors import Error
from floodtide.nn.checkpoint_files import checkpoints
from floodtide.segment.commands import reading_of, require_same_sizes, resolved
from floodtide.train.data_checks import look_at, require_volumes_fit, training_problems
from floodtide.train.own_partitions import with_partitions
from floodtide.train.parts import parts_of


def check(file: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Look for mistakes in the data of a configuration, as `train` and `segment` do before they start. Collective.

    If the configuration names no partitions, they are made in the run directory.

    Args:
        file: Name of a TOML file.
        overrides: Changed values, as `["data.volumes.0.mean=148"]`.

    Returns:
        The report, equal on all ranks: `config`, `training` and `segmentation` (True if they were looked at),
        `volumes` (figures of each), `errors` and `warnings` (sentences).

    Raises:
        InvalidFileError: If the file cannot be read.
        ConfigurationError: If a key is unknown or has a wrong value.
    """
    with world.agreed():
        settings = config.load(file, overrides)
    refused: Problem | None = None
    if _trains(settings):
        try:
            settings = with_partitions(settings)
        except Error as error:  # on every rank alike
            refused = Problem(True, str(error))
    report: dict[str, Any] = {}
    with world.agreed():
        if world.rank() == 0:
            report = _report(file, settings, refused)
    found: dict[str, Any] = world.broadcast_object(report)
    return found


def _report(file: str, settings: config.Config, refused: Problem | None) -> dict[str, Any]:
    """Return what was looked at and found. `refused`: why no partitions can be made."""
    found: list[Problem] = [] if refused is None else [refused]
    volumes: list[dict[str, Any]] = []
    trains = _trains(settings)
    if trains and refused is None:
        volumes, found = _of_training(settings)
    segments = bool(settings.segment.checkpoint) and not _to_be_trained(settings)
    if segments:
        found += _of_segmentation(file, settings)
    return {
        "config": file,
        "training": trains,
        "segmentation": segments,
        "volumes": volumes,
        "errors": [problem.text for problem in found if problem.error],
        "warnings": [problem.text for problem in found if not problem.error],
    }


def _trains(settings: config.Config) -> bool:
    """Return True if the configuration has data to train on, and not only an image to segment."""
    return bool(settings.data.slices) or any(volume.labels for volume in settings.data.volumes)


def _to_be_trained(settings: config.Config) -> bool:
    """Return True if the network to segment with is that of this training, and has no checkpoint yet."""
    folder = Path(settings.run.dir)
    own = bool(settings.run.dir) and Path(settings.segment.checkpoint) == folder
    return own and not (folder.is_dir() and checkpoints(folder))


def _of_training(settings: config.Config) -> tuple[list[dict[str, Any]], list[Problem]]:
    try:
        require_volumes_fit(settings)
        parts = parts_of(settings, world.size())
        looked = look_at(parts)
        found = training_problems(settings, parts, looked)
    except Error as error:  # what `train` would stop with
        return [], [Problem(True, str(error))]
    volumes = [
        {
            "name": one.name,
            "image": one.statistics.name,
            "shape": one.statistics.shape,
            "dtype": one.statistics.dtype,
            "sampled_voxels": one.statistics.sampled,
            "image_mean": one.statistics.mean,
            "image_std": one.statistics.std,
            "mean": one.reading.mean,
            "std": one.reading.std,
        }
        for one in looked
    ]
    return volumes, found


def _of_segmentation(file: str, settings: config.Config) -> list[Problem]:
    try:
        options = resolved(file, settings)
        reading = reading_of(settings, options)
        image, reading = opened(options.image, reading, "the configuration")
        require_same_sizes(options, image)
        part = parse_box(options.box)
        return image_problems(image, options.checkpoint, reading, box=part)
    except Error as error:
        return [Problem(True, str(error))]
