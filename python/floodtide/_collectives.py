# SPDX-License-Identifier: Apache-2.0
"""Collectives on NumPy arrays, under Horovod's names. Every function here is Collective: all ranks
call it, in the same order, with arrays of the same shape and type unless said otherwise."""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from floodtide import _comm, _core
from floodtide._comm import ProcessSet
from floodtide.errors import Error, InvalidArgumentError, OutOfRangeError, ShapeError

Array = NDArray[Any]


class Op(enum.Enum):
    """What allreduce does with the values of the ranks."""

    SUM = "sum"
    AVERAGE = "average"
    MIN = "min"
    MAX = "max"


Sum, Average, Min, Max = Op.SUM, Op.AVERAGE, Op.MIN, Op.MAX


def rank() -> int:
    """This process's rank, 0 <= rank < size."""
    return int(_initialized().rank)


def size() -> int:
    """Number of ranks."""
    return int(_initialized().size)


def local_rank() -> int:
    """Rank among the ranks of this host."""
    _initialized()
    return _comm.places()[0]


def local_size() -> int:
    """Number of ranks of this host."""
    _initialized()
    return _comm.places()[1]


def cross_rank() -> int:
    """This host's place among the hosts that have a rank with this local rank."""
    _initialized()
    return _comm.places()[2]


def cross_size() -> int:
    """Number of hosts that have a rank with this local rank."""
    _initialized()
    return _comm.places()[3]


def allreduce(
    array: ArrayLike,
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
) -> Array:
    """The sum, average, minimum or maximum over ranks; the same bits on all ranks.

    Args:
        array: float32, float64 or int64, any shape. Not changed.
        op: Sum, Average (floating point only; over the ranks that have not joined), Min or Max.
        algorithm: "ring", "rabenseifner", "recursive_doubling", "two_level", "mpi" (the MPI
            library's own), a table by bytes such as "recursive_doubling:0-8192,ring:8193-", or
            "auto": the fastest as measured when it is first asked for. None: "auto", unless
            FLOODTIDE_ALLREDUCE holds another of these.
        wire: "bf16" halves the bytes of float32: sums are float32 and rounded when they are sent.
        process_set: The ranks that take part; None for all.

    Returns:
        A new array of the same shape and type.

    Raises:
        InvalidArgumentError: For another type, operation, algorithm or wire format.
        UnsupportedError: For "mpi" without MPI.
        CommunicationError: If ranks differ in what they call, or one is lost. It names a rank.
    """
    return synchronize(allreduce_async(array, op, algorithm, wire, process_set))


class AllreduceHandle:
    """An allreduce under way: for poll and synchronize."""

    def __init__(self, result: Array, operations: list[Any], active: Array | None) -> None:
        self._result = result
        self._operations = operations
        self._active = active  # number of ranks that have not joined, for an average

    def _poll(self) -> bool:
        return all([operation.test() for operation in self._operations])

    def _synchronize(self) -> Array:
        for operation in self._operations:
            operation.wait()
        if self._active is not None:
            self._result /= self._result.dtype.type(self._active[0])
            self._active = None
        return self._result


def allreduce_async(
    array: ArrayLike,
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
) -> AllreduceHandle:
    """Start an allreduce and return at once; arguments and errors as for allreduce.

    All ranks start the same ones in the same order and may complete them in any order. It moves
    while this rank is in poll, synchronize or another collective on the same ranks.
    """
    if not isinstance(op, Op):
        raise InvalidArgumentError(f"allreduce: expected Sum, Average, Min or Max, got {op!r}")
    result = np.array(array, order="C")
    if op is Average and result.dtype.kind != "f":
        raise InvalidArgumentError(f"allreduce: Average of {result.dtype}, expected floating point")
    comm = _ranks(process_set)
    reduction = "sum" if op is Average else op.value
    chosen = algorithm or _core.comm.auto_allreduce
    operations = [comm.start_allreduce(result, reduction, chosen, wire or "native")]
    active = None
    if op is Average:
        active = np.ones(1, np.int64)
        operations.append(comm.start_allreduce(active, "sum", "recursive_doubling"))
    return AllreduceHandle(result, operations, active)


def poll(handle: AllreduceHandle) -> bool:
    """Whether an allreduce is done; moves everything that is under way on its ranks.

    Raises:
        CommunicationError: If it failed.
    """
    return handle._poll()


def synchronize(handle: AllreduceHandle) -> Array:
    """Wait for an allreduce and return its result.

    Raises:
        CommunicationError: If it failed.
    """
    return handle._synchronize()


def reduce_scatter(
    array: ArrayLike,
    op: Op = Average,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
) -> Array:
    """This rank's share of the sum, average, minimum or maximum over ranks.

    Args:
        array: float32, float64 or int64, at least one axis; the same shape on all ranks.
        op: Sum, Average (floating point only), Min or Max.
        wire: As for allreduce.
        process_set: The ranks that take part; None for all.

    Returns:
        A new array: rows of axis 0 cut as evenly as possible, the longer shares first.

    Raises:
        InvalidArgumentError: For another type, operation or wire format, or no axis.
        CommunicationError: If ranks differ in what they call, or one is lost. It names a rank.
    """
    if not isinstance(op, Op):
        raise InvalidArgumentError(f"reduce_scatter: expected Sum, Average, Min or Max, got {op!r}")
    work = np.array(array, order="C")
    if work.ndim == 0:
        raise InvalidArgumentError("reduce_scatter: expected an array with at least one axis")
    if op is Average and work.dtype.kind != "f":
        raise InvalidArgumentError(
            f"reduce_scatter: Average of {work.dtype}, expected floating point"
        )
    comm = _ranks(process_set)
    share, longer = divmod(len(work), comm.size)
    rows = [share * r + min(r, longer) for r in range(comm.size + 1)]
    per_row = work.size // len(work) if len(work) else 0
    reduction = "sum" if op is Average else op.value
    comm.reduce_scatter(work, reduction, [row * per_row for row in rows], wire or "native")
    own = work[rows[comm.rank] : rows[comm.rank + 1]].copy()
    if op is Average:
        own /= comm.size
    return own


def broadcast(array: ArrayLike, root_rank: int = 0, process_set: ProcessSet | None = None) -> Array:
    """A new array with root_rank's values; root_rank counts all ranks, also with a process_set.

    Raises:
        OutOfRangeError: If root_rank is no rank of these.
    """
    result = np.array(array, order="C")
    _ranks(process_set).broadcast(result, _place(root_rank, process_set))
    return result


def allgather(array: ArrayLike, process_set: ProcessSet | None = None) -> Array:
    """All ranks' arrays one after another along axis 0, whose length may differ by rank.

    Raises:
        ShapeError: On all ranks, if the types or the other axes differ.
    """
    own = np.ascontiguousarray(array)
    comm = _ranks(process_set)
    shapes = [
        json.loads(s) for s in comm.allgather(json.dumps([own.dtype.str, np.shape(array)]).encode())
    ]
    kinds = {(dtype, tuple(shape[1:])) for dtype, shape in shapes}
    if len(kinds) != 1 or not all(shape for _, shape in shapes):
        error = ShapeError(
            "allgather: expected arrays that differ in the length of axis 0 only, got "
            + ", ".join(f"{dtype} {tuple(shape)}" for dtype, shape in shapes)
        )
        error.agreed = True
        raise error
    rows = [0, *itertools.accumulate(shape[0] for _, shape in shapes)]
    result = np.empty((rows[-1], *own.shape[1:]), own.dtype)
    result[rows[comm.rank] : rows[comm.rank + 1]] = own
    row_bytes = result.nbytes // rows[-1] if rows[-1] else 0
    comm.allgather_into(result, [row * row_bytes for row in rows])
    return result


def barrier(process_set: ProcessSet | None = None) -> None:
    """Return when all ranks have called it."""
    _ranks(process_set).barrier()


def join(process_set: ProcessSet | None = None) -> int:
    """Say that this rank has no more work, and answer the others until all have joined.

    The others' allreduces go on with zeros from here (Average divides by the ranks that have not
    joined), and so do their barriers and broadcasts from other ranks. allgather and
    reduce_scatter need every rank: they are an error while a rank has joined.

    Returns:
        The last rank to join, the highest of several at once.

    Raises:
        UnsupportedError: If another rank starts a collective that needs values of this one.
        CommunicationError: If a rank is lost.
    """
    last = int(_ranks(process_set).join())
    return last if process_set is None else process_set.ranks[last]


def broadcast_object(value: Any, root_rank: int = 0, process_set: ProcessSet | None = None) -> Any:
    """root_rank's value; it travels as a pickle between the ranks of one job."""
    comm = _ranks(process_set)
    return _comm.broadcast_object(value, _place(root_rank, process_set), comm)


def broadcast_parameters(
    parameters: Mapping[str, Array], root_rank: int = 0, process_set: ProcessSet | None = None
) -> None:
    """Replace the arrays in place by root_rank's: equal networks on all ranks before training.

    Raises:
        ShapeError: On all ranks, if names, shapes or types differ between ranks.
    """
    comm = _ranks(process_set)
    root = _place(root_rank, process_set)
    names = sorted(parameters)
    own = json.dumps([[n, parameters[n].dtype.str, list(parameters[n].shape)] for n in names])
    described = comm.allgather(own.encode())
    for other, description in enumerate(described):
        if description != described[0]:
            error = ShapeError(
                f"broadcast_parameters: names, shapes or types on rank {other} differ from rank 0's"
            )
            error.agreed = True
            raise error
    for name in names:
        comm.broadcast(parameters[name], root)


def broadcast_optimizer_state(
    optimizer: Any, root_rank: int = 0, process_set: ProcessSet | None = None
) -> None:
    """Give every rank's optimizer the state of root_rank's, through its state_dict."""
    state = broadcast_object(optimizer.state_dict(), root_rank, process_set)
    if rank() != root_rank:
        optimizer.load_state_dict(state)


def _ranks(process_set: ProcessSet | None) -> Any:
    """The communicator of a process set, or of all ranks."""
    everyone = _initialized()
    return everyone if process_set is None else process_set.communicator()


def _place(root_rank: int, process_set: ProcessSet | None) -> int:
    """A rank's place in a process set."""
    if process_set is None:
        return root_rank
    if root_rank not in process_set.ranks:
        raise OutOfRangeError(
            f"broadcast: root {root_rank} is not in the process set of ranks "
            + ", ".join(map(str, process_set.ranks))
        )
    return process_set.ranks.index(root_rank)


def _initialized() -> Any:
    if not _comm.is_initialized():
        raise Error("ranks are not known yet: call floodtide.init() first")
    return _comm.current()
