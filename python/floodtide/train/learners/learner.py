# SPDX-License-Identifier: Apache-2.0
"""What a training asks of a network that learns a task: its objects, sizes, walkers and validation."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from floodtide import _core, nn
from floodtide.base.networks import section_of
from floodtide.comm import world
from floodtide.config import Config
from floodtide.data import Patches, Shards, TrainingVolume
from floodtide.data.patches import boxes_of
from floodtide.errors import ConfigurationError, Error
from floodtide.nn.load import network_of
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule

Record = dict[str, Any]
"""A record of a log, or a table of a configuration."""

Model = nn.FFN | nn.PatchNetwork
Data = Shards | Patches


class Learner(ABC):
    """A network, its training examples and held-out data on this rank; each class is for a kind of examples.

    Attributes:
        data_class: Class of the training examples.
        model, data: The network and its training examples.
        held_out: The data to validate on, or None.
    """

    data_class: type[Data]

    def __init__(self, config: Config, model: Any, data: Any) -> None:
        self._config = config
        self.model: Any = model
        self.data: Any = data
        self.held_out: Any = self.held_out_of(config)

    @classmethod
    def new_model(cls, config: Config) -> Any:
        """Return a new network with random weights."""
        run = config.run
        options = cls.options_of(config, seed=run.seed, compute=run.compute)
        return network_of(config.model.core_network(options), run.seed)

    @staticmethod
    @abstractmethod
    def data_of(config: Config, walkers: int) -> Data:
        """Return the training data for a number of walkers."""

    @staticmethod
    @abstractmethod
    def held_out_of(config: Config) -> Any:
        """Return the held-out data; None if the configuration holds nothing out."""

    @classmethod
    def sections_of(cls, model: Any, data: Any) -> dict[str, Any]:
        """Return the sections of a configuration that describe a network and its data.

        In place of [run], [training] and [validation] there are the keys of theirs that the objects decide.
        """
        return {
            "model": section_of(model.core, model.origin),
            "data": data.options,
            "augmentation": data.augmentation,
        }

    @staticmethod
    @abstractmethod
    def options_of(config: Config, **others: Any) -> Any:
        """Return the options of the core's network, which also compute sizes; `others` by their names in the core."""

    @classmethod
    @abstractmethod
    def bytes_of(cls, config: Config, walkers: int, threads: int) -> tuple[int, int, int]:
        """Return bytes: of a pass of the walkers of a rank, of the examples of a walker, and of its canvas if any."""

    @abstractmethod
    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        """Return the walkers of this rank of a communicator, at the start of the first epoch."""

    @abstractmethod
    def validate(self, model: Any) -> Record:
        """Return the validation scores of a network, the same on all ranks. Collective."""

    def _walkers_options(self, comm: world.Communicator) -> _core.WalkersOptions:
        """Return the options of this rank's walkers of a communicator for the core."""
        data, training = self.data, self._config.training
        options = _core.WalkersOptions()
        options.walkers = data.walkers
        options.rank, options.ranks = comm.rank, comm.size
        options.seed = data.seed
        options.prefetch, options.readers = data.options.prefetch, data.options.readers
        options.cycle, options.epochs = training.on_exhausted == "cycle", training.epochs
        return options


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a job trains.

    Attributes:
        config: The configuration, with the partitions that the job has made itself.
        optimizer, schedule: Those that it describes.
        learner: The network with its training and validation data.
        statistics: Grey values of the training data for the checkpoints; empty on ranks above 0.
        warnings: What the checks of the data have found; empty on ranks above 0.
    """

    config: Config
    optimizer: Optimizer
    schedule: Schedule
    learner: Learner
    statistics: str
    warnings: tuple[str, ...]


def held_out_volume(config: Config) -> TrainingVolume | None:
    """Return the volume of which the section [validation] holds out a box, with the box; None: it names no box."""
    section, volumes = config.validation, config.data.volumes
    if not section.box:
        return None
    for volume in volumes:
        if section.volume in ("", volume.name):
            for key in ("test_box", "box") if section.test_box else ("box",):
                held_out = dataclasses.replace(volume, box=getattr(section, key))
                try:
                    boxes_of(held_out)
                except Error as error:
                    raise type(error)(f"validation.{key}: {error}") from None
            return held_out
    names = ", ".join(volume.name for volume in volumes)
    raise ConfigurationError(f"validation.volume is '{section.volume}', expected one of: {names}")
