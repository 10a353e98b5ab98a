# SPDX-License-Identifier: Apache-2.0
"""Rank and size, barriers and join, and functions that the modules of collectives share.

Names follow Horovod. Reductions are in `reductions`, allgather and alltoall in `exchanges`, broadcasts in
`broadcasts`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from floodtide.comm import world
from floodtide.comm.world import Communicator, ProcessSet
from floodtide.errors import Error, OutOfRangeError


def rank() -> int:
    """Return the rank of this process, 0 <= rank < size."""
    return _initialized().rank


def size() -> int:
    """Return the number of ranks."""
    return _initialized().size


def local_rank() -> int:
    """Return the index of this rank among the ranks of its host."""
    _initialized()
    return world.places()[0]


def local_size() -> int:
    """Return the number of ranks on this host."""
    _initialized()
    return world.places()[1]


def cross_rank() -> int:
    """Return the index of this host among the hosts that have a rank with this local rank."""
    _initialized()
    return world.places()[2]


def cross_size() -> int:
    """Return the number of hosts that have a rank with this local rank."""
    _initialized()
    return world.places()[3]


def barrier(process_set: ProcessSet | None = None) -> None:
    """Wait until all ranks have called this function. Collective."""
    ranks_of(process_set).barrier()


def join(process_set: ProcessSet | None = None) -> int:
    """Declare that this rank has no more work, and wait until all ranks have joined. Collective.

    Until then, this rank contributes zeros to the allreduces of the other ranks. Average divides by the number of
    ranks that have not joined. Barriers, and broadcasts from other ranks, also work. allgather, alltoall and
    reduce_scatter need every rank, so they raise while a rank has joined.

    Returns:
        The last rank that joined. If several ranks joined last at the same time, the highest of them.

    Raises:
        UnsupportedError: If another rank starts a collective that needs values of this rank.
        CommunicationError: If a rank is lost.
    """
    last = ranks_of(process_set).join()
    return last if process_set is None else process_set.ranks[last]


def ranks_of(process_set: ProcessSet | None) -> Communicator:
    """Return the communicator of a process set, or of all ranks if `process_set` is None."""
    everyone = _initialized()
    return everyone if process_set is None else process_set.communicator()


@contextlib.contextmanager
def compared_as_one(comm: Communicator, words: str) -> Iterator[None]:
    """Make ranks compare all collectives that are started in the `with` block as one, described by `words`.

    If the number of collectives, or any collective, differs between ranks, all of them raise on every rank.
    """
    group = comm.open_group()
    try:
        yield
    except BaseException:
        group.drop()
        raise
    group.start(words)


def index_of(root_rank: int, process_set: ProcessSet | None) -> int:
    """Return the index of a rank in a process set, or the rank itself if `process_set` is None."""
    if process_set is None:
        return root_rank
    if root_rank not in process_set.ranks:
        raise OutOfRangeError(
            f"broadcast: root {root_rank} is not in the process set of ranks "
            + ", ".join(map(str, process_set.ranks))
        )
    return process_set.ranks.index(root_rank)


def _initialized() -> Communicator:
    if not world.is_initialized():
        raise Error("floodtide is not initialised: call floodtide.init() first")
    return world.current()
