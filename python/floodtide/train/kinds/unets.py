# SPDX-License-Identifier: Apache-2.0
"""U-Nets, trained on slices with class masks, or on the affinities of patches of labelled volumes."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.base.data_options import SLICES
from floodtide.comm import world
from floodtide.config import Config
from floodtide.config.networks import UNet2DConfig, UNet3DConfig
from floodtide.data import Affinities, Slices, Split
from floodtide.data.affinities import affinity_names
from floodtide.data.boxes import Vec3
from floodtide.data.volumes import as_volume
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.train.kinds.task import Record, Task, held_out_volume


class UNetTask(Task):
    """Walkers and validation of a U-Net on this rank. Not collective.

    Raises:
        InvalidFileError: If a mask of this rank's share has a class that the network does not have.
        InvalidArgumentError: If network and samples do not fit each other, or a patient is trained on and held out.
    """

    def __init__(self, config: Config, model: nn.UNet, data: Slices | Affinities) -> None:
        super().__init__(config, model, data)
        _require_fitting(model, data)
        size = data.shape if isinstance(data, Slices) else data.options.patch
        model.forward(np.zeros((1, *size), np.float32))  # chooses the kernels for this size
        training = config.training
        self._loss = dataclasses.replace(
            nn.SegmentationLoss.named(training.loss),
            over_batch=training.dice == "batch",
            background=training.background,
            smooth=training.smooth,
        )

    @staticmethod
    def sections_of(model: Any, data: Any) -> dict[str, Any]:
        return {"data": data.options, "training": {"walkers": data.walkers, "batch": data.batch}}

    @classmethod
    def new_model(cls, config: Config) -> Any:
        section, run = _section(config), config.run
        made: Any = cls.model_class
        return made(section, classes=section.classes, seed=run.seed, compute=run.compute)

    @classmethod
    def initial_model(cls, config: Config) -> nn.UNet:
        path = config.model.initial_weights
        start, expected = nn.load(path), cls.new_model(config)
        if not isinstance(start, nn.UNet) or repr(start) != repr(expected):
            raise ConfigurationError(
                f"model.initial_weights: {path} holds {start!r}, expected {expected!r}"
            )
        return start

    @staticmethod
    def options_of(config: Config) -> _core.UNetOptions:
        options: _core.UNetOptions = _section(config).core(classes=_section(config).classes)
        return options

    @classmethod
    def pass_bytes(cls, config: Config, walkers: int, threads: int) -> int:
        # A rank computes the images of all its walkers at a time, or of one walker if sums are exact.
        at_once = 1 if config.comm.exactness == "workers" else walkers
        images = at_once * config.training.batch
        return cls.options_of(config).training_bytes(images, cls.sample_size(config))

    @classmethod
    def example_bytes(cls, config: Config) -> int:
        voxels = math.prod(cls.sample_size(config))
        return config.training.batch * cls.arrays_of_sample(config) * 4 * voxels

    @staticmethod
    @abstractmethod
    def sample_size(config: Config) -> Vec3:
        """Return the size (z, y, x) of a sample in voxels."""

    @staticmethod
    @abstractmethod
    def arrays_of_sample(config: Config) -> int:
        """Return the number of arrays of a sample, which have the size of the sample each."""

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        return _core.sample_walkers(
            self._model.core, self._data.core, self._walkers_options(comm), self._loss.core()
        )

    def validate(self, model: Any) -> Record:
        """Return the scores on the held-out samples, next to the scores of trivial predictors. Collective.

        For slices: the Dice of each class, pooled over all pixels and of each patient. For patches: the average
        precision of each affinity. They are the same on every rank and for every number of ranks.
        """
        scores = _core.score_segmentation(model.core, self.held_out.core, world.current(), None)
        kept = {key: scores[key] for key in ("cross_entropy", "samples")}
        return {**kept, **self._scores_of(scores)}

    @abstractmethod
    def _scores_of(self, scores: Mapping[str, Any]) -> Record:
        """Return the scores of this kind of samples, for the log."""


class SlicesTask(UNetTask):
    """A 2-D U-Net with slices that have class masks."""

    section = UNet2DConfig
    model_class = nn.UNet2D
    data_class = Slices
    unit = "slices"

    def __init__(self, config: Config, model: nn.UNet, data: Slices) -> None:
        if data.split != _split(config, "training"):
            raise InvalidArgumentError(
                f"Trainer: data have {data.split}, expected {_split(config, 'training')}, as the validation says"
            )
        super().__init__(config, model, data)
        _check_masks(data)
        if self.held_out is None:
            return
        _check_masks(self.held_out)
        _core.data.require_different_patients(data.core, self.held_out.core)

    @staticmethod
    def data_of(config: Config, walkers: int) -> Slices:
        return Slices(
            config.data.slices,
            config.data,
            config.augmentation,
            classes=_section(config).classes,
            split=_split(config, "training"),
            walkers=walkers,
            batch=config.training.batch,
            seed=config.run.seed,
        )

    @staticmethod
    def held_out_of(config: Config) -> Slices | None:
        section = config.validation
        if section.slices and section.share > 0:
            raise ConfigurationError(
                "validation.slices and validation.share are both given, expected one of them"
            )
        if not section.slices and not section.share > 0:
            return None
        return Slices(
            section.slices or config.data.slices,
            config.data,
            classes=_section(config).classes,
            split=_split(config, "validation"),
        )

    @staticmethod
    def sections_of(model: Any, data: Slices) -> dict[str, Any]:
        section = UNet2DConfig(classes=model.core.options.classes, **_section_keys(model))
        return {
            "model": section,
            "augmentation": data.augmentation,
            **UNetTask.sections_of(model, data),
        }

    @staticmethod
    def sample_size(config: Config) -> Vec3:
        if config.data.size != (0, 0):
            return 1, *config.data.size
        stacks = config.data.of_kind(SLICES, config.data.slices).slices
        _, y, x = as_volume(stacks[0].images).shape
        return 1, y, x

    @staticmethod
    def arrays_of_sample(config: Config) -> int:
        return 2  # image and mask

    def _scores_of(self, scores: Mapping[str, Any]) -> Record:
        groups, dice = self.held_out.core.groups, scores["dice"]
        rows = [
            {
                "class": number,
                "dice_pooled": dice.pooled(number),
                "dice_mean": dice.mean_over_groups(number),
                "dice_patients": [dice.group(patient, number) for patient in range(len(groups))],
                "dice_everything": scores["dice_everything"][number],
            }
            for number in range(1, self.held_out.core.outputs)
        ]
        return {"classes": rows, "patients": groups}

    def beats_trivial(self, scores: Record) -> bool:
        """Return True if some class has a higher Dice than if every pixel had the class."""
        rows = scores["classes"]
        return any((row["dice_pooled"] or 0.0) > row["dice_everything"] for row in rows)


class PatchesTask(UNetTask):
    """A 3-D U-Net with patches that have affinities."""

    section = UNet3DConfig
    model_class = nn.UNet3D
    data_class = Affinities
    unit = "patches"

    @staticmethod
    def data_of(config: Config, walkers: int) -> Affinities:
        return Affinities(
            config.data.volumes,
            config.data,
            offsets=_section(config).offsets,
            walkers=walkers,
            batch=config.training.batch,
            seed=config.run.seed,
        )

    @staticmethod
    def held_out_of(config: Config) -> Affinities | None:
        if not config.validation.box:
            return None
        return Affinities(held_out_volume(config), config.data, offsets=_section(config).offsets)

    @staticmethod
    def sections_of(model: Any, data: Affinities) -> dict[str, Any]:
        options = model.core.options
        section = UNet3DConfig(
            offsets=data.offsets,
            kernels=options.kernels,
            pools=options.pools,
            **_section_keys(model),
        )
        return {"model": section, **UNetTask.sections_of(model, data)}

    @staticmethod
    def sample_size(config: Config) -> Vec3:
        return config.data.patch

    @staticmethod
    def arrays_of_sample(config: Config) -> int:
        return 1 + 2 * len(_section(config).offsets)  # image; affinities and weights of offsets

    def _scores_of(self, scores: Mapping[str, Any]) -> Record:
        rows = zip(affinity_names(self.held_out.offsets), scores["affinities"], strict=True)
        return {"affinities": {name: dict(row) for name, row in rows}}

    def beats_trivial(self, scores: Record) -> bool:
        """Return True if the average precision for some offset is above the share of ones."""
        rows = scores["affinities"].values()
        return any(row["average_precision"] > row["share_of_ones"] for row in rows)


def _section(config: Config) -> Any:
    assert isinstance(config.model, UNet2DConfig | UNet3DConfig)
    return config.model


def _split(config: Config, part: str) -> Split:
    """Return the split of the patients for a part of the training data."""
    section = config.validation
    return Split(part, section.share, section.seed) if section.share > 0 else Split()


def _section_keys(model: nn.UNet) -> dict[str, Any]:
    """Return the keys that the sections [model] of both kinds share."""
    options = model.core.options
    names = ("depth", "features", "batch_norm", "synchronised", "dropout")
    return {**{name: getattr(options, name) for name in names}, "initial_weights": model.origin}


def _require_fitting(model: nn.UNet, data: Slices | Affinities) -> None:
    """Check that a network has the outputs that the samples have targets for."""
    options = model.core.options
    slices = isinstance(data, Slices)
    if isinstance(data, Slices):
        output, classes = "softmax", data.classes
    else:
        output, classes = "sigmoid", len(data.offsets)
    if (options.output, options.classes, options.in_channels) != (output, classes, 1):
        raise InvalidArgumentError(
            f"Trainer: the network has {options.classes} outputs ({options.output}) for {options.in_channels} channels,"
            f" expected {classes} ({output}) for 1, as the {'slices' if slices else 'affinities'} have"
        )


def _check_masks(slices: Slices) -> None:
    """Check this rank's share of the masks now, instead of stopping when training comes to a wrong one."""
    rank, ranks, total = world.rank(), world.size(), slices.fixed_size
    slices.core.check_masks(total * rank // ranks, total * (rank + 1) // ranks, None)
