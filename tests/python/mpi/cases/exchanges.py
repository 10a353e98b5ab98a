# SPDX-License-Identifier: Apache-2.0
"""allgather, alltoall, and the same of objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from values import FLOATS, INTEGERS, Array, error_of, expect_refused_alike, values

import floodtide as ft
from floodtide.comm import world

TYPES = (*FLOATS, *INTEGERS, "bool", "uint16", "uint64", "complex128", "S5", ">i4", "i2,f8")
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 4))


def rows_of(rank: int, count: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Rows that tell which rank they are of, in any type."""
    bits = values(rank, (count, *shape), "int8").astype(np.int64) % 2 + 3 * rank
    return bits.astype(dtype)


def case_allgather_of_different_lengths() -> None:
    size, rank = ft.size(), ft.rank()
    lengths: list[Callable[[int], int]] = [
        lambda r: 4,
        lambda r: 17 * r + 1,
        lambda r: 0 if r == size - 1 else r + 2,  # one rank brings nothing
        lambda r: 0,
        lambda r: 30000 if r == 0 else 1,
    ]
    for dtype, shape in itertools.product(TYPES, SHAPES):
        for length in lengths[: 5 if dtype == "float64" else 4]:
            own = rows_of(rank, length(rank), shape, dtype)
            before = own.copy()
            got = ft.allgather(own)
            expected = np.concatenate([rows_of(r, length(r), shape, dtype) for r in range(size)])
            assert got.dtype == own.dtype
            assert got.shape == expected.shape
            assert (got == expected).all(), (dtype, shape)
            assert (own == before).all()
            assert got.flags.writeable


def case_allgather_of_rows_without_elements() -> None:
    got = ft.allgather(np.empty((ft.rank() + 1, 0, 3), np.float32))
    assert got.shape == (ft.size() * (ft.size() + 1) // 2, 0, 3)


def case_allgather_of_strided_and_converted_input() -> None:
    strided = np.arange(24, dtype=np.int64).reshape(4, 6).T + ft.rank()
    got = ft.allgather(strided)
    assert (got[6 * ft.rank() : 6 * ft.rank() + 6] == strided).all()
    assert ft.allgather([ft.rank()]).tolist() == list(range(ft.size()))


def case_bytes_travel_to_rank_0_only() -> None:
    size, rank = ft.size(), ft.rank()

    def own(r: int) -> list[Array]:
        return [np.full((r, 1000, 3), r, np.int32), np.arange(r + 1, dtype=np.float64)]

    before = world.current().traffic["bytes"]
    got = world.gather_bytes(own(rank))
    sent = world.current().traffic["bytes"] - before
    assert world.gather_bytes([np.empty(0)]).size == 0, "no rank brings anything"
    if rank == 0:
        assert got.tobytes() == b"".join(a.tobytes() for r in range(size) for a in own(r))
        assert sent < 1000, "rank 0 sends lengths only"
    else:
        assert got.size == 0
        assert sent < sum(a.nbytes for a in own(rank)) + 1000, "a block travels once"


def case_grouped_allgather() -> None:
    size, rank = ft.size(), ft.rank()
    arrays = [np.full((rank, 2), rank, np.float32), np.arange(3), np.zeros((0, 4), np.uint8)]
    handle = ft.grouped_allgather_async(arrays)
    first, second, third = ft.synchronize(handle)
    assert first.tolist() == [[r, r] for r in range(size) for _ in range(r)]
    assert second.tolist() == [0, 1, 2] * size
    assert third.shape == (0, 4)
    assert ft.grouped_allgather([]) == []


def case_kinds_that_differ_are_refused_by_all() -> None:
    last = ft.size() - 1
    if last == 0:
        return
    ours = ft.rank() == last
    for plain, odd in (
        (np.ones((2, 3), np.float32), np.ones((2, 3), np.float64)),
        (np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)),  # as many bytes
        (np.ones((2, 3)), np.ones((3, 2))),
        (np.ones((2, 3)), np.ones(6)),
        (np.ones((2, 3, 4)), np.ones((2, 4, 3))),
        (np.ones((2, 3), "<f4"), np.ones((2, 3), ">f4")),
    ):
        for call in (ft.allgather, lambda array: ft.alltoall(array, even_splits(array))):
            message = expect_refused_alike(
                lambda c=call, p=plain, o=odd: c(o if ours else p), ft.errors.ShapeError
            )
            assert "expected arrays that differ in the length of axis 0 only" in message
            assert f"{plain.dtype} of shape {plain.shape} on rank 0" in message
            assert f"{odd.dtype} of shape {odd.shape} on rank {last}" in message


def even_splits(array: Array) -> list[int]:
    share, rest = divmod(len(array), ft.size())
    return [share + (r < rest) for r in range(ft.size())]


def case_arrays_that_cannot_travel_are_refused_by_all() -> None:
    last = ft.size() - 1
    for odd, text in (
        (np.float32(3), "expected an array with at least one axis, got float32 of shape ()"),
        (np.array([None]), "an array of Python objects cannot travel between ranks"),
    ):
        for call in (ft.allgather, lambda array: ft.alltoall(array, np.zeros(ft.size(), int))):
            message = expect_refused_alike(
                lambda c=call, o=odd: c(o if ft.rank() == last else np.zeros((0, 2), np.float32)),
                ft.errors.InvalidArgumentError,
            )
            assert text in message
            assert message.endswith(f"(on rank {last})")


def case_alltoall_in_equal_parts() -> None:
    size, rank = ft.size(), ft.rank()
    for dtype, shape, share in itertools.product(TYPES, SHAPES, (0, 1, 5)):
        got = ft.alltoall(rows_of(rank, share * size, shape, dtype))
        blocks = [
            rows_of(r, share * size, shape, dtype)[share * rank : share * (rank + 1)]
            for r in range(size)
        ]
        assert isinstance(got, np.ndarray)
        assert got.dtype == np.dtype(dtype)
        assert (got == np.concatenate(blocks)).all()


def exchange(splits_of: Callable[[int], list[int]], shape: tuple[int, ...], dtype: str) -> None:
    """An alltoall by splits, compared with the blocks that every rank cuts."""
    size, rank = ft.size(), ft.rank()
    splits = splits_of(rank)
    own = rows_of(rank, sum(splits), shape, dtype)
    result = ft.alltoall(own, splits=splits)
    assert isinstance(result, tuple)
    got, received = result
    expected = []
    for other in range(size):
        theirs = splits_of(other)
        begin = sum(theirs[:rank])
        rows = rows_of(other, sum(theirs), shape, dtype)
        expected.append(rows[begin : begin + theirs[rank]])
    assert (got == np.concatenate(expected)).all()
    assert got.shape[1:] == shape
    assert received.tolist() == [len(block) for block in expected]


def case_alltoall_in_uneven_parts() -> None:
    size = ft.size()
    ways: list[Callable[[int], list[int]]] = [
        lambda r: [r + to for to in range(size)],
        lambda r: [0] * size,
        lambda r: [0] * size if r == 0 else list(range(size)),  # one sends nothing
        lambda r: [0 if to == size - 1 else r + 1 for to in range(size)],  # one receives nothing
        lambda r: [100 * (to == (r + 1) % size) for to in range(size)],  # all to the next
        lambda r: [9 * (to == r) for to in range(size)],  # all to oneself
        lambda r: [40000 * (r == 0), *[1] * (size - 1)],
    ]
    for dtype, shape, way in itertools.product(("float32", "uint8", "bool", "int64"), SHAPES, ways):
        exchange(way, shape, dtype)
    exchange(ways[0], (0, 2), "float64")  # rows without elements
    own = np.arange(2 * size)[::2]
    assert ft.alltoall(own, np.ones(size, np.int32))[0].tolist() == [2 * ft.rank()] * size


def case_wrong_splits_are_refused_by_all() -> None:
    size, last = ft.size(), ft.size() - 1
    array = np.zeros((2 * size, 3), np.float32)
    for wrong, text in (
        ([2] * (size - 1), f"got {size - 1} splits, expected one for each of the {size} ranks"),
        ([3] * size, f"the splits add up to more than the {2 * size} rows of the array"),
        ([1] * size, f"the splits add up to {size}, expected the {2 * size} rows of the array"),
        ([-1] + [2] * last, "a split is -1, expected at least 0"),
        ([2**63 - 1] * size, "the splits add up to more than"),
        ([0.5] * size, "expected a list of whole numbers as splits"),
        ([[2] * size], "expected a list of whole numbers as splits"),
        ("no", "expected a list of whole numbers as splits"),
    ):
        splits = wrong if ft.rank() == last else [2] * size
        message = expect_refused_alike(
            lambda s=splits: ft.alltoall(array, s), ft.errors.InvalidArgumentError
        )
        assert text in message
        assert message.endswith(f"(on rank {last})")
    if size > 1:
        rows = 1 if ft.rank() == last else size
        message = expect_refused_alike(
            lambda: ft.alltoall(np.zeros(rows)), ft.errors.InvalidArgumentError
        )
        assert f"1 rows cannot be cut evenly for {size} ranks; pass splits" in message


def case_process_sets() -> None:
    size, rank = ft.size(), ft.rank()
    members = ft.ProcessSet(list(range(size))[::-1][: max(1, size - 1)])  # another order
    if not members.included():
        for call in (ft.allgather, ft.alltoall, ft.allgather_object):
            message = error_of(lambda c=call: c(np.ones(2), process_set=members))
            assert f"rank {rank} is not in the process set" in message
        ft.barrier()
        return
    assert ft.allgather([rank], members).tolist() == list(members.ranks)
    assert ft.allgather_object(rank, members) == list(members.ranks)
    got, counts = ft.alltoall(
        np.full(members.size(), rank), [1] * members.size(), process_set=members
    )
    assert got.tolist() == list(members.ranks)
    assert counts.tolist() == [1] * members.size()
    ft.barrier()


def case_objects() -> None:
    size, rank = ft.size(), ft.rank()
    objects = [{"rank": r, "text": "x" * (1000 * r), 3: [None, np.arange(r)]} for r in range(size)]
    got = ft.allgather_object(objects[rank])
    assert [str(one) for one in got] == [str(one) for one in objects]
    assert ft.allgather_object(None) == [None] * size
    for root in range(size):
        assert str(ft.broadcast_object(objects[rank], root)) == str(objects[root])


def case_ranks_that_have_joined_cannot_exchange() -> None:
    size = ft.size()
    if size > 1:
        assert ft.join() == size - 1
