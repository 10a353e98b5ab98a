# SPDX-License-Identifier: Apache-2.0
"""Build the objects that a trainer is made of from a configuration."""

from __future__ import annotations

import dataclasses

from floodtide import _core, nn
from floodtide.config import Config
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.kinds import kind_of
from floodtide.train.kinds.kind import Model, Parts


def parts_of(config: Config, ranks: int) -> Parts:
    """Build the objects that a configuration describes. Not collective.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the configuration names what does not exist or does not fit.
        InvalidFileError: If a file cannot be read.
    """
    kind, training = kind_of(config), config.training
    require_validations(config)
    optimizer = optimizer_of(config)
    return Parts(
        model=model_of(config),
        data=kind.data_of(config, training.walkers_of(ranks)),
        validation=kind.held_out_of(config),
        loss=dataclasses.replace(
            nn.SegmentationLoss.named(training.loss),
            over_batch=training.dice == "batch",
            background=training.background,
            smooth=training.smooth,
        ),
        optimizer=optimizer,
        schedule=schedule_of(config, optimizer),
    )


def require_trainable(config: Config, ranks: int) -> None:
    """Check what can be checked without the data: rate, schedule, optimizer, and held-out data if they are needed.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the training could not start.
    """
    try:
        require_validations(config)
        optimizer = optimizer_of(config)
        schedule = schedule_of(config, optimizer)
        require_scalable(schedule, optimizer, config.training.walkers_of(ranks))
    except InvalidArgumentError as error:
        raise ConfigurationError(str(error)) from None


def require_validations(config: Config) -> None:
    """Check that the training validates before its end if it may be given up.

    Raises:
        ConfigurationError: If it does not.
    """
    section = config.validation
    held_out = section.box or section.share or section.slices
    if section.give_up_after and not (section.every and held_out):
        raise ConfigurationError(
            f"validation.give_up_after is {section.give_up_after}, expected held-out data and validation.every above 0"
        )


def optimizer_of(config: Config) -> Optimizer:
    """Return the optimizer of a configuration."""
    section = config.optimizer
    return Optimizer(section.name, section.lr, **section.values)


def schedule_of(config: Config, optimizer: Optimizer) -> Schedule:
    """Return the schedule of a configuration, with the rate of the optimizer and the number of steps.

    Raises:
        InvalidArgumentError: If the warm-up is longer than the training.
    """
    section = config.schedule
    schedule = Schedule(section.name, scale=section.scale, **section.values, **section.scale_values)
    return schedule.for_training(optimizer.lr, config.training.steps)


def require_scalable(schedule: Schedule, optimizer: Optimizer, workers: int) -> None:
    """Raise InvalidArgumentError if the scaling rule of the schedule is for other optimizers."""
    _core.scaled_optimizer(schedule.scale, optimizer.name, optimizer.values, workers)


def model_of(config: Config) -> Model:
    """Return the network of a configuration, with its initial weights."""
    kind = kind_of(config)
    model = kind.new_model(config)
    if config.model.initial_weights:
        model.load_state_dict(kind.initial_model(config).state_dict())
        model.origin = config.model.initial_weights
    return model
