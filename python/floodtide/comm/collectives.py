# SPDX-License-Identifier: Apache-2.0
"""Where this rank stands, barriers and join; and what the modules of collectives share.

Names follow Horovod. Reductions are in _reductions, allgather and alltoall in _exchanges,
broadcasts in _broadcasts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from floodtide.comm import world
from floodtide.comm.world import Communicator, ProcessSet
from floodtide.errors import Error, OutOfRangeError


def rank() -> int:
    """This process's rank, 0 <= rank < size."""
    return _initialized().rank


def size() -> int:
    """Number of ranks."""
    return _initialized().size


def local_rank() -> int:
    """Rank among the ranks of this host."""
    _initialized()
    return world.places()[0]


def local_size() -> int:
    """Number of ranks of this host."""
    _initialized()
    return world.places()[1]


def cross_rank() -> int:
    """This host's place among the hosts that have a rank with this local rank."""
    _initialized()
    return world.places()[2]


def cross_size() -> int:
    """Number of hosts that have a rank with this local rank."""
    _initialized()
    return world.places()[3]


def barrier(process_set: ProcessSet | None = None) -> None:
    """Return when all ranks have called it."""
    ranks_of(process_set).barrier()


def join(process_set: ProcessSet | None = None) -> int:
    """Say that this rank has no more work, and answer the others until all have joined.

    The others' allreduces go on with zeros from here (Average divides by the ranks that have not
    joined), and so do their barriers and broadcasts from other ranks. allgather, alltoall and
    reduce_scatter need every rank: they are an error while a rank has joined.

    Returns:
        The last rank to join, the highest of several at once.

    Raises:
        UnsupportedError: If another rank starts a collective that needs values of this one.
        CommunicationError: If a rank is lost.
    """
    last = ranks_of(process_set).join()
    return last if process_set is None else process_set.ranks[last]


def ranks_of(process_set: ProcessSet | None) -> Communicator:
    """Return the communicator of a process set, or of all ranks."""
    everyone = _initialized()
    return everyone if process_set is None else process_set.communicator()


@contextlib.contextmanager
def compared_as_one(comm: Communicator, words: str) -> Iterator[None]:
    """Have the ranks compare all collectives that the body starts as one, described by `words`.

    If ranks differ in their number or in any of them, all of them raise on every rank.
    """
    group = comm.open_group()
    try:
        yield
    except BaseException:
        group.drop()
        raise
    group.start(words)


def place_of(root_rank: int, process_set: ProcessSet | None) -> int:
    """Return a rank's place in a process set.

    Raises:
        OutOfRangeError: If it is no member.
    """
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
        raise Error("ranks are not known yet: call floodtide.init() first")
    return world.current()
