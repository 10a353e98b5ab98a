# SPDX-License-Identifier: Apache-2.0
"""Collectives on NumPy arrays, under Horovod's names. Every function here is Collective: all ranks
call it, in the same order, with arrays of the same shape and type unless said otherwise."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from floodtide import _comm, _core
from floodtide.errors import Error, InvalidArgumentError, ShapeError

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


def allreduce(array: ArrayLike, op: Op = Average, algorithm: str | None = None) -> Array:
    """The sum, average, minimum or maximum over ranks; the same bits on all ranks.

    Args:
        array: float32, float64 or int64, any shape. Not changed.
        op: Sum, Average (floating point only), Min or Max.
        algorithm: "ring" (default) or "mpi" (the MPI library's own).

    Returns:
        A new array of the same shape and type.

    Raises:
        InvalidArgumentError: For another type, operation or algorithm.
        UnsupportedError: For "mpi" without MPI.
    """
    if not isinstance(op, Op):
        raise InvalidArgumentError(f"allreduce: expected Sum, Average, Min or Max, got {op!r}")
    result = np.array(array, order="C")
    if op is Average and result.dtype.kind != "f":
        raise InvalidArgumentError(f"allreduce: Average of {result.dtype}, expected floating point")
    comm = _initialized()
    reduction = "sum" if op is Average else op.value
    comm.allreduce(result, reduction, algorithm or _core.comm.default_allreduce)
    if op is Average:
        result /= comm.size
    return result


def broadcast(array: ArrayLike, root_rank: int = 0) -> Array:
    """A new array with root_rank's values."""
    result = np.array(array, order="C")
    _initialized().broadcast(result, root_rank)
    return result


def allgather(array: ArrayLike) -> Array:
    """All ranks' arrays one after another along axis 0, whose length may differ by rank.

    Raises:
        ShapeError: On all ranks, if the types or the other axes differ.
    """
    own = np.ascontiguousarray(array)
    comm = _initialized()
    shapes = [
        json.loads(s) for s in comm.allgather(json.dumps([own.dtype.str, own.shape]).encode())
    ]
    kinds = {(dtype, tuple(shape[1:])) for dtype, shape in shapes}
    if len(kinds) != 1 or own.ndim == 0:
        error = ShapeError(
            "allgather: expected arrays that differ in the length of axis 0 only, got "
            + ", ".join(f"{dtype} {tuple(shape)}" for dtype, shape in shapes)
        )
        error.agreed = True
        raise error
    parts = comm.allgather(own.tobytes())
    return np.concatenate(
        [
            np.frombuffer(part, dtype=own.dtype).reshape(shape)
            for part, (_, shape) in zip(parts, shapes, strict=True)
        ]
    )


def barrier() -> None:
    """Return when all ranks have called it."""
    _initialized().barrier()


def broadcast_object(value: Any, root_rank: int = 0) -> Any:
    """root_rank's value; it travels as a pickle between the ranks of one job."""
    _initialized()
    return _comm.broadcast_object(value, root_rank)


def broadcast_parameters(parameters: Mapping[str, Array], root_rank: int = 0) -> None:
    """Replace the arrays in place by root_rank's: equal networks on all ranks before training.

    Raises:
        ShapeError: On all ranks, if names, shapes or types differ between ranks.
    """
    comm = _initialized()
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
        comm.broadcast(parameters[name], root_rank)


def broadcast_optimizer_state(optimizer: Any, root_rank: int = 0) -> None:
    """Give every rank's optimizer the state of root_rank's, through its state_dict."""
    state = broadcast_object(optimizer.state_dict(), root_rank)
    if rank() != root_rank:
        optimizer.load_state_dict(state)


def _initialized() -> Any:
    if not _comm.is_initialized():
        raise Error("ranks are not known yet: call floodtide.init() first")
    return _comm.current()
