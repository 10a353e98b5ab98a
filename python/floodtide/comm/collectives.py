# SPDX-License-Identifier: Apache-2.0
"""Rank and size, barriers and join, handles of collectives in progress, and what the modules of collectives share.

Names follow Horovod. Reductions are in `reductions`, broadcasts, allgather and alltoall in `exchanges`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from floodtide import _core
from floodtide.comm import world
from floodtide.comm.world import Communicator, ProcessSet
from floodtide.errors import Error, OutOfRangeError

Operation = _core.comm.Operation | _core.comm.Exchange
Result = TypeVar("Result")
Given = ParamSpec("Given")


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
        members = ", ".join(map(str, process_set.ranks))
        raise OutOfRangeError(f"broadcast: root {root_rank} is not in the process set {members}")
    return process_set.ranks.index(root_rank)


def _initialized() -> Communicator:
    if not world.is_initialized():
        raise Error("floodtide is not initialised: call floodtide.init() first")
    return world.current()


class Handle(Generic[Result]):
    """A collective in progress. Pass it to `poll` or `synchronize`.

    A handle keeps its arrays alive. Do not change these arrays, and do not read results, before `synchronize` returns.
    """

    def __init__(self, operations: Sequence[Operation], finish: Callable[[], Result]) -> None:
        """Create a handle of the core's operations. `finish` is called once, after they end, and gives the result."""
        self._operations = operations
        self._result = functools.cache(finish)

    def mapped(self, change: Callable[[Result], Any]) -> Handle[Any]:
        """Return a handle of the same collective, whose result `change` has changed."""
        return Handle(self._operations, lambda: change(synchronize(self)))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Handle cannot be pickled or copied: other ranks take part in it; expected `synchronize` in this process"
        )


def poll(handle: Handle[Any]) -> bool:
    """Return True if a collective is complete. Also advances all collectives in progress on its ranks.

    Raises:
        CommunicationError: If the collective failed.
    """
    return all([operation.test() for operation in handle._operations])


def synchronize(handle: Handle[Result]) -> Result:
    """Wait for a collective and return its result. A second call returns the same result.

    Raises:
        CommunicationError: If the collective failed.
        InvalidArgumentError, ShapeError: On all ranks, if the calls of the ranks do not match.
    """
    for operation in handle._operations:
        operation.wait()
    return handle._result()


def joint(handles: Sequence[Handle[Result]]) -> Handle[list[Result]]:
    """Return one handle for several handles."""
    operations = [operation for handle in handles for operation in handle._operations]
    return Handle(operations, lambda: [synchronize(handle) for handle in handles])


def completed(start: Callable[Given, Handle[Result]], text: str) -> Callable[Given, Result]:
    """Return the function that starts a collective as `start` does, waits for it, and returns its result.

    Its name is that of `start` without "_async", and its arguments are those of `start`.
    """

    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return synchronize(start(*args, **kwargs))

    call.__name__ = call.__qualname__ = start.__name__.replace("_async", "")
    call.__module__, call.__doc__ = start.__module__, text
    signature = inspect.signature(start)
    returned = str(signature.return_annotation).removeprefix("Handle[").removesuffix("]")
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call
