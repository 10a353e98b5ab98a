# SPDX-License-Identifier: Apache-2.0
"""Gradients of single training examples at fixed weights, from which the gradient noise scale is estimated."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from floodtide import _core, config
from floodtide.comm import world
from floodtide.config import Config
from floodtide.config.stored import stored as stored_configuration
from floodtide.errors import ConfigurationError, UnsupportedError
from floodtide.train.setup import set_up


def gradient_products(configuration: Config, groups: int) -> _core.GradientProducts:
    """Return the core's measurement of the gradients of the walkers of a training at fixed weights.

    Walkers see different patches, so the product of the sums of two walkers has no noise in common. The mean over all
    pairs is an unbiased estimate of the squared norm of the expected gradient.

    Args:
        configuration: A training: network with `model.initial_weights`, data and task.
        groups: Number of walkers.

    Returns:
        `add_pass()` adds the gradients of one pass: a field of view of each walker, or `batch` patches, whose mean is
        one term. `passes` counts passes. `products()` are the inner products (groups, groups) of the sums of the
        walkers' terms, `squares()` (groups,) the sums of the terms' squared norms.

    Raises:
        UnsupportedError: Under mpiexec.
        floodtide.errors.Error: If the training could not start.
    """
    if world.size() > 1:
        raise UnsupportedError(
            f"gradients: {world.size()} ranks, expected one, whose threads share the walkers"
        )
    training = dataclasses.replace(configuration.training, walkers=groups)
    setup = set_up(dataclasses.replace(configuration, training=training), None, world.current())
    return _core.GradientProducts(setup.learner.new_walkers(world.current()))


def configuration_for(file: str, overrides: tuple[str, ...] = ()) -> Config:
    """Return the training of a configuration file, or that of a checkpoint, which starts from its network then.

    Args:
        file: A file CONFIG.toml, or a floodtide checkpoint of a training.
        overrides: Texts SECTION.KEY=VALUE.

    Raises:
        ConfigurationError: If a checkpoint stores no configuration, or an override is wrong.
        InvalidFileError: If the file cannot be read.
    """
    if Path(file).suffix == ".toml":
        return config.load(file, overrides)
    stored = stored_configuration(file)
    if stored is None:
        raise ConfigurationError(
            f"{file} stores no training, expected a checkpoint of floodtide train, or a CONFIG.toml whose"
            " model.initial_weights names it"
        )
    table = config.to_dict(stored)
    table["model"]["initial_weights"] = file
    return config.from_dict(table, file, overrides)
