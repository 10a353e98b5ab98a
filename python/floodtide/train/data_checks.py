# SPDX-License-Identifier: Apache-2.0
"""The training data before the first step: partitions are made, and mistakes that a training survives are found.

Rank 0 looks at a sample of every volume, which takes about a second, and changes nothing in the training.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from floodtide.base.files import make_folder, path_and_dataset
from floodtide.base.progress import bar
from floodtide.base.tasks import Task
from floodtide.comm import world
from floodtide.config import Config
from floodtide.data import TrainingVolume, Vec3, Volume, look, partition
from floodtide.data.boxes import as_vec3, box_text, intersection, parse_boxes
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.image_check import image_problems
from floodtide.data.look import problems
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.labels import require_labels
from floodtide.data.look.problems import Problem, Reading
from floodtide.data.look.sampling import cubes_within, whole_of
from floodtide.data.look.trained_on import to_text
from floodtide.data.partitions import THRESHOLDS
from floodtide.data.volumes import as_volume, labels_of, name_of, settled_size, volume_exists
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.train.learners import learner_of
from floodtide.train.learners.learner import Data

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
    """A volume of the training data, with statistics of its training box and of the whole, and how it is read."""

    volume: TrainingVolume
    image: Volume
    statistics: ImageStatistics
    whole: ImageStatistics
    reading: Reading

    @functools.cached_property
    def labels(self) -> Volume:
        """The labels, opened when they are first asked for."""
        return labels_of(self.volume.labels)

    @property
    def parts(self) -> list[tuple[str, ImageStatistics]]:
        """The whole image and its training box, if that is another part, with their names."""
        name = self.volume.name
        box = [] if self.whole is self.statistics else [(f"{name} (box)", self.statistics)]
        return [(name, self.whole), *box]


def require_files(file: str, config: Config) -> None:
    """Raise InvalidFileError, with the key of the configuration `file`, if an HDF5 file of a volume is missing."""
    for volume in config.data.volumes[:MOST]:
        for key in ("image", "labels", "partitions"):
            name = getattr(volume, key)
            if not name or format_of(name) is not HDF5:
                continue
            path = path_and_dataset(name)[0]
            if not os.path.lexists(path):
                where = f"{file}: data.volumes '{volume.name}': {key}"
                raise InvalidFileError(f"{where}: {path}: no such file")


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
        require_labels(labels)


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
    kept = [
        look.trained_on(
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
        image, boxes = as_volume(volume.image), parse_boxes(volume.box)
        size = settled_size(image, volume.voxel_size_nm, "the configuration")
        if size is not None and image.whole.voxel_size_nm is None and volume.labels:
            settled_size(as_volume(volume.labels), size, "the configuration")
        keys = f"mean and std of volume '{volume.name}' (data.volumes.{number})"
        reading = Reading(f"volume '{volume.name}'", volume.mean, volume.std, keys, size)
        whole = statistics = look.image_statistics(image, budget=look.QUICK, sections=False)
        if len(boxes) == 1 and boxes[0] != whole_of(image.shape):
            statistics = look.image_statistics(
                image, box=boxes[0], budget=look.QUICK, sections=False
            )
        found.append(Looked(volume, image, statistics, whole, reading))
    return found


def training_problems(
    task: Task, data: Data, looked: Sequence[Looked], held_out: TrainingVolume | None, start: str
) -> list[Problem]:
    """Return what is probably wrong with the data of a training. Arguments as for `check_data`, and `look_at(data)`."""
    found = _of_boxes(held_out, data.options.volumes) if held_out is not None else []
    trained = look.training_images(start) if start else ()
    for number, one in enumerate(looked):
        found += problems.of_grey_levels(one.statistics, one.reading, trained, adapts=True)
        found += _of_channels(one, number)
        if not data.flat:
            size = one.reading.voxel_size_nm or one.statistics.voxel_size_nm
            found += problems.of_axes(one.statistics, one.reading.where, size, trained)
            found += problems.of_padding(one.statistics, one.reading.where)
    if task.of_objects:
        for one in looked:
            found += _of_labels(one)
    if task.partitioned:
        for one in looked:
            found += _of_partitions(one, data.patch_size)
        found += _of_centres(data)
    return found


def _of_labels(one: Looked) -> list[Problem]:
    labels, where, boxes = one.labels, one.reading.where, parse_boxes(one.volume.box)
    if len(boxes) > 1 or labels.shape != one.image.shape:
        return []
    statistics = look.label_statistics(
        labels, box=boxes[0] if boxes else None, budget=look.QUICK, sections=False
    )
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
        seen = look.image_statistics(held_image, box=box, budget=look.QUICK, sections=False)
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
                f" about new data: set validation.box, or the box of volume '{volume.name}', to parts that do not"
                " overlap"
            )
    return found


def _of_partitions(one: Looked, patch_size: Sequence[int]) -> list[Problem]:
    """Return whether partitions have another radius than the patches, or were made of other labels."""
    partitions, labels = as_volume(one.volume.partitions), one.labels
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
    for cube in (cube for box in boxes for cube in cubes_within(box, look.QUICK)):
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
        found += problems.finding(
            f"{one.reading.where}: {partitions.name} was not made from {labels.name}: they contradict each"
            f" other at {100 * differ / compared:.0f} % of the sampled voxels; make partitions of these labels with"
            " `floodtide partition`",
            error=True,
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
    return problems.finding(
        f"training has examples at {len(shards):,} of {voxels:,} voxels ({100 * len(shards) / voxels:.1f} %):"
        f" patches of {patch} voxels have room at {room:,} places, {advice}"
    )


def with_partitions(config: Config) -> Config:
    """Return the configuration with partitions for every labelled volume. Collective.

    Nothing is made for volumes that name theirs, and for those without labels.
    A file in the run directory is used again if labels, radius and smallest object are the same. The ranks compute the
    blocks, rank 0 writes the file; the voxels do not depend on their number.

    Raises:
        floodtide.errors.Error: On every rank alike, for labels that cannot be read.
    """
    volumes = tuple(
        volume if volume.partitions or not volume.labels else _with_own(volume, config)
        for volume in config.data.volumes
    )
    return dataclasses.replace(config, data=dataclasses.replace(config.data, volumes=volumes))


def lom_radius(config: Config) -> Vec3:
    """Return the radius (z, y, x) in voxels of the box of a partition.

    It is data.lom_radius, or half the field of view plus the step.
    """
    if config.data.lom_radius is not None:
        return config.data.lom_radius
    return as_vec3([size // 2 for size in learner_of(config.model).patch_size(config)])


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
    place = as_volume(volume.labels).place
    if place is None:
        raise InvalidArgumentError(
            f"volume '{volume.name}': labels are no file, expected partitions too (ft.data.partition makes them)"
        )
    status = os.stat(place[0])
    facts = [place, [status.st_size, status.st_mtime_ns], radius, least, THRESHOLDS]
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _of_channels(one: Looked, number: int) -> list[Problem]:
    """Return what is wrong with mean and std of the further channels of the volume of a number."""
    found = []
    for at, channel in enumerate(one.volume.channels):
        keys = f"mean and std of data.volumes.{number}.channels.{at}"
        reading = Reading(one.reading.where, channel.mean, channel.std, keys)
        found += image_problems(as_volume(channel.image), None, reading)
    return found
