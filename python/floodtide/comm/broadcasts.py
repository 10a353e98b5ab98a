# SPDX-License-Identifier: Apache-2.0
"""Broadcasts of NumPy arrays, objects, parameters and optimizers, under Horovod's names.

Every function here is Collective.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from floodtide.comm import world
from floodtide.comm.arrays import Array, in_place, words_for
from floodtide.comm.collectives import place_of, ranks_of
from floodtide.comm.handles import Handle, synchronize
from floodtide.comm.world import ProcessSet
from floodtide.errors import InvalidArgumentError, ShapeError


@runtime_checkable
class WithSettings(Protocol):
    """An optimizer whose rate and further parameters can be sent: those of `floodtide.optim`."""

    name: str

    def settings(self) -> dict[str, Any]:
        """Return the name, the rate and the parameters."""

    def load_settings(self, settings: Mapping[str, Any]) -> None:
        """Take them from another optimizer of the same name."""


def broadcast(array: ArrayLike, root_rank: int = 0, process_set: ProcessSet | None = None) -> Array:
    """Return a new array with root_rank's values.

    Args:
        array: Any type but objects; the same type and shape on all ranks.
        root_rank: Counts all ranks, also with a process_set.
        process_set: The ranks that take part; None for all.

    Raises:
        OutOfRangeError: If root_rank is no rank of these.
        CommunicationError: On all ranks, if types, shapes or roots differ; or if a rank is lost.
    """
    return synchronize(broadcast_async(array, root_rank, process_set))


def broadcast_async(
    array: ArrayLike, root_rank: int = 0, process_set: ProcessSet | None = None
) -> Handle[Array]:
    """Start a broadcast; the array is copied once, so it may be changed at once."""
    return _start(np.array(array, order="C"), root_rank, process_set)


def broadcast_(array: Array, root_rank: int = 0, process_set: ProcessSet | None = None) -> Array:
    """Replace an array by root_rank's values, without a copy, and return it.

    Raises:
        InvalidArgumentError: For what is no array, and for an array that is read-only or not
            C-contiguous.
        OutOfRangeError: If root_rank is no rank of these.
    """
    return synchronize(broadcast_async_(array, root_rank, process_set))


def broadcast_async_(
    array: Array, root_rank: int = 0, process_set: ProcessSet | None = None
) -> Handle[Array]:
    """Start to replace an array by root_rank's; it must not be touched until synchronize."""
    return _start(in_place("broadcast_", array), root_rank, process_set)


def _start(result: Array, root_rank: int, process_set: ProcessSet | None) -> Handle[Array]:
    place = place_of(root_rank, process_set)
    words = f"{words_for([result])} from rank {root_rank}"
    operation = ranks_of(process_set).start_broadcast(result, place, words)
    return Handle([operation], lambda: result)


def broadcast_object(value: Any, root_rank: int = 0, process_set: ProcessSet | None = None) -> Any:
    """Return root_rank's value; it travels as a pickle between the ranks of one job."""
    comm = ranks_of(process_set)
    return world.broadcast_object(value, place_of(root_rank, process_set), comm)


def broadcast_parameters(
    parameters: Mapping[str, Array], root_rank: int = 0, process_set: ProcessSet | None = None
) -> None:
    """Replace the arrays in place by root_rank's: equal networks on all ranks before training.

    Raises:
        ShapeError: On all ranks, if names, shapes or types differ between ranks.
    """
    comm = ranks_of(process_set)
    root = place_of(root_rank, process_set)
    names = sorted(parameters)
    own = json.dumps([[n, parameters[n].dtype.str, list(parameters[n].shape)] for n in names])
    described = comm.allgather(own.encode(), "names, types and shapes of parameters")
    for other, description in enumerate(described):
        if description != described[0]:
            raise _agreed(
                ShapeError(
                    f"broadcast_parameters: names, shapes or types on rank {other} differ from "
                    "rank 0's"
                )
            )
    for name in names:
        comm.broadcast(parameters[name], root, f"the parameter {name}")


def broadcast_optimizer_state(
    optimizer: Any, root_rank: int = 0, process_set: ProcessSet | None = None
) -> None:
    """Make every rank's optimizer equal to root_rank's.

    Of floodtide's optimizers everything is sent: the rate, the row's parameters (beta1, ...) and
    the state. Of others what state_dict returns, for load_state_dict.

    Raises:
        InvalidArgumentError: On all ranks, if the optimizers are of different kinds.
        ShapeError: On all ranks, if ranks have state for different parameters or of different
            sizes. A rank without any, before its first step, fits.
    """
    comm = ranks_of(process_set)
    root = place_of(root_rank, process_set)
    state = optimizer.state_dict()
    _require_equal_kinds(comm, optimizer, state)
    ours = isinstance(optimizer, WithSettings)
    settings = optimizer.settings() if ours else {}
    settings, state = world.broadcast_object((settings, state), root, comm)
    if comm.rank != root:
        if ours:
            optimizer.load_settings(settings)
        optimizer.load_state_dict(state)


def _require_equal_kinds(comm: world.Communicator, optimizer: Any, state: Any) -> None:
    ours = isinstance(optimizer, WithSettings)
    kind = f"floodtide's {optimizer.name}" if ours else type(optimizer).__qualname__
    sizes = {name: int(values.size) for name, values in state.items()} if ours else {}
    own = json.dumps([kind, sizes]).encode()
    described = [json.loads(text) for text in comm.allgather(own, "kinds of optimizers")]
    for rank, (other, _) in enumerate(described):
        if other != described[0][0]:
            raise _agreed(
                InvalidArgumentError(
                    f"broadcast_optimizer_state: the optimizer is {described[0][0]} on rank 0 and "
                    f"{other} on rank {rank}"
                )
            )
    with_state = [(rank, sizes) for rank, (_, sizes) in enumerate(described) if sizes]
    for rank, sizes in with_state:
        first, expected = with_state[0]
        odd = sorted(n for n in sizes.keys() | expected.keys() if sizes.get(n) != expected.get(n))
        if odd:
            raise _agreed(
                ShapeError(
                    f"broadcast_optimizer_state: the state {odd[0]} has "
                    f"{expected.get(odd[0], 0)} values on rank {first} and "
                    f"{sizes.get(odd[0], 0)} on rank {rank}"
                )
            )


def _agreed(error: ShapeError | InvalidArgumentError) -> ShapeError | InvalidArgumentError:
    """An error that all ranks raise alike."""
    error.agreed = True
    return error
