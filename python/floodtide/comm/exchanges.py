# SPDX-License-Identifier: Apache-2.0
"""Broadcasts, allgather and alltoall of NumPy arrays and objects, with the names that Horovod uses.

Every function here is Collective: every rank must call it. In allgather and alltoall, the length of axis 0 may differ
between ranks. If types or the lengths of other axes differ, every rank raises the same error, and later collectives
work.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from floodtide.comm import world
from floodtide.comm.arrays import Array, accepts_tensors, array_of, in_place, is_tensor, words_for
from floodtide.comm.collectives import Handle, compared_as_one, completed, index_of, joint, ranks_of
from floodtide.comm.world import ProcessSet
from floodtide.errors import InvalidArgumentError


@accepts_tensors
def allgather_async(array: ArrayLike, process_set: ProcessSet | None = None) -> Handle[Array]:
    """Start an allgather and return its handle. Do not change the array before `synchronize` returns."""
    comm = ranks_of(process_set)
    own = np.asarray(array, order="C")
    exchange = comm.start_allgather(own)

    def result() -> Array:
        counts, data = exchange.result()
        return _rows(data, own, sum(counts))

    return Handle([exchange], result)


allgather = completed(
    allgather_async,
    """Return the arrays of all ranks, concatenated along axis 0 in rank order.

    Args:
        array: Any type except objects, with at least one axis. The length of axis 0 may differ between ranks. The
            array is not changed.
        process_set: The ranks that take part; None: all ranks.

    Raises:
        ShapeError: On all ranks, if the types or the lengths of other axes differ.
        InvalidArgumentError: On all ranks, if an array has no axis or holds Python objects.
    """,
)


@accepts_tensors
def grouped_allgather_async(
    arrays: Iterable[ArrayLike], process_set: ProcessSet | None = None
) -> Handle[list[Array]]:
    """Start the allgathers of several arrays and return one handle for all."""
    given = list(arrays)
    with compared_as_one(ranks_of(process_set), f"allgather of {len(given)} arrays"):
        handles = [allgather_async(array, process_set) for array in given]
    return joint(handles)


grouped_allgather = completed(
    grouped_allgather_async,
    """Return the allgather of each of several arrays. The allgathers run at the same time.""",
)


@accepts_tensors
def alltoall_async(
    array: ArrayLike, splits: ArrayLike | None = None, process_set: ProcessSet | None = None
) -> Handle[Array | tuple[Array, Array]]:
    """Start an alltoall and return its handle. Do not change the array before `synchronize` returns."""
    comm = ranks_of(process_set)
    own = np.asarray(array, order="C")
    exchange = comm.start_alltoall(own, *_numbers(splits, own, comm.size))

    def result() -> Array | tuple[Array, Array]:
        counts, data = exchange.result()
        received = _rows(data, own, sum(counts))
        return received if splits is None else (received, np.array(counts, np.int64))

    return Handle([exchange], result)


alltoall = completed(
    alltoall_async,
    """Send some rows of an array to every rank, and return the rows received from every rank, in rank order.

    Args:
        array: Any type except objects, with at least one axis. The array is not changed.
        splits: Number of rows for each rank: the first splits[0] rows go to rank 0, and so on. The sum must be the
            number of rows. None: the same number for each rank; the number of rows must be a multiple of the ranks.
        process_set: The ranks that take part, in whose order splits are given; None: all ranks.

    Returns:
        The received rows. If splits are given, also the number of rows from each rank, int64 (ranks,).

    Raises:
        InvalidArgumentError: On all ranks, if the splits of any rank are wrong.
        ShapeError: On all ranks, if the types or the lengths of other axes differ.
    """,
)


def allgather_object(value: Any, process_set: ProcessSet | None = None) -> list[Any]:
    """Return the values of all ranks, in rank order. Values are sent as pickles between the ranks of one job."""
    everything = ranks_of(process_set).allgather(pickle.dumps(value), "objects")
    return [pickle.loads(data) for data in everything]


def _rows(data: Array, like: Array, count: int) -> Array:
    """Return `count` rows from their bytes, with the type and row shape of the array `like`."""
    return data.view(like.dtype).reshape(count, *like.shape[1:])


def _numbers(splits: ArrayLike | None, own: Array, size: int) -> tuple[list[int], str]:
    """Return the rows for each rank, and an error text or "". The text is not raised here: all ranks must raise it."""
    rows = own.shape[0] if own.ndim else 0
    if splits is None and rows % size:
        return [], f"alltoall: {rows} rows cannot be cut evenly for {size} ranks; pass splits"
    values = np.full(size, rows // size) if splits is None else np.asarray(splits)
    if values.ndim != 1 or (values.dtype.kind not in "iu" and values.size > 0):
        return [], f"alltoall: expected a list of whole numbers as splits, got {splits!r:.80}"
    return values.tolist(), ""


@accepts_tensors
def broadcast_async(
    array: ArrayLike, root_rank: int = 0, process_set: ProcessSet | None = None
) -> Handle[Array]:
    """Start a broadcast and return its handle. The array is copied, so the caller may change it at once."""
    return _start(np.array(array, order="C"), root_rank, process_set)


broadcast = completed(
    broadcast_async,
    """Return a new array with the values of rank `root_rank`.

    Args:
        array: Any type except objects. Type and shape must be equal on all ranks.
        root_rank: Rank among all ranks, also if process_set is given.
        process_set: The ranks that take part; None: all ranks.

    Raises:
        OutOfRangeError: If root_rank does not take part.
        CommunicationError: On all ranks, if types, shapes or roots differ. Also if a rank is lost.
    """,
)


@accepts_tensors
def broadcast_async_(
    array: Array, root_rank: int = 0, process_set: ProcessSet | None = None
) -> Handle[Array]:
    """Start a broadcast in place and return its handle. Do not use the array before `synchronize` returns."""
    return _start(in_place("broadcast_", array), root_rank, process_set)


broadcast_ = completed(
    broadcast_async_,
    """Overwrite an array with the values of rank `root_rank`, without a copy, and return the array.

    Raises:
        InvalidArgumentError: If the value is not an array, or the array is read-only or not C-contiguous.
        OutOfRangeError: If root_rank does not take part.
    """,
)


def _start(result: Array, root_rank: int, process_set: ProcessSet | None) -> Handle[Array]:
    place = index_of(root_rank, process_set)
    words = f"{words_for([result])} from rank {root_rank}"
    return Handle([ranks_of(process_set).start_broadcast(result, place, words)], lambda: result)


def broadcast_object(value: Any, root_rank: int = 0, process_set: ProcessSet | None = None) -> Any:
    """Return the value of rank `root_rank`. The value is sent as a pickle between the ranks of one job."""
    comm = ranks_of(process_set)
    return world.broadcast_object(value, index_of(root_rank, process_set), comm)


def broadcast_parameters(
    parameters: Mapping[str, Array] | Iterable[tuple[str, Array]],
    root_rank: int = 0,
    process_set: ProcessSet | None = None,
) -> None:
    """Copy the arrays of rank `root_rank` to all ranks. Call this before training, so that all networks are equal.

    Args:
        parameters: {name: array}, or pairs of name and array, as of PyTorch's `named_parameters`. They are changed in
            place.
        root_rank, process_set: As for `broadcast`.

    Raises:
        InvalidArgumentError: If a value is not an array, or an array is read-only or not C-contiguous.
        CommunicationError: On all ranks, if names, shapes or types differ between ranks. Parameters before the first
            other one, in the order of their names, are changed.
    """
    comm = ranks_of(process_set)
    root = index_of(root_rank, process_set)
    arrays = _named(parameters)
    comm.allgather(b"", f"names of {len(arrays)} parameters")  # compares their number
    for name, array in arrays.items():
        words = f"the parameter {name}, {words_for([array])}, from rank {root_rank}"
        comm.start_broadcast(array, root, words).wait()


def _named(parameters: Any) -> dict[str, Array]:
    """Return arrays that share memory with the parameters, sorted by name."""
    try:
        given = dict(parameters)
    except (TypeError, ValueError):
        given = None
    if given is None or not all(isinstance(name, str) for name in given):
        raise InvalidArgumentError(
            f"broadcast_parameters: got {type(parameters).__name__}, expected {{name: array}}, or pairs of name and"
            " array"
        )
    arrays = {}
    for name, value in sorted(given.items(), key=lambda one: one[0]):
        call = f"broadcast_parameters: {name}"
        value = value.detach() if hasattr(value, "detach") else value
        arrays[name] = in_place(call, array_of(call, value) if is_tensor(value) else value)
    return arrays


def broadcast_optimizer_state(
    optimizer: Any, root_rank: int = 0, process_set: ProcessSet | None = None
) -> None:
    """Make the optimizer of every rank equal to that of rank `root_rank`.

    An optimizer of floodtide is sent completely: learning rate, parameters (beta1, ...) and state. Of other
    optimizers, the result of state_dict is sent and passed to load_state_dict.

    Raises:
        CommunicationError: On all ranks, if the kinds of optimizers differ.
    """
    comm = ranks_of(process_set)
    root = index_of(root_rank, process_set)
    # Optimizers of `floodtide.optim` have this method. This module may not import them.
    ours = hasattr(optimizer, "load_settings")
    kind = f"floodtide's {optimizer.name}" if ours else type(optimizer).__qualname__
    comm.allgather(b"", f"state of the optimizer {kind}")  # compares the kinds
    settings = optimizer.settings() if ours else {}
    settings, state = world.broadcast_object((settings, optimizer.state_dict()), root, comm)
    if comm.rank != root:
        if ours:
            optimizer.load_settings(settings)
        optimizer.load_state_dict(state)
