# SPDX-License-Identifier: Apache-2.0
"""Estimate the memory that a training needs from its configuration, and compare it with the memory of the host."""

from __future__ import annotations

from floodtide import _core
from floodtide.comm import world
from floodtide.config import Config
from floodtide.errors import ConfigurationError
from floodtide.train.kinds import kind_of

# share of an estimate that is needed for certain: the estimate may be a fifth too high
_CERTAIN = 0.8


def require_enough_memory(config: Config, ranks: int) -> None:
    """Refuse a training that cannot fit into memory, before it allocates anything.

    Args:
        config: The whole configuration.
        ranks: Number of ranks on all hosts. The ranks of a host share its memory equally.

    Raises:
        ConfigurationError: If the memory does not suffice. The message states needed and available bytes.
    """
    needed = _CERTAIN * training_bytes(config, ranks, _core.num_threads())
    neighbours = world.places()[1]
    available = _core.available_bytes()
    if available is not None and needed > available / neighbours:
        here = f"{_core.describe_bytes(available / neighbours)} are available"
        raise ConfigurationError(
            f"train: a rank needs at least {_core.describe_bytes(needed)} of memory, {here}"
            + (f" to each of {neighbours} ranks of this host" if neighbours > 1 else "")
            + "; expected a smaller network, less read ahead (data.prefetch), or fewer walkers or ranks a host"
        )


def needed_bytes(config: Config, ranks: int, threads: int) -> int:
    """Return the memory in bytes of one rank of a training: this process as it is now, and `training_bytes`."""
    return _core.resident_bytes() + training_bytes(config, ranks, threads)


def training_bytes(config: Config, ranks: int, threads: int) -> int:
    """Return the bytes that a training adds to one rank: network, gradients, optimizer, examples read ahead."""
    kind = kind_of(config)
    walkers = -(-config.training.walkers_of(ranks) // ranks)  # of the rank that has most
    parameters = parameter_count(config)
    read_ahead = walkers * (config.data.prefetch + 1) * kind.example_bytes(config)
    apart = 0  # each walker's gradients, where they are summed in any order
    if config.comm.exactness == "workers":
        apart = 4 * walkers * config.training.accumulate * parameters
    return kind.pass_bytes(config, walkers, threads) + read_ahead + 6 * 4 * parameters + apart


def checkpoint_bytes(config: Config, ranks: int) -> int:
    """Return the size of a checkpoint in bytes: parameters, two arrays of the optimizer, the average, the canvases."""
    walkers = config.training.walkers_of(ranks)
    return 4 * (4 * parameter_count(config) + walkers * kind_of(config).canvas_voxels(config))


def parameter_count(config: Config) -> int:
    """Return the number of parameters, with the statistics of batch normalisation."""
    return kind_of(config).options_of(config).parameter_count()
