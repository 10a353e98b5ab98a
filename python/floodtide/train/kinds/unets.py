# SPDX-License-Identifier: Apache-2.0
"""What both kinds of U-Nets have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from floodtide import _core, nn
from floodtide.config import Config
from floodtide.data import Affinities, Slices
from floodtide.data.boxes import Vec3
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.nn.losses import loss_rows
from floodtide.train.kinds.kind import Kind, Parts
from floodtide.train.kinds.unet_task import UNetTask


class UNetKind(Kind):
    """A kind of U-Net."""

    def new_model(self, config: Config) -> Any:
        section, run = self._section(config), config.run
        made: Any = self.model
        return made(section, classes=section.classes, seed=run.seed, compute=run.compute)

    def initial_model(self, config: Config) -> nn.UNet:
        path = config.model.initial_weights
        start, expected = nn.load(path), self.new_model(config)
        if not isinstance(start, nn.UNet) or repr(start) != repr(expected):
            raise ConfigurationError(
                f"model.initial_weights: {path} holds {start!r}, expected {expected!r}"
            )
        return start

    def task_of(self, parts: Parts, config: Config) -> UNetTask:
        assert isinstance(parts.model, nn.UNet)
        assert isinstance(parts.data, Slices | Affinities)
        assert parts.validation is None or isinstance(parts.validation, Slices | Affinities)
        return UNetTask(parts.model, parts.data, parts.validation, parts.loss, config.training)

    def options_of(self, config: Config) -> _core.UNetOptions:
        section = self._section(config)
        options: _core.UNetOptions = section.core(classes=section.classes)
        return options

    def pass_bytes(self, config: Config, walkers: int, threads: int) -> int:
        # A rank computes the images of all its walkers at a time, or of one walker if sums are exact.
        at_once = 1 if config.comm.exactness == "workers" else walkers
        images = at_once * config.training.batch
        return self.options_of(config).training_bytes(images, self.sample_size(config))

    def example_bytes(self, config: Config) -> int:
        voxels = math.prod(self.sample_size(config))
        return config.training.batch * self.arrays_of_sample(config) * 4 * voxels

    @abstractmethod
    def sample_size(self, config: Config) -> Vec3:
        """Return the size (z, y, x) of a sample in voxels."""

    @abstractmethod
    def arrays_of_sample(self, config: Config) -> int:
        """Return the number of arrays of a sample, which have the size of the sample each."""

    def _section(self, config: Config) -> Any:
        assert isinstance(config.model, self.section)
        return config.model


def section_keys(model: nn.UNet) -> dict[str, Any]:
    """Return the keys that the sections [model] of both kinds share."""
    options = model.core.options
    return {
        "depth": options.depth,
        "features": options.features,
        "batch_norm": options.batch_norm,
        "synchronised": options.synchronised,
        "dropout": options.dropout,
        "initial_weights": model.origin,
    }


def training_keys(parts: Parts) -> dict[str, Any]:
    """Return the keys of the section [training] that data and loss decide."""
    data: Any = parts.data
    loss = parts.loss
    if loss.name is None:
        raise InvalidArgumentError(
            f"Trainer: no named loss weighs Dice by {loss.dice} and cross-entropy by {loss.cross_entropy}, with a focus"
            f" of {loss.focus}; expected one of {', '.join(row['name'] for row in loss_rows())}"
        )
    return {
        "walkers": data.walkers,
        "batch": data.batch,
        "loss": loss.name,
        "dice": "batch" if loss.over_batch else "image",
        "background": loss.background,
        "smooth": loss.smooth,
    }
