# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the data of a configuration, before a training or a segmentation starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import config
from floodtide.base.network_files import checkpoints
from floodtide.comm import world
from floodtide.data import parse_box
from floodtide.data.boxes import intersection, total
from floodtide.data.look.problems import Problem, image_problems, opened
from floodtide.data.patches import UNLABELLED, boxes_of
from floodtide.errors import Error
from floodtide.segment.commands import reading_of, require_same_sizes, resolved
from floodtide.train.data_checks import look_at, training_problems
from floodtide.train.learners import learner_of
from floodtide.train.learners.learner import held_out_volume
from floodtide.train.setup import objects_of, prepared, rates_of

Rows = list[dict[str, Any]]


def check(file: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Look for mistakes in the data of a configuration, as `train` and `segment` do before they start. Collective.

    If the configuration names no partitions, they are made in the run directory.

    Returns:
        The report, equal on all ranks: `config`, `training` and `segmentation` (True if they were looked at),
        `volumes` (figures of each), `classes` (for a task of classes: how many voxels, sections and boxes of the
        training part and of the held-out part have each of them), `errors` and `warnings` (sentences).

    Raises:
        InvalidFileError: If the file cannot be read.
        ConfigurationError: If a key is unknown or has a wrong value.
    """
    with world.agreed():
        settings = config.load(file, overrides)
    trains = any(volume.labels or volume.masks for volume in settings.data.volumes)
    refused = []
    if trains:
        try:
            settings = prepared(settings)
        except Error as error:  # on every rank alike
            refused.append(Problem(True, str(error)))

    def report() -> dict[str, Any]:
        volumes, classes, found = (
            _of_training(settings) if trains and not refused else ([], [], refused)
        )
        segments = bool(settings.segment.checkpoint) and not _to_be_trained(settings)
        if segments:
            found = found + _of_segmentation(file, settings)
        return {
            "config": file,
            "training": trains,
            "segmentation": segments,
            "volumes": volumes,
            "classes": classes or None,
            "errors": [problem.text for problem in found if problem.error],
            "warnings": [problem.text for problem in found if not problem.error],
        }

    return world.from_rank_0(report)


def _to_be_trained(settings: config.Config) -> bool:
    """Return True if the network to segment with is that of this training, and has no checkpoint yet."""
    folder = Path(settings.run.dir)
    own = bool(settings.run.dir) and Path(settings.segment.checkpoint) == folder
    return own and not (folder.is_dir() and checkpoints(folder))


def _of_training(settings: config.Config) -> tuple[Rows, Rows, list[Problem]]:
    """Return figures of the volumes and of the classes, and problems."""
    try:
        rates_of(settings, world.size())
        model, data = objects_of(settings, world.size())
        looked = look_at(data)
        held_out = held_out_volume(settings)
        found = training_problems(settings.task, data, looked, held_out, model.origin)
        classes = [] if settings.task.of_objects else _classes_in("training", data)
        if classes and (validated := learner_of(settings.model).held_out_of(settings)) is not None:
            classes += _classes_in("held out", validated)
    except Error as error:  # what `train` would stop with
        return [], [], [Problem(True, str(error))]
    volumes = []
    for one in looked:
        seen = one.statistics
        row: dict[str, Any] = {"name": one.volume.name, "image": seen.name, "shape": seen.shape}
        row |= {"dtype": seen.dtype, "image_mean": seen.mean, "image_std": seen.std}
        volumes.append(row | {"mean": one.reading.mean, "std": one.reading.std})
    return volumes, classes, found


def _classes_in(part: str, data: Any) -> Rows:
    """Return how many voxels, sections (z) and boxes of a part of the data of a task of classes have each class."""
    boxes = [boxes_of(volume) for volume in data.options.volumes]
    voxels: Counter[tuple[int, Any, Any]] = Counter()  # of a class in a section of a box
    for number in range(data.fixed_size):
        place, truth = data.core.fixed_place(number), data.fixed(number)[1]
        image, start = place.image, place.box[0]
        for at in np.argwhere(truth != UNLABELLED)[:1]:  # windows reach beyond their box
            voxel = total(at.tolist(), start), (1, 1, 1)
            box = image, next(one for one in boxes[image] if intersection(one, voxel))
            for z, section in enumerate(truth, start[0]):
                for value in np.unique(section[section != UNLABELLED]).tolist():
                    voxels[value, (image, z), box] += int(np.count_nonzero(section == value))
    sections = len({section for _, section, _ in voxels})

    rows = []
    for value, name in enumerate(data.task.channels):
        own = {key: n for key, n in voxels.items() if key[0] == value}
        count, seen, held = sum(own.values()), {key[1] for key in own}, {key[2] for key in own}
        row = {"part": part, "class": name, "voxels": count, "share": count / voxels.total()}
        row |= {"sections": f"{len(seen)} of {sections}"}
        rows.append(row | {"boxes": f"{len(held)} of {sum(map(len, boxes))}"})
    return rows


def _of_segmentation(file: str, settings: config.Config) -> list[Problem]:
    try:
        options = resolved(file, settings)
        reading = reading_of(settings, options)
        image, reading = opened(options.image, reading, "the configuration")
        require_same_sizes(options, image)
        return image_problems(image, options.checkpoint, reading, box=parse_box(options.box))
    except Error as error:
        return [Problem(True, str(error))]
