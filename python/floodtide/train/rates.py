# SPDX-License-Identifier: Apache-2.0
"""The optimizer and the learning rates that a configuration describes."""

from __future__ import annotations

from floodtide import _core
from floodtide.config import Config
from floodtide.errors import ConfigurationError
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule, ends


def rates_of(config: Config, ranks: int) -> tuple[Optimizer, Schedule]:
    """Return the optimizer of a configuration, and the schedule with its rate and the number of steps.

    This checks all that can be checked of a training without its data.

    Args:
        config: The whole configuration.
        ranks: Number of ranks: the number of walkers if the configuration does not give it.

    Raises:
        ConfigurationError: If the training may be given up, but does not validate before its end, or cannot fit a time.
        InvalidArgumentError: If the warm-up is longer than the training, or optimizer and scaling rule do not fit.
    """
    held_out = config.validation
    if held_out.give_up_after and not (held_out.every and held_out.holds_out):
        raise ConfigurationError(
            f"validation.give_up_after is {held_out.give_up_after}, expected held-out data and validation.every above 0"
        )
    training = config.training
    if (training.fit_time or training.corrections) and config.comm.mode != "synchronous":
        raise ConfigurationError(
            "training.fit_time and training.corrections need comm.mode 'synchronous', expected no other"
        )
    optimizer = Optimizer(config.optimizer.name, config.optimizer.lr, **config.optimizer.values)
    section, walkers = config.schedule, training.walkers_of(ranks)
    _core.scaled_optimizer(section.scale, optimizer.name, optimizer.values, walkers)
    schedule = Schedule(section.name, scale=section.scale, **section.values, **section.scale_values)
    if training.fit_time and not ends(section.name):
        raise ConfigurationError(
            f"training.fit_time needs a rate that falls to an end, but schedule.name is '{section.name}', expected"
            " another schedule, such as cosine, or fit_time = false"
        )
    return optimizer, schedule.for_training(optimizer.lr, training.steps)
