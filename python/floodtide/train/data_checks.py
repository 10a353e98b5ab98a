# SPDX-License-Identifier: Apache-2.0
"""The training data before the first step: partitions are made, and mistakes that a training survives are found.

Rank 0 looks at a sample of every volume, which takes about a second, and changes nothing in the training.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from floodtide.base.files import make_folder
from floodtide.base.progress import bar
from floodtide.base.tasks import Task
from floodtide.comm import world
from floodtide.config import Config
from floodtide.data import TrainingVolume, Vec3, Volume, look, partition
from floodtide.data.boxes import as_vec3, box_text, intersection, parse_boxes
from floodtide.data.look import problems
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.labels import integers_of
from floodtide.data.look.problems import Problem, Reading, image_problems
from floodtide.data.look.sampling import cubes_within, whole_of
from floodtide.data.look.trained_on import to_text
from floodtide.data.partitions import THRESHOLDS
from floodtide.data.volumes import as_volume, labels_of, name_of, settled_size, volume_exists
from floodtide.errors import InvalidArgumentError
from floodtide.train.learners import learner_of
from floodtide.train.learners.flood import patch_size
from floodtide.train.learners.learner import Data

MOST = 8
"""Volumes that are looked at. More would take longer than a start should."""
_RADIUS = 1.6  # ratio of the partitions' radius to half a patch
_FEW = 0.05  # share of the voxels of a box that are centres of examples
_INSIDE = 254  # highest class of partitions; 255 marks places that cannot be a centre
_FOREIGN = 0.02  # share of voxels of which partitions and labels say different things


@dataclass(frozen=True)
class Looked:
    """A volume of the training data, with statistics of its training box and of the whole, and how it is read."""

    volume: TrainingVolume
    image: Volume
    statistics: ImageStatistics
    whole: ImageStatistics
    reading: Reading


def require_volumes_fit(config: Config) -> None:
    """Check types and shapes before anything else opens the volumes, so that the message says what to do."""
    for volume in config.data.volumes[:MOST]:
        learner_of(config.model).data_class.require_fitting(volume)
        if not volume.labels:
            continue
        image, labels = as_volume(volume.image), as_volume(volume.labels)
        if image.is_same(labels):
            raise InvalidArgumentError(
                f"volume '{volume.name}': {name_of(volume.labels)} is given as image and as labels; expected labels,"
                " one id for each object"
            )
        integers_of(labels)


def check_data(
    task: Task, data: Data, held_out: TrainingVolume | None, start: str
) -> tuple[str, tuple[str, ...]]:
    """Look at the training data, and return the statistics that checkpoints keep, and warnings. Only for rank 0.

    Args:
        held_out: The volume of which a box is held out; None: none.
        start: File of the weights that the training starts from; "": none.
    """
    looked = look_at(data)
    warnings = problems.raise_errors(training_problems(task, data, looked, held_out, start))
    kept = []
    for one in looked:
        reading, parts = one.reading, {one.volume.name: one.whole}
        if one.statistics is not one.whole:
            parts[f"{one.volume.name} (box)"] = one.statistics
        size = reading.voxel_size_nm or one.statistics.voxel_size_nm
        known: dict[str, Any] = {"mean": reading.mean, "std": reading.std, "voxel_size_nm": size}
        kept += [look.trained_on(part, name=name, **known) for name, part in parts.items()]
    return to_text(kept), warnings


def look_at(data: Data) -> list[Looked]:
    """Return the statistics of the first MOST images of the training data, from a sample."""
    options, found = data.options, []
    for number, volume in enumerate(options.volumes[:MOST]):
        image, boxes = as_volume(volume.image), parse_boxes(volume.box)
        size = settled_size(image, volume.voxel_size_nm, "the configuration")
        if size is not None and image.whole.voxel_size_nm is None and volume.labels:
            settled_size(as_volume(volume.labels), size, "the configuration")
        keys = f"mean and std of volume '{volume.name}' (data.volumes.{number})"
        reading = Reading(f"volume '{volume.name}'", volume.mean, volume.std, keys, size)
        whole = statistics = look.image_statistics(image, budget=look.QUICK)
        if len(boxes) == 1 and boxes[0] != whole_of(image.shape):
            statistics = look.image_statistics(image, box=boxes[0], budget=look.QUICK)
        found.append(Looked(volume, image, statistics, whole, reading))
    return found


def training_problems(
    task: Task, data: Data, looked: Sequence[Looked], held_out: TrainingVolume | None, start: str
) -> list[Problem]:
    """Return what is probably wrong with the data of a training. Arguments as for `check_data`, and `look_at(data)`."""
    found = _of_boxes(held_out, data.options.volumes) if held_out is not None else []
    trained = look.training_images(start) if start else ()
    for number, one in enumerate(looked):
        where = one.reading.where
        found += problems.of_grey_levels(one.statistics, one.reading, trained, adapts=True)
        for at, channel in enumerate(one.volume.channels):
            keys = f"mean and std of data.volumes.{number}.channels.{at}"
            reading = Reading(where, channel.mean, channel.std, keys)
            found += image_problems(as_volume(channel.image), None, reading)
        if not data.flat:
            size = one.reading.voxel_size_nm or one.statistics.voxel_size_nm
            found += problems.of_axes(one.statistics, where, size, trained)
            found += problems.of_padding(one.statistics, where)
        if task.of_objects:
            found += _of_labels(one, labels_of(one.volume.labels))
        if not task.predicts:
            found += _of_partitions(one, labels_of(one.volume.labels), data.patch_size)
    return found + (_of_centres(data) if not task.predicts else [])


def _of_labels(one: Looked, labels: Volume) -> list[Problem]:
    where, boxes = one.reading.where, parse_boxes(one.volume.box)
    if len(boxes) > 1 or labels.shape != one.image.shape:
        return []
    statistics = look.label_statistics(labels, box=boxes[0] if boxes else None, budget=look.QUICK)
    found = problems.of_labels(statistics, where)
    if statistics.like_image or statistics.flat_axis is not None or statistics.objects == 0:
        return found
    aligned = look.alignment(one.image, labels, budget=look.QUICK)
    return found + problems.of_alignment(aligned, where, labels.name)


def _of_boxes(held: TrainingVolume, volumes: Sequence[TrainingVolume]) -> list[Problem]:
    """Return whether voxels are trained on and held out, or held-out ones show nothing."""
    found = []
    validated, held_image = parse_boxes(held.box), as_volume(held.image)
    for box in validated:
        seen = look.image_statistics(held_image, box=box, budget=look.QUICK)
        found += problems.of_padding(seen, "validation.box")
    for volume in volumes:
        image = as_volume(volume.image)
        if not image.is_same(held_image):
            continue
        trained = parse_boxes(volume.box) or [whole_of(image.shape)]
        shared = [intersection(a, b) for a in trained for b in validated]
        if common := sum(math.prod(box[1]) for box in shared if box is not None):
            share = 100 * common / sum(math.prod(size) for _, size in validated)
            found += problems.finding(
                f"validation.box {held.box} shares {share:.0f} % of its voxels with the training box"
                f" {'; '.join(map(box_text, trained))} of volume '{volume.name}', so validation scores say nothing"
                " about new data: expected parts that do not overlap"
            )
    return found


def _of_partitions(one: Looked, labels: Volume, patch_size: Sequence[int]) -> list[Problem]:
    """Return whether partitions have another radius than the patches, or were made of other labels."""
    partitions = as_volume(one.volume.partitions)
    found = []
    radius = partitions.core.integers("lom_radius_zyx")
    half = [size // 2 for size in patch_size]
    pairs = zip(radius or (), half, strict=False)
    if any(not 1 / _RADIUS <= max(r, 1) / max(h, 1) <= _RADIUS for r, h in pairs):
        made, wanted = (",".join(map(str, numbers)) for numbers in (radius or (), half))
        found += problems.finding(
            f"{one.reading.where}: {partitions.name} was made with --lom-radius {made}, but patches of this"
            f" network reach {wanted} voxels: make partitions with --lom-radius {wanted}"
        )
    if partitions.shape != labels.shape:
        return found  # the engine refuses them
    compared = differ = 0
    boxes = parse_boxes(one.volume.box) or [whole_of(labels.shape)]
    for cube in itertools.chain(*(cubes_within(box, look.QUICK) for box in boxes)):
        classes, ids = partitions.read(cube), labels.read(cube)
        known = classes <= _INSIDE
        compared += int(np.count_nonzero(known))
        ids, is_object = ids[known], classes[known] > 0
        # Partitions count an object as background everywhere, or nowhere.
        mixed = np.intersect1d(ids[is_object], ids[~is_object])
        wrong = np.where(ids == 0, is_object, np.isin(ids, mixed))
        differ += int(np.count_nonzero(wrong))
    if compared and differ > _FOREIGN * compared:
        found += problems.finding(
            f"{one.reading.where}: {partitions.name} was not made from {labels.name}: they contradict each"
            f" other at {100 * differ / compared:.0f} % of the sampled voxels; make partitions of these labels with"
            " `floodtide partition`",
            error=True,
        )
    return found


def _of_centres(shards: Data) -> list[Problem]:
    """Return whether hardly any voxel is the centre of an example."""
    volumes = shards.options.volumes
    boxes = [parse_boxes(one.box) or [whole_of(as_volume(one.image).shape)] for one in volumes]
    voxels = sum(math.prod(size) for some in boxes for _, size in some)
    if len(shards) >= _FEW * voxels:
        return []
    patch = " x ".join(map(str, shards.patch_size))
    return problems.finding(
        f"training has examples at {len(shards):,} of {voxels:,} voxels ({100 * len(shards) / voxels:.1f} %): use a"
        f" smaller model.fov or model.deltas (patches of {patch} voxels need room), or partitions with a smaller"
        " --lom-radius or --min-size"
    )


def with_partitions(config: Config) -> Config:
    """Return the configuration with partitions for every labelled volume. Collective.

    Nothing is made for volumes that name theirs, and for those without labels.
    A file in the run directory is used again if labels, radius and smallest object are the same. The ranks compute the
    blocks, rank 0 writes the file; the voxels do not depend on their number.

    Raises:
        floodtide.errors.Error: On every rank alike, for labels that cannot be read.
    """
    half = [size // 2 for size in patch_size(config)]  # of the field of view, and one step
    radius, least = config.data.lom_radius or as_vec3(half), config.data.min_object_size
    volumes = []
    for volume in config.data.volumes:
        if volume.labels and not volume.partitions:
            name, there = world.from_rank_0(functools.partial(_place, volume, config, radius))
            if not there:
                with bar("blocks", f"partition {volume.name}") as show:
                    partition(volume.labels, name, lom_radius=radius, min_size=least, progress=show)
            volume = dataclasses.replace(volume, partitions=name)
        volumes.append(volume)
    data = dataclasses.replace(config.data, volumes=tuple(volumes))
    return dataclasses.replace(config, data=data)


def _place(volume: TrainingVolume, config: Config, radius: Vec3) -> tuple[str, bool]:
    """Return the dataset for partitions of a volume, whose name tells labels and parameters, and if it is there."""
    place = as_volume(volume.labels).place
    if place is None:
        raise InvalidArgumentError(
            f"volume '{volume.name}': labels are no file, expected partitions too (ft.data.partition makes them)"
        )
    status = os.stat(place[0])
    file = [place, [status.st_size, status.st_mtime_ns]]
    facts = json.dumps([*file, radius, config.data.min_object_size, THRESHOLDS])
    digest = hashlib.sha256(facts.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    name = f"{config.run.dir}/partitions-{digest}.h5:partitions"
    there = volume_exists(name)
    if not there:
        make_folder(Path(config.run.dir))
    return name, there
