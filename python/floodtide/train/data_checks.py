# SPDX-License-Identifier: Apache-2.0
"""The training data before the first step: partitions are made, and mistakes that a training survives are found.

Rank 0 looks at a sample of every volume, which takes about a second, and changes nothing in the training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from floodtide.base.files import make_folder
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import Config
from floodtide.data import TrainingVolume, Vec3, Volume, partition
from floodtide.data.boxes import as_vec3, box_text, intersection, parse_boxes
from floodtide.data.formats.table import format_of, place
from floodtide.data.image_check import image_problems
from floodtide.data.look import (
    QUICK,
    alignment,
    image_statistics,
    label_statistics,
    problems,
    trained_on,
    training_images,
)
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.labels import require_labels
from floodtide.data.look.problems import Problem, Reading
from floodtide.data.look.sampling import cubes_within, whole_of
from floodtide.data.look.trained_on import to_text
from floodtide.data.partitions import THRESHOLDS
from floodtide.data.volumes import (
    VolumeLike,
    as_volume,
    labels_of,
    name_of,
    settled_size,
    volume_exists,
)
from floodtide.errors import InvalidArgumentError
from floodtide.train.learners import learner_of
from floodtide.train.learners.learner import Data, held_out_volume

MOST = 8
"""Volumes that are looked at. More would take longer than a start should."""
_RADIUS = 1.6  # ratio of the partitions' radius to half a patch
_FEW = 0.05  # share of the voxels of a box that are centres of examples
_INSIDE = 254  # highest class of partitions; 255 marks places that cannot be a centre
_FOREIGN = 0.02  # share of voxels of which partitions and labels say different things

DATASET = "partitions"
"""Dataset of the files that are made here."""


@dataclass(frozen=True)
class Looked:
    """An image of the training data, with statistics of its training box and of the whole, and how it is read."""

    image: Volume
    statistics: ImageStatistics
    whole: ImageStatistics
    reading: Reading
    name: str

    @property
    def parts(self) -> list[tuple[str, ImageStatistics]]:
        """The whole image and its training box, if that is another part, with their names."""
        box = [] if self.whole is self.statistics else [(f"{self.name} (box)", self.statistics)]
        return [(self.name, self.whole), *box]


def require_volumes_fit(config: Config) -> None:
    """Check types and shapes before anything else opens the volumes, so that the message says what to do.

    Raises:
        InvalidArgumentError: If an image is given as its own labels.
        InvalidFileError: If labels are not integers, or a file cannot be read.
        ShapeError: If labels have another shape than the image.
    """
    for volume in config.data.volumes[:MOST]:
        learner_of(config).data_class.require_fitting(volume)
        if not volume.labels:
            continue
        if _same_volume(volume.image, volume.labels):
            raise InvalidArgumentError(
                f"volume '{volume.name}': {name_of(volume.labels)} is given as image and as labels; expected labels,"
                " one id for each object"
            )
        require_labels(as_volume(volume.labels))


def check_data(config: Config, data: Data) -> tuple[str, tuple[str, ...]]:
    """Look at the training data. Not collective: only rank 0 does this.

    Args:
        config: The whole configuration.
        data: The training data that it describes.

    Returns:
        The statistics that checkpoints keep, and warnings.

    Raises:
        floodtide.errors.Error: If the data cannot be what somebody wants to train on.
    """
    looked = look_at(data)
    warnings = problems.raise_errors(training_problems(config, data, looked))
    kept = [
        trained_on(
            statistics,
            name=name,
            mean=one.reading.mean,
            std=one.reading.std,
            voxel_size_nm=one.reading.voxel_size_nm or one.statistics.voxel_size_nm,
        )
        for one in looked
        for name, statistics in one.parts
    ]
    return to_text(kept), warnings


def look_at(data: Data) -> list[Looked]:
    """Return the statistics of the first MOST images of the training data, from a sample."""
    options, found = data.options, []
    for number, volume in enumerate(options.volumes[:MOST]):
        size = settled_size(as_volume(volume.image), volume.voxel_size_nm, "the configuration")
        keys = f"mean and std of volume '{volume.name}' (data.volumes.{number})"
        reading = Reading(f"volume '{volume.name}'", volume.mean, volume.std, keys, size)
        found.append(_look(volume, reading))
    return found


def training_problems(config: Config, data: Data, looked: Sequence[Looked]) -> list[Problem]:
    """Return what is probably wrong with the data of a training."""
    found = []
    start = config.model.initial_weights
    trained = training_images(start) if start else ()
    for one in looked:
        found += problems.of_grey_levels(one.statistics, one.reading, trained, adapts=True)
        found += _of_channels(data, one.name)
        if not data.flat:
            size = one.reading.voxel_size_nm or one.statistics.voxel_size_nm
            found += problems.of_axes(one.statistics, one.reading.where, size, trained)
            found += problems.of_padding(one.statistics, one.reading.where)
    if config.task.of_objects:
        for volume, one in zip(data.options.volumes, looked, strict=False):
            found += _of_labels(volume, one)
    found += _of_boxes(config, data.options.volumes)
    if config.task.partitioned:
        for volume in data.options.volumes[:MOST]:
            found += _of_partitions(volume, data.patch_size)
        found += _of_centres(data)
    return found


def _look(volume: TrainingVolume, reading: Reading) -> Looked:
    image, boxes = as_volume(volume.image), parse_boxes(volume.box)
    whole = image_statistics(image, budget=QUICK, sections=False)
    statistics = whole
    if len(boxes) == 1 and boxes[0] != whole_of(image.shape):
        statistics = image_statistics(image, box=boxes[0], budget=QUICK, sections=False)
    return Looked(image, statistics, whole, reading, volume.name)


def _of_labels(volume: TrainingVolume, one: Looked) -> list[Problem]:
    labels = labels_of(volume.labels)
    where = one.reading.where
    boxes = parse_boxes(volume.box)
    if len(boxes) > 1 or labels.shape != one.image.shape:
        return []
    statistics = label_statistics(
        labels, box=boxes[0] if boxes else None, budget=QUICK, sections=False
    )
    found = problems.of_labels(statistics, where)
    if statistics.like_image or statistics.flat_axis is not None or statistics.objects == 0:
        return found
    aligned = alignment(one.image, labels, budget=QUICK)
    return found + problems.of_alignment(aligned, where, labels.name)


def _of_boxes(config: Config, volumes: Sequence[TrainingVolume]) -> list[Problem]:
    """Return whether voxels are trained on and held out, or held-out ones show nothing."""
    if not config.validation.box:
        return []
    held = held_out_volume(config)
    found = []
    for box in parse_boxes(held.box):
        seen = image_statistics(as_volume(held.image), box=box, budget=QUICK, sections=False)
        found += problems.of_padding(seen, "validation.box")
    for volume in volumes:
        if not _same_volume(volume.image, held.image):
            continue
        whole = whole_of(as_volume(volume.image).shape)
        trained, validated = parse_boxes(volume.box) or [whole], parse_boxes(held.box)
        shared = [intersection(a, b) for a in trained for b in validated]
        common = sum(math.prod(box[1]) for box in shared if box is not None)
        if common:
            share = 100 * common / sum(math.prod(size) for _, size in validated)
            found.append(
                Problem(
                    False,
                    f"validation.box {held.box} shares {share:.0f} % of its voxels with the training box"
                    f" {'; '.join(map(box_text, trained))} of volume '{volume.name}', so validation scores say nothing"
                    f" about new data: set validation.box, or the box of volume '{volume.name}', to parts that do not"
                    " overlap",
                )
            )
    return found


def _of_partitions(volume: TrainingVolume, patch_size: Sequence[int]) -> list[Problem]:
    """Return whether partitions have another radius than the patches, or were made of other labels."""
    partitions = as_volume(volume.partitions)
    labels = labels_of(volume.labels)
    found = []
    radius = partitions.core.integers("lom_radius_zyx")
    half = [size // 2 for size in patch_size]
    pairs = zip(radius or (), half, strict=False)
    if any(not 1 / _RADIUS <= max(r, 1) / max(h, 1) <= _RADIUS for r, h in pairs):
        made, wanted = (",".join(map(str, numbers)) for numbers in (radius or (), half))
        found.append(
            Problem(
                False,
                f"volume '{volume.name}': {partitions.name} was made with --lom-radius {made}, but patches of this"
                f" network reach {wanted} voxels: make partitions with --lom-radius {wanted}",
            )
        )
    if partitions.shape != labels.shape:
        return found  # the engine refuses them
    compared = differ = 0
    boxes = parse_boxes(volume.box) or [whole_of(labels.shape)]
    for cube in (cube for box in boxes for cube in cubes_within(box, QUICK)):
        classes, ids = partitions.read(cube), labels.read(cube)
        known = classes <= _INSIDE
        compared += int(np.count_nonzero(known))
        object_ids, is_object = ids[known], classes[known] > 0
        # Partitions count an object as background everywhere, or nowhere.
        kept, dropped = np.unique(object_ids[is_object]), np.unique(object_ids[~is_object])
        both = np.union1d(np.intersect1d(kept, dropped), [0])
        wrong = np.isin(object_ids, both) & (is_object | (object_ids != 0))
        differ += int(np.count_nonzero(wrong))
    if compared and differ > _FOREIGN * compared:
        found.append(
            Problem(
                True,
                f"volume '{volume.name}': {partitions.name} was not made from {labels.name}: they contradict each"
                f" other at {100 * differ / compared:.0f} % of the sampled voxels; make partitions of these labels with"
                " `floodtide partition`",
            )
        )
    return found


def _of_centres(shards: Data) -> list[Problem]:
    """Return whether hardly any voxel is the centre of an example, and why."""
    boxes = [
        box
        for volume in shards.options.volumes
        for box in parse_boxes(volume.box) or [whole_of(as_volume(volume.image).shape)]
    ]
    voxels = sum(math.prod(size) for _, size in boxes)
    room = sum(
        math.prod(max(0, n - patch + 1) for n, patch in zip(size, shards.patch_size, strict=True))
        for _, size in boxes
    )
    if len(shards) >= _FEW * voxels:
        return []
    patch = " x ".join(map(str, shards.patch_size))
    advice = "but partitions allow few of them: make partitions with a smaller --lom-radius or --min-size"
    if room < 2 * _FEW * voxels:
        advice = (
            "so use a smaller model.fov or model.deltas, and partitions with a smaller --lom-radius"
        )
    return [
        Problem(
            False,
            f"training has examples at {len(shards):,} of {voxels:,} voxels ({100 * len(shards) / voxels:.1f} %):"
            f" patches of {patch} voxels have room at {room:,} places, {advice}",
        )
    ]


def _same_volume(a: VolumeLike, b: VolumeLike) -> bool:
    """Return True if two names or objects are the same volume."""
    if isinstance(a, Volume) or isinstance(b, Volume):
        return a is b
    try:
        return place(str(a)) == place(str(b))
    except InvalidArgumentError:
        return str(a) == str(b)


def with_partitions(config: Config) -> Config:
    """Return the configuration with partitions for every labelled volume. Collective.

    Nothing is made for networks that need no partitions, for volumes that name theirs, and for those without labels.
    A file in the run directory is used again if labels, radius and smallest object are the same. The ranks compute the
    blocks, rank 0 writes the file; the voxels do not depend on their number.

    Raises:
        floodtide.errors.Error: On every rank alike, for labels that cannot be read.
    """
    if not config.task.partitioned:
        return config
    with world.agreed():
        if world.current().rank == 0:  # partitions of wrong labels would take long before the error
            require_volumes_fit(config)
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
    if config.data.lom_radius is not None:
        return config.data.lom_radius
    return as_vec3([size // 2 for size in learner_of(config).patch_size(config)])


def _with_own(volume: TrainingVolume, config: Config) -> TrainingVolume:
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


def _digest(volume: TrainingVolume, radius: Vec3, least: int) -> str:
    """Return a short text that differs for other labels or other parameters."""
    path = format_of(volume.labels).path(volume.labels)
    try:
        status = os.stat(path)
        changed = [status.st_size, status.st_mtime_ns]
    except (OSError, ValueError):  # opening the labels says what is wrong
        changed = []
    facts = [place(volume.labels), changed, radius, least, THRESHOLDS]
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _of_channels(data: Data, name: str) -> list[Problem]:
    """Return what is wrong with mean and std of the further channels of a volume."""
    found = []
    for number, volume in enumerate(data.options.volumes):
        for at, channel in enumerate(volume.channels if volume.name == name else ()):
            keys = f"mean and std of data.volumes.{number}.channels.{at}"
            reading = Reading(f"volume '{name}'", channel.mean, channel.std, keys)
            found += image_problems(as_volume(channel.image), None, reading)
    return found
