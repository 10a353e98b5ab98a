# SPDX-License-Identifier: Apache-2.0
"""Calls that differ between ranks: every rank raises the same line, no array changes, ranks go on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from values import Array, expect_refused_alike

import floodtide as ft


def expect_difference(usual: Callable[[], object], odd: Callable[[], object], *texts: str) -> None:
    """The highest rank makes another call than the others."""
    call = odd if ft.rank() == ft.size() - 1 else usual
    message = expect_refused_alike(call, ft.errors.CommunicationError)
    for text in texts:
        assert text in message, message


def floats(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def case_types() -> None:
    for call in (ft.allreduce, ft.broadcast, ft.reduce_scatter, ft.allreduce_, ft.broadcast_):
        expect_difference(
            lambda c=call: c(floats(2, 3)),
            lambda c=call: c(np.ones((2, 3), np.float64)),
            "float32 (2, 3)",
            "float64 (2, 3)",
        )
    # As many bytes, and as many elements.
    expect_difference(
        lambda: ft.broadcast(floats(4)), lambda: ft.broadcast(np.ones(4, np.int32)), "int32 (4,)"
    )
    expect_difference(
        lambda: ft.allreduce(np.ones(4, np.int8), ft.Sum),
        lambda: ft.allreduce(np.ones(4, np.uint8), ft.Sum),
        "sum of int8 (4,)",
        "sum of uint8 (4,)",
    )


def case_shapes() -> None:
    for call in (ft.allreduce, ft.broadcast, ft.reduce_scatter, ft.allreduce_, ft.broadcast_):
        for odd in (floats(3, 2), floats(6), floats(2, 4), floats(0)):
            expect_difference(
                lambda c=call: c(floats(2, 3)), lambda c=call, o=odd: c(o), str(odd.shape)
            )


def case_operations() -> None:
    for call in (ft.allreduce, ft.reduce_scatter):
        for op, text in ((ft.Sum, "sum"), (ft.Product, "product"), (ft.Max, "max")):
            expect_difference(
                lambda c=call: c(floats(3)),
                lambda c=call, o=op: c(floats(3), o),
                "average of float32 (3,)",
                f"{text} of float32 (3,)",
            )


def case_collectives() -> None:
    calls = {
        "allreduce": lambda: ft.allreduce(floats(4)),
        "reduce_scatter": lambda: ft.reduce_scatter(floats(4)),
        "broadcast": lambda: ft.broadcast(floats(4)),
        "allgather": lambda: ft.allgather(floats(4)),
        "alltoall": lambda: ft.alltoall(floats(ft.size())),
        "barrier": ft.barrier,
    }
    for usual, odd in zip(calls, list(calls)[1:], strict=False):
        expect_difference(calls[usual], calls[odd], usual, odd)


def case_roots() -> None:
    expect_difference(
        lambda: ft.broadcast(floats(4)),
        lambda: ft.broadcast(floats(4), 1),
        "from rank 0",
        "from rank 1",
    )
    message = expect_refused_alike(
        lambda: ft.broadcast(floats(4), ft.rank()), ft.errors.CommunicationError
    )
    assert all(f"from rank {r}" in message for r in range(ft.size()))


def case_groups() -> None:
    expect_difference(
        lambda: ft.grouped_allreduce([floats(2), floats(3)]),
        lambda: ft.grouped_allreduce([floats(2)]),
    )
    expect_difference(
        lambda: ft.grouped_allreduce([floats(2), floats(3)]),
        lambda: ft.grouped_allreduce([floats(3), floats(2)]),  # as many elements
        "average of 2 arrays: float32 (2,), float32 (3,)",
        "average of 2 arrays: float32 (3,), float32 (2,)",
    )


def case_arrays_stay_as_they_were() -> None:
    last = ft.rank() == ft.size() - 1
    for factor in (1.0, 3.0):
        array = np.full(5 + last, 2.0)
        expect_refused_alike(
            lambda a=array, f=factor: ft.allreduce_(a, prescale_factor=f),
            ft.errors.CommunicationError,
        )
        assert (array == 2).all()
        group = [np.full(5 + last, 2.0), np.full(3, 4.0)]
        expect_refused_alike(
            lambda g=group, f=factor: ft.grouped_allreduce_(g, prescale_factor=f),
            ft.errors.CommunicationError,
        )
        assert (group[0] == 2).all()
        assert (group[1] == 4).all()


def case_others_in_flight_are_not_affected() -> None:
    size, rank = ft.size(), ft.rank()
    before = ft.allreduce_async(np.full(50_000, rank, np.float32), ft.Sum)
    odd = ft.allreduce_async(floats(4 + (rank == size - 1)))
    after = ft.allgather_async([rank])
    message = expect_refused_alike(lambda: ft.synchronize(odd), ft.errors.CommunicationError)
    assert "(4,)" in message
    assert "(5,)" in message
    assert ft.synchronize(after).tolist() == list(range(size))
    assert (ft.synchronize(before) == size * (size - 1) / 2).all()


def case_process_set() -> None:
    size = ft.size()
    members = ft.ProcessSet(list(range(size))[::-1])
    for _ in range(3):
        call = floats(4 + (ft.rank() == 0))
        message = expect_refused_alike(
            lambda a=call: ft.allreduce(a, process_set=members), ft.errors.CommunicationError
        )
        assert "average of float32 (5,)" in message
        assert (ft.allreduce(floats(2), ft.Sum, process_set=members) == size).all()
