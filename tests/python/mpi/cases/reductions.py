# SPDX-License-Identifier: Apache-2.0
"""allreduce, reduce_scatter, their groups and their forms in place."""

from __future__ import annotations

import itertools

import numpy as np
from values import (
    FLOATS,
    INTEGERS,
    SHAPES,
    Array,
    all_values,
    error_of,
    expect_reduced,
    expect_same_bits,
    values,
)

import floodtide as ft

OPS = (ft.Sum, ft.Min, ft.Max, ft.Product)
NOT_IN_LIBRARIES = ("float16", "int8", "uint8")


def own(shape: tuple[int, ...], dtype: str) -> Array:
    return values(ft.rank(), shape, dtype)


def case_every_type_operation_and_number_of_axes() -> None:
    for dtype, shape, op in itertools.product(FLOATS + INTEGERS, SHAPES, OPS):
        array = own(shape, dtype)
        before = array.copy()
        total = ft.allreduce(array, op, algorithm="ring")
        assert (array == before).all(), "the input was changed"
        expect_reduced(total, all_values(shape, dtype), op)
        expect_same_bits(total)


def case_every_algorithm_has_every_type() -> None:
    table = "recursive_doubling:0-64,ring:65-"  # 33 values of one byte, and larger ones
    names = (*ft.allreduce_algorithms(), table)
    for dtype, algorithm, op in itertools.product(FLOATS + INTEGERS, names, OPS):
        if algorithm == "mpi" and dtype in NOT_IN_LIBRARIES:
            continue
        total = ft.allreduce(own((33,), dtype), op, algorithm=algorithm)
        expect_reduced(total, all_values((33,), dtype), op)
        expect_same_bits(total)


def case_types_that_libraries_do_not_reduce_alike() -> None:
    if ft.size() == 1:
        return
    for dtype in NOT_IN_LIBRARIES:
        call = lambda t=dtype: ft.allreduce(own((3,), t), ft.Sum, algorithm="mpi")  # noqa: E731
        assert f"MPI libraries have no {dtype}" in error_of(call, ft.errors.UnsupportedError)
        ft.barrier()


def case_average_of_floating_point() -> None:
    for dtype, shape in itertools.product(FLOATS, SHAPES):
        mean = ft.allreduce(own(shape, dtype))
        stack = all_values(shape, dtype)
        expect_reduced(mean, stack, ft.Sum, scalings=1, factor=1 / np.longdouble(ft.size()))
        assert (mean == ft.allreduce(own(shape, dtype), ft.Sum) / stack.dtype.type(ft.size())).all()
    for dtype in INTEGERS:
        message = error_of(lambda t=dtype: ft.allreduce(np.ones(3, t)))
        assert f"Average of {dtype}, expected floating point" in message
    ft.barrier()


def case_integers_wrap_around() -> None:
    size = ft.size()
    for dtype in INTEGERS:
        largest = np.iinfo(dtype).max
        total = ft.allreduce(np.full(3, largest, dtype), ft.Sum)
        assert (total == np.add.reduce(np.full((size, 3), largest, dtype), dtype=dtype)).all()
        assert size == 1 or total[0] < largest
        power = ft.allreduce(np.full(3, 3, dtype), ft.Product)
        assert (power == np.multiply.reduce(np.full((size, 3), 3, dtype), dtype=dtype)).all()


def case_float16_overflows_to_infinity_unless_scaled_before() -> None:
    size = ft.size()
    large = np.full(5, 60000, np.float16)
    total = ft.allreduce(large, ft.Sum)
    assert (total == (np.inf if size > 1 else 60000)).all()
    scaled = ft.allreduce(large, ft.Sum, prescale_factor=1 / size)
    assert np.abs(scaled.astype(np.float64) - 60000).max() <= 60000 * size * 2.0**-11
    assert np.isnan(ft.allreduce(np.float16([np.nan if ft.rank() == 0 else 1]), ft.Max)).all()


def case_scaling_before_and_after() -> None:
    size = ft.size()
    for dtype, (before, after) in itertools.product(FLOATS, ((0.3, 1), (1, 0.7), (0.3, -1.7))):
        # A factor is rounded to the type that it is applied in, then the product: two roundings.
        scalings = 2 * ((before != 1) + (after != 1))
        stack = all_values((4, 5), dtype)
        for op, extra, divisor in ((ft.Sum, 0, 1), (ft.Average, 1, size)):
            got = ft.allreduce(
                own((4, 5), dtype), op, prescale_factor=before, postscale_factor=after
            )
            factor = np.longdouble(before) * np.longdouble(after) / divisor
            expect_reduced(got, stack, ft.Sum, scalings=scalings + extra, factor=factor)
    for dtype in ("int32", "int64", "uint8"):
        mine = np.arange(7, dtype=dtype) + np.array(ft.rank(), dtype)
        got = ft.allreduce(mine, ft.Sum, prescale_factor=0.6, postscale_factor=1.5)
        parts = [np.trunc(0.6 * (np.arange(7) + r)) for r in range(size)]
        assert (got == np.trunc(1.5 * np.sum(parts, axis=0))).all(), dtype  # cut towards zero
    # Min and Max are scaled alike; the order matters with a negative factor.
    assert ft.allreduce(np.float32([ft.rank()]), ft.Max, prescale_factor=-2) == 0
    assert ft.allreduce(np.float32([ft.rank()]), ft.Max, postscale_factor=-2) == -2 * (size - 1)
    assert ft.allreduce(np.float64([2]), ft.Product, prescale_factor=0.5) == 1
    limits = ft.allreduce(np.int32([2**30, -(2**30)]), ft.Max, postscale_factor=1e6)
    assert limits.tolist() == [2**31 - 1, -(2**31)]
    widest = ft.allreduce(np.int64([2**62]), ft.Max, prescale_factor=1e6)
    assert widest[0] == np.int64(2**63 - 1024)  # the largest float64 that int64 has
    for name in ("prescale_factor", "postscale_factor"):
        for wrong in (np.nan, np.inf, "2", None):
            message = error_of(lambda n=name, w=wrong: ft.allreduce(np.ones(1), **{n: w}))
            assert f"allreduce: {name} is {wrong!r}, expected a finite number" == message
    ft.barrier()


def case_scalars_and_empty_arrays() -> None:
    size = ft.size()
    total = ft.allreduce(np.float32(3), ft.Sum)
    assert total.shape == ()
    assert total == 3 * size
    for shape in ((0,), (0, 3), (3, 0, 2)):
        for dtype in FLOATS + INTEGERS:
            assert ft.allreduce(np.empty(shape, dtype), ft.Sum).shape == shape
    assert ft.allreduce([1.0, 2.0], ft.Sum).tolist() == [size, 2 * size]
    strided = np.arange(20, dtype=np.float64).reshape(4, 5)[::2, ::-1]
    assert (ft.allreduce(strided) == strided).all()


def case_types_that_cannot_be_reduced() -> None:
    for array in (
        np.ones(3, bool),
        np.ones(3, np.complex64),
        np.ones(3, np.uint64),
        np.ones(3, ">f4"),
        np.array(["a"]),
    ):
        for call in (ft.allreduce, ft.allreduce_, ft.reduce_scatter):
            message = error_of(lambda a=array, c=call: c(a, ft.Sum, prescale_factor=2))
            assert "expected float32, float64, int64, int32, uint8, int8 or float16" in message
            assert f"got {array.dtype}" in message
    assert "an array of Python objects cannot travel between ranks" in error_of(
        lambda: ft.allreduce(np.array([None]), ft.Sum)
    )
    assert "expected Sum, Average, Min, Max or Product" in error_of(
        lambda: ft.allreduce(np.ones(3), "sum")
    )
    ft.barrier()


def case_in_place() -> None:
    size = ft.size()
    for dtype, shape in itertools.product(FLOATS + INTEGERS, SHAPES):
        array = own(shape, dtype)
        view = array.reshape(-1)
        assert ft.allreduce_(array, ft.Sum) is array
        expect_reduced(array, all_values(shape, dtype), ft.Sum)
        assert (view == array.reshape(-1)).all()
    array = np.float32([1, 2])
    handle = ft.allreduce_async_(array, prescale_factor=2, postscale_factor=0.25)
    assert ft.synchronize(handle) is array
    assert array.tolist() == [0.5, 1]
    # Two halves of one array at the same time.
    whole = np.full(2000, ft.rank(), np.float64)
    handles = [ft.allreduce_async_(half, ft.Sum) for half in (whole[:1000], whole[1000:])]
    for handle in reversed(handles):
        ft.synchronize(handle)
    assert (whole == size * (size - 1) / 2).all()


def case_in_place_of_what_cannot_be_written() -> None:
    read_only = np.ones(3)
    read_only.flags.writeable = False
    for call, name in (
        (ft.allreduce_, "allreduce_"),
        (ft.broadcast_, "broadcast_"),
        (lambda array: ft.grouped_allreduce_([np.ones(2), array]), "grouped_allreduce_"),
    ):
        start = f"{name}: expected a writable C-contiguous NumPy array to change in place, got "
        assert error_of(lambda c=call: c(read_only)) == start + "a read-only one, or a negated view"
        strided = np.ones((4, 4))[:, ::2]
        assert error_of(lambda c=call, s=strided: c(s)) == start + "one that is not C-contiguous"
        assert error_of(lambda c=call: c([1.0])) == start + "list"
    ft.barrier()


def case_groups_of_mixed_types() -> None:
    shapes = [(3, 4), (), (0, 2), (5,), (2, 1, 3), (17,)]
    types = ["float32", "int64", "float32", "float16", "int64", "float32"]
    arrays = [own(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)]
    for op in OPS:
        results = ft.grouped_allreduce(arrays, op)
        assert len(results) == len(arrays)
        for result, shape, dtype in zip(results, shapes, types, strict=True):
            expect_reduced(result, all_values(shape, dtype), op)
    floats = [array for array in arrays if array.dtype.kind == "f"]
    one = "recursive_doubling"  # a table may choose others for the longer group
    for mean, array in zip(ft.grouped_allreduce(floats, algorithm=one), floats, strict=True):
        assert (mean == ft.allreduce(array, algorithm=one)).all()
    written = [array.copy() for array in arrays]
    assert ft.grouped_allreduce_(written, ft.Sum)[0] is written[0]
    for array, total in zip(written, ft.grouped_allreduce(arrays, ft.Sum), strict=True):
        assert (array == total).all()
    scaled = ft.grouped_allreduce(floats, prescale_factor=2.0, postscale_factor=0.5)
    for array, mean in zip(scaled, ft.grouped_allreduce(floats), strict=True):
        assert (array == mean).all()  # by powers of two: nothing is rounded
    assert ft.grouped_allreduce([]) == []
    strided = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert (ft.grouped_allreduce([strided])[0] == strided).all()
    assert "Average of int64" in error_of(lambda: ft.grouped_allreduce(arrays))
    ft.barrier()


def case_groups_travel_together() -> None:
    from floodtide.comm import world

    arrays = [np.ones(10, np.float32) for _ in range(30)]
    ft.allreduce(arrays[0], ft.Sum, algorithm="ring")
    before = world.current().traffic["messages"]
    ft.grouped_allreduce(arrays, ft.Sum, algorithm="ring")
    assert world.current().traffic["messages"] - before == 2 * (ft.size() - 1)


def case_reduce_scatter_of_every_type() -> None:
    size, rank = ft.size(), ft.rank()
    for dtype, op, rows in itertools.product(FLOATS + INTEGERS, OPS, (2 * size, 7, 1, 0)):
        shape = (rows, 2, 3)
        share, longer = divmod(rows, size)
        begin = share * rank + min(rank, longer)
        end = begin + share + (rank < longer)
        part = ft.reduce_scatter(own(shape, dtype), op)
        expect_reduced(part, all_values(shape, dtype)[:, begin:end], op)
    mean = ft.reduce_scatter(
        np.full((size, 2), rank, np.float32), prescale_factor=4, postscale_factor=0.5
    )
    assert (mean == np.float32(2 * (size - 1) / 2)).all()
    parts = ft.grouped_reduce_scatter([np.ones((size, 2)), np.arange(size)], ft.Sum)
    assert parts[0].tolist() == [[size, size]]
    assert parts[1].tolist() == [rank * size]
    handle = ft.reduce_scatter_async(np.ones(size), ft.Sum)
    assert ft.synchronize(handle).tolist() == [size]
    message = error_of(lambda: ft.reduce_scatter(np.float32(1)))
    assert message == "reduce_scatter: expected an array with at least one axis"
    ft.barrier()


def case_bf16_wire_with_scaling() -> None:
    got = ft.allreduce(np.float32([1, 2]), wire="bf16", prescale_factor=2, postscale_factor=0.5)
    assert got.tolist() == [1, 2]
    message = error_of(lambda: ft.allreduce(np.float16([1]), wire="bf16"))
    assert "bf16 is for float32, got float16" in message
    ft.barrier()


def case_process_sets_that_overlap() -> None:
    size, rank = ft.size(), ft.rank()
    first = ft.ProcessSet(range(size - 1)) if size > 1 else ft.ProcessSet([0])
    second = ft.ProcessSet(range(1, size)) if size > 1 else ft.ProcessSet([0])
    for members in (first, second):
        if not members.included():
            message = error_of(lambda m=members: ft.allreduce(np.ones(2), process_set=m))
            assert f"rank {rank} is not in the process set" in message
            continue
        for dtype in ("float16", "int32"):
            total = ft.allreduce(own((5,), dtype), ft.Product, process_set=members)
            expect_reduced(total, all_values((5,), dtype, list(members.ranks)), ft.Product)
        mean = ft.allreduce(np.float32([rank]), process_set=members)
        assert mean == np.float32(sum(members.ranks)) / np.float32(members.size())
        group = ft.grouped_allreduce([np.ones(2), np.int32([rank])], ft.Sum, process_set=members)
        assert group[1] == sum(members.ranks)
        share = ft.reduce_scatter(np.ones(members.size()), ft.Sum, process_set=members)
        assert share.tolist() == [members.size()]
    ft.barrier()


def case_ranks_that_have_joined_change_nothing() -> None:
    size = ft.size()
    if ft.rank() > 0:
        ft.join()
        return
    for dtype, op in itertools.product(FLOATS + INTEGERS, OPS):
        array = own((9,), dtype)
        assert (ft.allreduce(array, op) == array).all(), (dtype, op)
        assert (ft.allreduce(array, op, algorithm="rabenseifner") == array).all(), (dtype, op)
    assert (ft.allreduce(np.float16([3])) == 3).all()
    group = ft.grouped_allreduce([np.float32([5]), np.float64([6])])
    assert group[0] == 5
    assert group[1] == 6
    assert ft.join() == 0 or size == 1
