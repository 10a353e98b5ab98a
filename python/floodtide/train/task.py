# SPDX-License-Identifier: Apache-2.0
"""What a trainer asks of the task behind it: a network, walkers over training data, and validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from floodtide import _core
from floodtide.comm import world
from floodtide.config import TrainingConfig

Record = dict[str, Any]
"""A record of a log, or a table of a configuration."""


class Task(ABC):
    """A kind of training: `FloodTask` for flood-filling networks, `UNetTask` for U-Nets. Not collective.

    Args:
        model: The network to train.
        data: Its training examples.
        validation: The held-out data, or None.
        training: Options of the training loop.

    Attributes:
        unit: What a walker computes in a pass, such as "fovs"; a name in the log.
        validates: True if there is data to validate on.
    """

    unit: str

    def __init__(self, model: Any, data: Any, validation: Any, training: TrainingConfig) -> None:
        self.validates = validation is not None
        self._model = model
        self._data = data
        self._validation = validation
        self._training = training

    @property
    def examples(self) -> int:
        """Examples of an epoch, over all walkers."""
        return len(self._data)

    @property
    def facts(self) -> Record:
        """Further facts about the data for the log's first record; the same on all ranks."""
        return {}

    @property
    def kernels(self) -> str:
        """Names of the kernels that the network's convolutions use."""
        return str(self._model.core.kernel_names())

    @abstractmethod
    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        """Return the walkers of this rank of a communicator, at the start of the first epoch."""

    @abstractmethod
    def validate(self, model: Any) -> Record:
        """Return the validation scores of a network, the same on all ranks. Collective."""

    @abstractmethod
    def beats_trivial(self, scores: Record) -> bool:
        """Return True if validation scores are better than those of trivial predictions."""

    def _walkers_options(self, comm: world.Communicator) -> _core.WalkersOptions:
        """Return the options of this rank's walkers of a communicator for the core."""
        data, training = self._data, self._training
        options = _core.WalkersOptions()
        options.walkers = data.walkers
        options.rank, options.ranks = comm.rank, comm.size
        options.seed = data.seed
        options.prefetch, options.readers = data.prefetch, data.readers
        options.cycle, options.epochs = training.on_exhausted == "cycle", training.epochs
        return options
