# SPDX-License-Identifier: Apache-2.0
"""What both kinds of U-Nets have in common."""

from __future__ import annotations

from typing import Any

from floodtide import nn
from floodtide.config import Config, UNet2DConfig, UNet3DConfig
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.nn.losses import loss_rows
from floodtide.train.kinds.kind import Parts


def arguments_of(config: Config) -> dict[str, Any]:
    """Return the arguments that UNet2D and UNet3D share."""
    section, run = config.model, config.run
    assert isinstance(section, UNet2DConfig | UNet3DConfig)
    return {
        "depth": section.depth,
        "features": section.features,
        "batch_norm": section.batch_norm,
        "synchronised": section.synchronised,
        "dropout": section.dropout,
        "seed": run.seed,
        "compute": run.compute,
    }


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


def initial_model(config: Config, expected: nn.UNet) -> nn.UNet:
    """Load the network of `model.initial_weights`.

    Raises:
        ConfigurationError: If its shape is not that of `expected`.
        InvalidFileError: If the file cannot be read.
    """
    path = config.model.initial_weights
    start = nn.load(path)
    if not isinstance(start, nn.UNet) or repr(start) != repr(expected):
        raise ConfigurationError(
            f"model.initial_weights: {path} holds {start!r}, expected {expected!r}"
        )
    return start


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


def images_of_a_pass(config: Config, walkers: int) -> int:
    """Return the images that a rank computes at a time: those of all its walkers, or of one if sums are exact."""
    at_once = 1 if config.comm.exactness == "workers" else walkers
    return at_once * config.training.batch
