# SPDX-License-Identifier: Apache-2.0
"""Collectives in flight: of every kind, in any order, with any sizes."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from values import error_of

import floodtide as ft


def start(kind: str, rows: int, number: int) -> tuple[Any, Callable[[Any], bool]]:
    """A collective whose result every rank can foresee: the handle, and a check of its result."""
    size, rank = ft.size(), ft.rank()
    ranks = range(size)
    total = size * (size - 1) // 2
    if kind == "allreduce":
        handle = ft.allreduce_async(np.full((rows, 2), rank, np.float32), ft.Sum)
        return handle, lambda got: got.shape == (rows, 2) and (got == total).all()
    if kind == "in place":
        own = np.full(rows, rank, np.int32)
        return ft.allreduce_async_(own, ft.Max), lambda got: got is own and (own == size - 1).all()
    if kind == "group":
        arrays = [np.full(rows, rank, np.uint8), np.full((2, rows), rank, np.float16)]
        handle = ft.grouped_allreduce_async(arrays, ft.Sum)
        return handle, lambda got: all((array == total).all() for array in got)
    if kind == "reduce_scatter":
        handle = ft.reduce_scatter_async(np.full((rows, 3), rank, np.float64), ft.Sum)
        share = rows // size + (rank < rows % size)
        return handle, lambda got: got.shape == (share, 3) and (got == total).all()
    if kind == "broadcast":
        handle = ft.broadcast_async(np.full(rows, rank), number % size)
        return handle, lambda got: (got == number % size).all()
    if kind == "allgather":
        handle = ft.allgather_async(np.full((rows + rank) % 7, rank))
        return handle, lambda got: got.tolist() == [r for r in ranks for _ in range((rows + r) % 7)]
    splits = [(rows + rank + to) % 5 for to in ranks]
    handle = ft.alltoall_async(np.repeat(np.arange(size) + 10 * rank, splits), splits)
    counts = [(rows + r + rank) % 5 for r in ranks]
    expected = [10 * r + rank for r in ranks for _ in range(counts[r])]
    return handle, lambda got: got[0].tolist() == expected and got[1].tolist() == counts


KINDS = ("allreduce", "in place", "group", "reduce_scatter", "broadcast", "allgather", "alltoall")


# All ranks draw the same examples: the seed is the function's name, and nothing depends on time.
@settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=15,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.one_of(st.integers(0, 9), st.integers(0, 5000))),
        min_size=1,
        max_size=25,
    ),
    st.integers(0, 2**32 - 1),
)
def case_any_kinds_and_sizes_complete_in_any_order(calls: list[tuple[str, int]], seed: int) -> None:
    started = [(kind, *start(kind, rows, i)) for i, (kind, rows) in enumerate(calls)]
    shuffled = random.Random(seed + ft.rank())  # another order on each rank
    shuffled.shuffle(started)
    for kind, handle, fits in started:
        while shuffled.random() < 0.5 and not ft.poll(handle):
            pass
        assert fits(ft.synchronize(handle)), kind
        assert ft.poll(handle)


def case_many_in_flight() -> None:
    started = [(kind, *start(kind, 11 + i, i)) for i in range(60) for kind in KINDS]
    for kind, handle, fits in reversed(started):
        assert fits(ft.synchronize(handle)), kind


def case_too_many_in_flight_say_so() -> None:
    everyone = ft.ProcessSet(range(ft.size()))
    handles: list[Any] = []

    def start(count: int) -> None:
        while len(handles) < count:
            handles.append(ft.allreduce_async(np.ones(1), ft.Sum, algorithm="ring"))

    if ft.size() > 1 and ft.rank() == 0:  # none completes: the others have not begun
        message = error_of(lambda: start(5000), ft.errors.OutOfRangeError)
        assert "1024 collectives are in flight" in message
        assert len(handles) == 1024
    ft.barrier(everyone)
    start(1024)
    for handle in handles:
        assert ft.synchronize(handle) == ft.size()


def case_handle_used_twice() -> None:
    for i, kind in enumerate(KINDS):
        handle, fits = start(kind, 12, i)
        first = ft.synchronize(handle)
        again = ft.synchronize(handle)
        assert first is again
        assert fits(again)
        assert ft.poll(handle)


def case_handle_that_is_dropped() -> None:
    for i, kind in enumerate(KINDS):
        start(kind, 100, i)
    gc.collect()
    assert ft.allreduce(np.float32([1]), ft.Sum) == ft.size()


def case_input_may_change_where_it_is_copied() -> None:
    array = np.full(100_000, ft.rank(), np.float32)
    handles = [ft.allreduce_async(array, ft.Sum), ft.broadcast_async(array, ft.size() - 1)]
    handles.append(ft.reduce_scatter_async(array, ft.Max))
    array[...] = -1
    assert (ft.synchronize(handles[0]) == ft.size() * (ft.size() - 1) / 2).all()
    assert (ft.synchronize(handles[1]) == ft.size() - 1).all()
    assert (ft.synchronize(handles[2]) == ft.size() - 1).all()


def case_input_stays_alive() -> None:
    handle = ft.allgather_async(np.full(200_000, ft.rank(), np.float64))
    other = ft.alltoall_async(np.full(1000 * ft.size(), ft.rank(), np.float64))
    gc.collect()
    junk = [np.full(200_000, -1.0) for _ in range(5)]
    assert (ft.synchronize(handle) == np.repeat(np.arange(ft.size()), 200_000)).all()
    assert (ft.synchronize(other) == np.repeat(np.arange(ft.size()), 1000)).all()
    assert len(junk) == 5


def case_several_process_sets_at_the_same_time() -> None:
    size, rank = ft.size(), ft.rank()
    sets = [ft.ProcessSet(range(n)) for n in range(1, size + 1)]
    handles = [
        (members, ft.allreduce_async(np.float32([rank]), ft.Sum, process_set=members))
        for members in sets
        if members.included()
    ]
    everyone = ft.allgather_async([rank])
    for members, handle in reversed(handles):
        assert ft.synchronize(handle) == sum(members.ranks)
    assert ft.synchronize(everyone).tolist() == list(range(size))
