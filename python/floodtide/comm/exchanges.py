# SPDX-License-Identifier: Apache-2.0
"""Allgather and alltoall of NumPy arrays and objects, with the names that Horovod uses.

Every function here is Collective: every rank must call it. The length of axis 0 may differ between ranks. If types or
the lengths of other axes differ, every rank raises the same error, and later collectives work.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from floodtide.comm.arrays import Array, accepts_tensors
from floodtide.comm.collectives import compared_as_one, ranks_of
from floodtide.comm.handles import Handle, completed, joint
from floodtide.comm.world import ProcessSet


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
    rows = own.shape[0] if own.ndim else 0
    numbers, problem = _even(rows, comm.size) if splits is None else _whole_numbers(splits)
    exchange = comm.start_alltoall(own, numbers, problem)

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


def _even(rows: int, size: int) -> tuple[list[int], str]:
    """Return equal splits, and an error text or "". The text is returned, not raised: all ranks must raise it."""
    share, rest = divmod(rows, size)
    if rest:
        return [], f"alltoall: {rows} rows cannot be cut evenly for {size} ranks; pass splits"
    return [share] * size, ""


def _whole_numbers(splits: ArrayLike) -> tuple[list[int], str]:
    values = np.asarray(splits)
    if values.ndim != 1 or (values.dtype.kind not in "iu" and values.size > 0):
        return [], f"alltoall: expected a list of whole numbers as splits, got {splits!r:.80}"
    return [operator.index(value) for value in values], ""
