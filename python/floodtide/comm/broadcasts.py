# SPDX-License-Identifier: Apache-2.0
"""Broadcasts of NumPy arrays, objects, parameters and optimizers, with the names that Horovod uses.

Every function here is Collective: every rank must call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from floodtide.comm import world
from floodtide.comm.arrays import (
    Array,
    accepts_tensors,
    array_of,
    in_place,
    is_tensor,
    words_for,
)
from floodtide.comm.collectives import index_of, ranks_of
from floodtide.comm.exchanges import allgather_object
from floodtide.comm.handles import Handle, completed
from floodtide.comm.world import ProcessSet
from floodtide.errors import Error, InvalidArgumentError, ShapeError, on_all_ranks


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
        ShapeError: On all ranks, if names, shapes or types differ between ranks.
    """
    comm = ranks_of(process_set)
    root = index_of(root_rank, process_set)
    arrays = _named(parameters)
    own = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    described = allgather_object(own, process_set)
    for rank, other in enumerate(described):
        if other != described[0]:
            raise on_all_ranks(
                ShapeError(
                    f"broadcast_parameters: names, shapes or types on rank {rank} differ from rank 0's"
                )
            )
    for name, array in arrays.items():
        comm.start_broadcast(array, root, f"the parameter {name}").wait()


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
        InvalidArgumentError: On all ranks, if the kinds of optimizers differ.
        ShapeError: On all ranks, if the names or sizes of the state differ. A rank without state, before its first
            step, is accepted.
    """
    comm = ranks_of(process_set)
    root = index_of(root_rank, process_set)
    state = optimizer.state_dict()
    # Optimizers of `floodtide.optim` have this method. This module may not import them.
    ours = hasattr(optimizer, "load_settings")
    kind = f"floodtide's {optimizer.name}" if ours else type(optimizer).__qualname__
    sizes = {name: int(values.size) for name, values in state.items()} if ours else {}
    described = allgather_object((kind, sizes), process_set)
    expected: dict[str, int] = next((of_rank for _, of_rank in described if of_rank), {})
    for rank, (other, of_rank) in enumerate(described):
        problem: Error | None = None
        if other != described[0][0]:
            problem = InvalidArgumentError(
                f"broadcast_optimizer_state: the optimizer is {described[0][0]} on rank 0 and {other} on rank {rank}"
            )
        elif of_rank and of_rank != expected:
            problem = ShapeError(
                f"broadcast_optimizer_state: the state on rank {rank} has sizes {of_rank}, expected {expected} as on"
                " lower ranks"
            )
        if problem is not None:
            raise on_all_ranks(problem)
    settings = optimizer.settings() if ours else {}
    settings, state = world.broadcast_object((settings, state), root, comm)
    if comm.rank != root:
        if ours:
            optimizer.load_settings(settings)
        optimizer.load_state_dict(state)
