# SPDX-License-Identifier: Apache-2.0
"""What a trainer asks of the task behind it: a network, walkers over training data, and validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from floodtide import _core, nn
from floodtide.comm import world

Record = Mapping[str, Any]


class Task(Protocol):
    """A kind of training: `FloodTask` for flood-filling networks, `UNetTask` for U-Nets.

    Attributes:
        unit: What a walker computes in a pass, such as "fovs"; a name in the log.
        validates: True if there is data to validate on.
    """

    unit: str
    validates: bool

    @property
    def examples(self) -> int:
        """Examples of an epoch, over all walkers."""

    @property
    def facts(self) -> Record:
        """Further facts about the data for the log's first record; the same on all ranks."""

    @property
    def kernels(self) -> str:
        """Names of the kernels that the network's convolutions use."""

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        """Return the walkers of this rank of a communicator, at the start of the first epoch."""

    def validate(self, model: nn.Network) -> Record:
        """Return the validation scores of a network, the same on all ranks. Collective."""

    def beats_trivial(self, scores: Record) -> bool:
        """Return True if validation scores are better than those of trivial predictions."""


def walkers_options(
    comm: world.Communicator, data: Any, on_exhausted: str, epochs: int
) -> _core.WalkersOptions:
    """Return the options of this rank's walkers for the core.

    Args:
        comm: The ranks that share the walkers.
        data: `Shards`, `Slices` or `Affinities`.
        on_exhausted: `training.on_exhausted` of the configuration.
        epochs: `training.epochs` of the configuration.
    """
    options = _core.WalkersOptions()
    options.walkers = data.walkers
    options.rank, options.ranks = comm.rank, comm.size
    options.seed = data.seed
    options.prefetch, options.readers = data.prefetch, data.readers
    options.cycle, options.epochs = on_exhausted == "cycle", epochs
    return options
