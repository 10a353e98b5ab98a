# SPDX-License-Identifier: Apache-2.0
"""Gradients of single training examples at fixed weights, from which the gradient noise scale is estimated."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, config
from floodtide.base.pickling import NotPickled
from floodtide.comm import world
from floodtide.config import Config
from floodtide.config.stored import stored as stored_configuration
from floodtide.errors import ConfigurationError, UnsupportedError
from floodtide.train.setup import set_up


class GradientProducts(NotPickled):
    """Gradients of the walkers of a training at fixed weights: their sums, and the products of these sums.

    Walkers see different patches, so the product of the sums of two walkers has no noise in common. The mean over all
    pairs is an unbiased estimate of the squared norm of the expected gradient.

    Args:
        configuration: A training: network with `model.initial_weights`, data and task.
        groups: Number of walkers.

    Attributes:
        batch: Examples of a walker in a pass (`training.batch`). The mean of their gradients is one term of its sum.

    Raises:
        UnsupportedError: Under mpiexec.
        floodtide.errors.Error: If the training could not start.
    """

    not_pickled = (
        "its sums belong to this process; expected `products()` and `squares()` to be sent"
    )

    def __init__(self, configuration: Config, groups: int) -> None:
        if world.size() > 1:
            raise UnsupportedError(
                f"gradients: {world.size()} ranks, expected one, whose threads share the walkers"
            )
        training = dataclasses.replace(configuration.training, walkers=groups)
        chosen = dataclasses.replace(configuration, training=training)
        self._setup = set_up(chosen, None, world.current())
        self._core = _core.GradientProducts(self._setup.learner.new_walkers(world.current()))
        self.batch = self._core.batch

    @classmethod
    def of_file(cls, file: str, groups: int, overrides: tuple[str, ...] = ()) -> GradientProducts:
        """Return those of a configuration file, or of a checkpoint, whose training then starts from its network.

        Raises:
            ConfigurationError: If a checkpoint stores no configuration, or an override SECTION.KEY=VALUE is wrong.
            InvalidFileError: If the file cannot be read.
        """
        return cls(configuration_for(file, overrides), groups)

    def add_pass(self) -> None:
        """Add the gradients of one pass: a field of view of each walker, or `batch` patches."""
        self._core.add_pass()

    @property
    def passes(self) -> int:
        """Number of passes so far."""
        return self._core.passes

    def products(self) -> NDArray[np.float64]:
        """Return the inner products (groups, groups) of the sums of the walkers' gradients."""
        return self._core.products()

    def squares(self) -> NDArray[np.float64]:
        """Return the sums (groups,) of the squared norms of each walker's terms."""
        return self._core.squares()


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
