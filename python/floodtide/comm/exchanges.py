# SPDX-License-Identifier: Apache-2.0
"""Allgather and alltoall of NumPy arrays and objects, under Horovod's names.

Every function here is Collective. The lengths of axis 0 may differ by rank; types and the other
axes may not, and where they do every rank raises the same error and may go on.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from floodtide.comm.arrays import Array
from floodtide.comm.collectives import compared_as_one, ranks_of
from floodtide.comm.handles import Handle, joint, synchronize
from floodtide.comm.world import ProcessSet


def allgather(array: ArrayLike, process_set: ProcessSet | None = None) -> Array:
    """Return all ranks' arrays one after another along axis 0, whose length may differ by rank.

    Args:
        array: Any type but objects, at least one axis. Not changed.
        process_set: The ranks that take part; None for all.

    Raises:
        ShapeError: On all ranks, if the types or the other axes differ.
        InvalidArgumentError: On all ranks, if a rank brings no axis or Python objects.
    """
    return synchronize(allgather_async(array, process_set))


def allgather_async(array: ArrayLike, process_set: ProcessSet | None = None) -> Handle[Array]:
    """Start an allgather; a C-contiguous array must not be changed until synchronize."""
    comm = ranks_of(process_set)
    own = np.asarray(array, order="C")
    exchange = comm.start_allgather(own)

    def result() -> Array:
        counts, data = exchange.result()
        return _rows(data, own, sum(counts))

    return Handle([exchange], result)


def grouped_allgather(
    arrays: Sequence[ArrayLike], process_set: ProcessSet | None = None
) -> list[Array]:
    """Return the allgathers of several arrays, which are under way at the same time."""
    return synchronize(grouped_allgather_async(arrays, process_set))


def grouped_allgather_async(
    arrays: Sequence[ArrayLike], process_set: ProcessSet | None = None
) -> Handle[list[Array]]:
    """Start the allgathers of several arrays."""
    with compared_as_one(ranks_of(process_set), f"allgather of {len(arrays)} arrays"):
        handles = [allgather_async(array, process_set) for array in arrays]
    return joint(handles)


def alltoall(
    array: ArrayLike,
    splits: ArrayLike | None = None,
    process_set: ProcessSet | None = None,
) -> Array | tuple[Array, Array]:
    """Send rows to every rank, and return what comes from every rank, in rank order.

    Args:
        array: Any type but objects, at least one axis. Not changed.
        splits: Rows for each rank: the first splits[0] rows go to rank 0, and so on; they add up
            to the rows of the array. None: equal numbers, into which the rows must divide.
        process_set: The ranks that take part; None for all. Splits are then in the set's order.

    Returns:
        The rows that came. With splits also how many came from each rank: int64, as long as there
        are ranks.

    Raises:
        InvalidArgumentError: On all ranks, if splits do not fit on any rank.
        ShapeError: On all ranks, if the types or the other axes differ.
    """
    return synchronize(alltoall_async(array, splits, process_set))


def alltoall_async(
    array: ArrayLike,
    splits: ArrayLike | None = None,
    process_set: ProcessSet | None = None,
) -> Handle[Array | tuple[Array, Array]]:
    """Start an alltoall; a C-contiguous array must not be changed until synchronize."""
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


def allgather_object(value: Any, process_set: ProcessSet | None = None) -> list[Any]:
    """Return every rank's value, in rank order; they travel as pickles between ranks of one job."""
    everything = ranks_of(process_set).allgather(pickle.dumps(value), "objects")
    return [pickle.loads(data) for data in everything]


def _rows(data: Array, like: Array, count: int) -> Array:
    """Rows of an array's type and shape from their bytes."""
    return data.view(like.dtype).reshape(count, *like.shape[1:])


def _even(rows: int, size: int) -> tuple[list[int], str]:
    """Equal splits, and what is wrong with them: what a rank alone knows, all ranks must raise."""
    share, rest = divmod(rows, size)
    if rest:
        return [], f"alltoall: {rows} rows cannot be cut evenly for {size} ranks; pass splits"
    return [share] * size, ""


def _whole_numbers(splits: ArrayLike) -> tuple[list[int], str]:
    values = np.asarray(splits)
    if values.ndim != 1 or (values.dtype.kind not in "iu" and values.size > 0):
        return [], f"alltoall: expected a list of whole numbers as splits, got {splits!r:.80}"
    return [operator.index(value) for value in values], ""
