# SPDX-License-Identifier: Apache-2.0
"""Networks that learn a task from patches of images with labels."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, cast

import numpy as np

from floodtide import _core, nn
from floodtide.base.data_options import WHOLE, volume_name
from floodtide.base.tasks import PatchTask
from floodtide.comm import world
from floodtide.config import Config
from floodtide.data import DataOptions, Patches, Split
from floodtide.data.boxes import box_text, intersection, parse_boxes
from floodtide.data.patches import boxes_of, patch_size
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.train.learners.learner import Learner, Record, held_out_volume


class PatchLearner(Learner):
    """Walkers and validation of a network of patches on this rank. Not collective."""

    data_class = Patches

    def __init__(self, config: Config, model: nn.PatchNetwork, data: Patches) -> None:
        if data.split != _split(config, "training"):
            raise InvalidArgumentError(
                f"Trainer: data have {data.split}, expected {_split(config, 'training')}, as the validation says"
            )
        super().__init__(config, model, data)
        _require_fitting(model, data)
        # chooses the kernels for this size
        model.forward(np.zeros((1, *data.patch_size, data.channels), np.float32))
        if self.held_out is not None:
            _require_other_voxels(config)
            _require_other_groups(data, self.held_out)
        training = config.training
        self._loss = dataclasses.replace(
            nn.SegmentationLoss.named(training.loss),
            over_batch=training.dice == "batch",
            background=training.background,
        )

    @classmethod
    def data_of(cls, config: Config, walkers: int) -> Patches:
        more = {"walkers": walkers, "batch": config.training.batch, "seed": config.run.seed}
        return _patches(config, config.data.volumes, "training", **more)

    @staticmethod
    def held_out_of(config: Config) -> Patches | None:
        section = config.validation
        keys = (
            ("volume", "volumes")
            if section.volume and section.volumes
            else ("box", "share", "volumes")
        )
        given = [key for key in keys if getattr(section, key)]
        if len(given) > 1:
            raise ConfigurationError(
                f"validation.{given[0]} and validation.{given[1]} are both given, expected one of them"
            )
        if not given:
            return None
        volumes = held_out_volume(config) or section.volumes or config.data.volumes
        return _patches(config, volumes, "validation")

    @classmethod
    def sections_of(cls, model: Any, data: Patches) -> dict[str, Any]:
        return super().sections_of(model, data) | {
            "task": data.task,
            "training": {"walkers": data.walkers, "batch": data.batch},
        }

    @staticmethod
    def options_of(config: Config, **others: Any) -> Any:
        return config.model.core(
            classes=_task(config).output_count,
            in_channels=_channels(config),
            output=_task(config).output,
            **others,
        )

    @classmethod
    def bytes_of(cls, config: Config, walkers: int, threads: int) -> tuple[int, int, int]:
        # A rank computes the images of all its walkers at a time, or of one walker if sums are exact.
        at_once = 1 if config.comm.exactness == "workers" else walkers
        data, batch = _data(config), config.training.batch
        size = patch_size(data.of(data.volumes))
        arrays = _channels(config) + _task(config).truth_values
        activations = cls.options_of(config).training_bytes(at_once * batch, size)
        return activations, batch * arrays * 4 * math.prod(size), 0

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        options = self._walkers_options(comm)
        return _core.sample_walkers(self.model.core, self.data.core, options, self._loss.core())

    def validate(self, model: Any) -> Record:
        """Return the scores on the held-out patches, next to the scores of trivial predictors. Collective.

        They are the same on every rank and for every number of ranks.
        """
        scores = _core.score_segmentation(model.core, self.held_out.core, world.current(), None)
        kept = {key: scores[key] for key in ("cross_entropy", "samples")}
        return {**kept, **self.held_out.task.scores(scores, self.held_out.groups)}


def _patches(config: Config, volumes: Any, part: str, **more: int) -> Patches:
    task, split = _task(config), _split(config, part)
    return Patches(volumes, _data(config), config.augmentation, task=task, split=split, **more)


def _task(config: Config) -> PatchTask:
    return cast(PatchTask, config.task)


def _split(config: Config, part: str) -> Split:
    section = config.validation
    return Split(part, section.share, section.seed) if section.share > 0 else Split()


def _channels(config: Config) -> int:
    volumes = config.data.volumes
    return len(volumes[0].inputs) if volumes else 1


def _data(config: Config) -> DataOptions:
    """Return the section [data]; whole sections have a size, a multiple of the network's pooling."""
    data = config.data
    if data.patch != WHOLE or data.size != (0, 0):
        return data
    _, *largest = patch_size(data.of((*data.volumes, *config.validation.volumes)))
    pools = config.model.total_pool[1:]
    y, x = (-(-n // pool) * pool for n, pool in zip(largest, pools, strict=True))
    return dataclasses.replace(data, size=(y, x))


def _require_fitting(model: nn.PatchNetwork, data: Patches) -> None:
    """Check that a network has the inputs and outputs that the patches have."""
    options, task = model.core.options, data.task
    found = f"{options.classes} outputs ({options.output}) for {options.in_channels} channels"
    expected = f"{len(task.channels)} outputs ({task.output}) for {data.channels} channels"
    if found != expected:
        raise InvalidArgumentError(
            f"Trainer: the network has {found}, expected {expected}, as the patches of task '{task.kind}' have"
        )
    if task.output == "softmax" and data.classes_present < 2:
        raise InvalidArgumentError(
            f"Trainer: all labels of the training boxes have one class, expected several of {', '.join(task.channels)}"
        )


def _require_other_voxels(config: Config) -> None:
    """Refuse volumes to validate on, and boxes to test on, that are trained on."""
    if held_out := held_out_volume(config):
        same = [
            v for v in config.data.volumes if volume_name(v.image) == volume_name(held_out.image)
        ]
        seen = [*parse_boxes(held_out.box), *(box for volume in same for box in boxes_of(volume))]
        for a, b in itertools.product(parse_boxes(config.validation.test_box), seen):
            if common := intersection(a, b):
                raise ConfigurationError(
                    f"validation.test_box: voxels {box_text(common)} are trained or validated on, expected others"
                )
    for own, other in itertools.product(config.data.volumes, config.validation.volumes):
        image = volume_name(other.image)
        if own.groups or volume_name(own.image) != image:
            continue
        for a, b in itertools.product(boxes_of(own), boxes_of(other)):
            if common := intersection(a, b):
                raise InvalidArgumentError(
                    f"validation.volumes: voxels {box_text(common)} of {image} are trained on, expected others"
                )


def _require_other_groups(training: Patches, held_out: Patches) -> None:
    """Refuse groups (patients) of both sources; a volume without `groups` is one, and may be held out in part."""
    volumes = (*training.options.volumes, *held_out.options.volumes)
    whole = {volume.name for volume in volumes if not volume.groups}
    if both := set(training.groups) & set(held_out.groups) - whole:
        shown = ", ".join(sorted(both)[:8])
        raise InvalidArgumentError(
            f"validation: {len(both)} group(s) of sections are trained on and held out: {shown}; expected other groups"
        )
