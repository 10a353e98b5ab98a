# SPDX-License-Identifier: Apache-2.0
"""Build the objects that a trainer is made of from a configuration."""

from __future__ import annotations

import dataclasses

from floodtide import nn
from floodtide.config import Config
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.kinds import Model, Parts, kind_of


def parts_of(config: Config, ranks: int) -> Parts:
    """Build the objects that a configuration describes. Not collective.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the configuration names what does not exist or does not fit.
        InvalidFileError: If a file cannot be read.
    """
    kind, training, schedule = kind_of(config), config.training, config.schedule
    return Parts(
        model=model_of(config),
        data=kind.data_of(config, training.walkers or ranks),
        validation=kind.held_out_of(config),
        loss=dataclasses.replace(
            nn.SegmentationLoss.named(training.loss),
            over_batch=training.dice == "batch",
            background=training.background,
            smooth=training.smooth,
        ),
        optimizer=Optimizer(config.optimizer.name, config.optimizer.lr, **config.optimizer.values),
        schedule=Schedule(
            schedule.name, scale=schedule.scale, **schedule.values, **schedule.scale_values
        ),
    )


def model_of(config: Config) -> Model:
    """Return the network of a configuration, with its initial weights."""
    kind = kind_of(config)
    model = kind.new_model(config)
    if config.model.initial_weights:
        model.load_state_dict(kind.initial_model(config).state_dict())
        model.origin = config.model.initial_weights
    return model
