# SPDX-License-Identifier: Apache-2.0
"""What a training takes of the host of a rank: cores, threads and memory."""

from __future__ import annotations

import os

from floodtide import _core
from floodtide.base import limits
from floodtide.comm import world
from floodtide.config import Config
from floodtide.errors import ConfigurationError
from floodtide.train.kinds import kind_of

# share of an estimate that is needed for certain: the estimate may be a fifth too high
_CERTAIN = 0.8


def claim(config: Config, ranks: int) -> None:
    """Bind this rank to its cores, set its threads, and refuse a training that cannot fit into memory. Collective.

    Args:
        config: The whole configuration.
        ranks: Number of ranks on all hosts.

    Raises:
        ConfigurationError: On every rank alike, if a number is out of range or the memory does not suffice.
    """
    if config.run.bind == "ranks":
        bind_ranks()
    with world.agreed():
        set_threads(config.run.threads)
        require_enough_memory(config, ranks)


def bind_ranks() -> None:
    """Give each rank of a host an equal part of the cores that all of them share. Collective.

    Threads that start later run on these cores. Nothing changes if the launcher has bound the ranks already, or if
    there are more ranks than cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    local_rank, count, *_ = world.places()
    own = f"{world.current().node_name} {cores}".encode()
    shared = world.allgather_bytes(own, "cores of the ranks").count(own) == count
    share = len(cores) // count
    if shared and share:
        os.sched_setaffinity(0, cores[local_rank * share : (local_rank + 1) * share])


def set_threads(threads: int) -> None:
    """Set the number of compute threads of this rank to `thread_count(threads)`."""
    _core.set_num_threads(thread_count(threads))


def thread_count(threads: int) -> int:
    """Return the number of compute threads for a value of `run.threads`.

    0 means OMP_NUM_THREADS if it is set, else the cores that the process may use, divided by the ranks of the host.

    Raises:
        ConfigurationError: If `threads` is out of range.
        InvalidArgumentError: If OMP_NUM_THREADS is out of range.
    """
    limits.THREADS.check(threads, "run.threads", ConfigurationError)
    if not threads:
        wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        threads = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else 0
        if threads:
            limits.THREADS.check(threads, "OMP_NUM_THREADS")
    return threads or max(1, _core.available_cores() // world.places()[1])


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
