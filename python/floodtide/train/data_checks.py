# SPDX-License-Identifier: Apache-2.0
"""Checks of the training data before the first step: mistakes that a training survives without a word.

Rank 0 looks at a sample of every volume, which takes about a second, and changes nothing in the training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from floodtide.config import Config, FfnConfig
from floodtide.config.networks import UNet2DConfig
from floodtide.data import Box, Shards, Slices, TrainingVolume, Volume
from floodtide.data.boxes import box_text
from floodtide.data.copies import settled_size
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
from floodtide.data.look.problems import Problem, Reading
from floodtide.data.look.sampling import cubes_within, whole_of
from floodtide.data.look.trained_on import to_text
from floodtide.data.volumes import VolumeLike, labels_of
from floodtide.train.fitting import MOST, as_volume, require_fitting, same_volume
from floodtide.train.kinds.flood_task import FloodValidation
from floodtide.train.kinds.kind import Parts
from floodtide.train.kinds.volumes import training_volumes

_RADIUS = 1.6  # ratio of the partitions' radius to half a patch
_FEW = 0.05  # share of the voxels of a box that are centres of examples
_INSIDE = 254  # highest class of partitions; 255 marks places that cannot be a centre
_FOREIGN = 0.02  # share of voxels of which partitions and labels say different things


@dataclass(frozen=True)
class Looked:
    """An image of the training data, with its statistics and how the network reads it."""

    image: Volume
    statistics: ImageStatistics
    reading: Reading
    name: str


def require_volumes_fit(config: Config) -> None:
    """Check that images, labels and partitions of a configuration have the same sizes. Not collective."""
    if not isinstance(config.model, UNet2DConfig) and config.data.volumes:
        require_fitting(training_volumes(config, ()))


def check_data(config: Config, parts: Parts) -> tuple[str, tuple[str, ...]]:
    """Look at the training data. Not collective: only rank 0 does this.

    Args:
        config: The whole configuration.
        parts: The objects that it describes.

    Returns:
        The statistics that checkpoints keep, and warnings.

    Raises:
        floodtide.errors.Error: If the data cannot be what somebody wants to train on.
    """
    looked = look_at(parts)
    warnings = problems.raise_errors(training_problems(config, parts, looked))
    return kept_statistics(looked), warnings


def look_at(parts: Parts) -> list[Looked]:
    """Return the statistics of the first MOST images of the training data, from a sample."""
    data = parts.data
    if isinstance(data, Slices):
        return [
            _look(
                stack.images,
                None,
                Reading(f"stack {number}", data.mean, data.std, "data.mean and data.std"),
            )
            for number, stack in enumerate(data.stacks[:MOST])
        ]
    found = []
    for number, volume in enumerate(data.volumes[:MOST]):
        image = as_volume(volume.image)
        size = settled_size(image, volume.voxel_size_nm, "the configuration")
        keys = f"mean and std of volume '{volume.name}' (data.volumes.{number})"
        reading = Reading(f"volume '{volume.name}'", volume.mean, volume.std, keys, size)
        found.append(_look(image, volume.extent, reading, volume.name))
    return found


def kept_statistics(looked: Sequence[Looked]) -> str:
    """Return what a checkpoint keeps of the statistics."""
    return to_text(
        [
            trained_on(
                one.statistics,
                name=one.name,
                mean=one.reading.mean,
                std=one.reading.std,
                voxel_size_nm=one.reading.voxel_size_nm or one.statistics.voxel_size_nm,
            )
            for one in looked
        ]
    )


def training_problems(config: Config, parts: Parts, looked: Sequence[Looked]) -> list[Problem]:
    """Return what is probably wrong with the data of a training."""
    found = []
    start = config.model.initial_weights
    trained = training_images(start) if start else ()
    for one in looked:
        found += problems.of_grey_levels(one.statistics, one.reading, trained, adapts=True)
        if not isinstance(parts.data, Slices):
            size = one.reading.voxel_size_nm or one.statistics.voxel_size_nm
            found += problems.of_axes(one.statistics, one.reading.where, size)
    if isinstance(parts.data, Slices):
        return found
    for volume, one in zip(parts.data.volumes, looked, strict=False):
        found += _of_labels(volume, one)
    found += _of_boxes(parts, parts.data.volumes)
    if isinstance(parts.data, Shards):
        assert isinstance(config.model, FfnConfig)
        for volume in parts.data.volumes[:MOST]:
            found += _of_partitions(volume, config.model.patch_size)
        found += _of_centres(parts.data, config.model.patch_size)
    return found


def _look(source: VolumeLike, box: Box | None, reading: Reading, name: str = "") -> Looked:
    image = as_volume(source)
    statistics = image_statistics(image, box=box, budget=QUICK, sections=False)
    return Looked(image, statistics, reading, name or reading.where)


def _of_labels(volume: TrainingVolume, one: Looked) -> list[Problem]:
    labels = labels_of(volume.labels)
    where = one.reading.where
    statistics = label_statistics(labels, box=volume.extent, budget=QUICK, sections=False)
    found = problems.of_labels(statistics, where)
    if found:
        return found
    return problems.of_alignment(alignment(one.image, labels, budget=QUICK), where, labels.name)


def _of_boxes(parts: Parts, volumes: Sequence[TrainingVolume]) -> list[Problem]:
    """Return whether voxels are trained on and held out."""
    held_out = parts.validation
    if held_out is None or isinstance(held_out, Slices):
        return []
    held = held_out.volume if isinstance(held_out, FloodValidation) else held_out.volumes[0]
    found = []
    for volume in volumes:
        if not same_volume(volume.image, held.image):
            continue
        whole = whole_of(as_volume(volume.image).shape)
        trained, validated = volume.extent or whole, held.extent or whole
        shared = _overlap(trained, validated)
        if shared:
            share = 100 * shared / math.prod(validated[1])
            found.append(
                Problem(
                    False,
                    f"validation.box {box_text(validated)} shares {share:.0f} % of its voxels with the training box"
                    f" {box_text(trained)} of volume '{volume.name}', so validation scores say nothing about new"
                    f" data: set validation.box, or the box of volume '{volume.name}', to parts that do not overlap",
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
    if (
        radius is not None
        and len(radius) == 3
        and any(
            not 1 / _RADIUS <= max(r, 1) / max(h, 1) <= _RADIUS
            for r, h in zip(radius, half, strict=True)
        )
    ):
        wanted = ",".join(map(str, half))
        found.append(
            Problem(
                False,
                f"volume '{volume.name}': {partitions.name} was made with --lom-radius {','.join(map(str, radius))},"
                f" but patches of this network reach {wanted} voxels: make partitions with --lom-radius {wanted}",
            )
        )
    if partitions.shape != labels.shape:
        return found  # the engine refuses them
    compared = differ = 0
    for cube in cubes_within(volume.extent or whole_of(labels.shape), QUICK):
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


def _of_centres(shards: Shards, patch_size: Sequence[int]) -> list[Problem]:
    """Return whether hardly any voxel is the centre of an example, and why."""
    if shards.coordinates:
        return []
    boxes = [volume.extent or whole_of(as_volume(volume.image).shape) for volume in shards.volumes]
    voxels = sum(math.prod(size) for _, size in boxes)
    room = sum(
        math.prod(max(0, n - patch + 1) for n, patch in zip(size, patch_size, strict=True))
        for _, size in boxes
    )
    if len(shards) >= _FEW * voxels:
        return []
    patch = " x ".join(map(str, patch_size))
    if room < 2 * _FEW * voxels:
        advice = (
            f"patches of {patch} voxels have room at {room:,} places only: use a smaller model.fov or model.deltas, and"
            " partitions with a smaller --lom-radius"
        )
    else:
        advice = (
            f"patches of {patch} voxels have room at {room:,} places, but partitions allow few of them: make partitions"
            " with a smaller --lom-radius or --min-size"
        )
    return [
        Problem(
            False,
            f"training has examples at {len(shards):,} of {voxels:,} voxels ({100 * len(shards) / voxels:.1f} %):"
            f" {advice}",
        )
    ]


def _overlap(a: Box, b: Box) -> int:
    """Return the number of voxels that two boxes share."""
    return math.prod(
        max(0, min(p + m, q + n) - max(p, q))
        for p, m, q, n in zip(a[0], a[1], b[0], b[1], strict=True)
    )
