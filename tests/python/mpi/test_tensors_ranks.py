# SPDX-License-Identifier: Apache-2.0
"""Collectives take tensors of another library, and return such tensors, without a copy."""

from __future__ import annotations

import pytest
from launch import check

pytestmark = pytest.mark.mpi

LIBRARY = """
import sys
import types
import numpy as np
import floodtide as ft

class Tensor:  # of a library that has only what DLPack needs
    __module__ = "library"
    def __init__(self, array):
        self.array = array
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

sys.modules["library"] = types.SimpleNamespace(from_dlpack=Tensor)
ft.init()
rank = ft.rank()

def tensor(*values):
    return Tensor(np.float32(values))
"""


def test_results_are_tensors() -> None:
    check(
        2,
        LIBRARY
        + """
made = {
    "allreduce": ft.allreduce(tensor(rank, 2), ft.Sum),
    "allreduce_async": ft.synchronize(ft.allreduce_async(tensor(rank, 2), ft.Sum)),
    "grouped_allreduce": ft.grouped_allreduce([tensor(5), tensor(rank, 2)], ft.Sum)[1],
    "reduce_scatter": ft.reduce_scatter(tensor(1, 4), ft.Sum),
    "grouped_reduce_scatter": ft.grouped_reduce_scatter((tensor(1, 4),), ft.Sum)[0],
    "allgather": ft.allgather(tensor(rank)),
    "grouped_allgather": ft.grouped_allgather([tensor(rank)])[0],
    "alltoall": ft.alltoall(tensor(5, 6), splits=[1, 1])[0],
    "broadcast": ft.broadcast(tensor(rank), root_rank=1),
}
assert {type(one) for one in made.values()} == {Tensor}
shares = [2, 8][rank : rank + 1]
expected = [[1, 4]] * 3 + [shares] * 2 + [[0, 1]] * 2 + [[5 + rank] * 2, [1]]
assert [one.array.tolist() for one in made.values()] == expected, made
assert type(ft.allreduce(np.ones(3))) is np.ndarray
""",
    )


def test_a_tensor_is_changed_in_place_and_returned() -> None:
    check(
        2,
        LIBRARY
        + """
one, other = tensor(rank, 1), tensor(rank)
assert ft.allreduce_(one, ft.Sum, postscale_factor=2.0) is one
assert one.array.tolist() == [2, 4]
assert all(a is b for a, b in zip(ft.grouped_allreduce_([one, other], ft.Sum), [one, other]))
assert (one.array.tolist(), other.array.tolist()) == ([4, 8], [1])
waiting = ft.allreduce_async_(one, ft.Sum, prescale_factor=0.5)
assert ft.synchronize(waiting) is ft.synchronize(waiting) is one
assert one.array.tolist() == [4, 8]
own = tensor(rank)
assert ft.broadcast_(own, 1) is own
assert own.array.tolist() == [1]
ft.broadcast_parameters({"weights": one})
""",
    )


def test_groups_are_any_iterables() -> None:
    check(
        2,
        LIBRARY
        + """
named = {"a": tensor(rank), "b": tensor(1, 2)}
for group in (lambda: named.values(), lambda: (one for one in named.values())):
    made = [
        ft.grouped_allreduce(group(), ft.Sum),
        ft.grouped_allgather(arrays=group()),
        ft.grouped_reduce_scatter(group(), ft.Sum),
    ]
    assert {type(one) for one in sum(made, [])} == {Tensor}
    assert made[1][1].array.tolist() == [1, 2, 1, 2]
assert ft.grouped_allreduce_(named.values(), ft.Max)[0] is named["a"]
assert named["a"].array.tolist() == [1]
try:
    ft.grouped_allreduce(3)
except ft.errors.InvalidArgumentError as error:
    assert "arrays is int, expected several arrays" in str(error)
""",
    )


def test_an_array_that_the_library_does_not_take_stays_an_array() -> None:
    check(
        2,
        LIBRARY
        + """
sys.modules["library"].from_dlpack = lambda array: Tensor(np.from_dlpack(array))
several = ft.grouped_allgather([np.zeros(1, "f4,i4"), tensor(1)])
assert [type(one) for one in several] == [np.ndarray, Tensor]
""",
    )


def test_parameters_are_a_mapping_or_pairs_and_may_need_gradients() -> None:
    check(
        2,
        LIBRARY
        + """
class Parameter(Tensor):
    def __init__(self, array):
        self.array = array
    def detach(self):
        return Tensor(self.array)
    def __dlpack__(self, **options):
        raise BufferError("it requires a gradient")

class Negated(Tensor):
    is_neg, resolve_conj = lambda self: True, lambda self: self
    def resolve_neg(self):
        return Tensor(-self.array)

assert ft.allreduce(Negated(np.ones(2)), ft.Sum).array.tolist() == [-2, -2]
weights, biases = Parameter(np.full((2, 3), float(rank))), np.full(2, rank)
ft.broadcast_parameters(iter([("weights", weights), ("biases", biases)]), root_rank=1)
assert (weights.array == 1).all() and (biases == 1).all()
for wrong, message in (
    ({"a": [1.0]}, "broadcast_parameters: a: expected a writable .*, got list"),
    ({"a": np.ones((2, 3)).T}, "broadcast_parameters: a: expected a writable .* not C-contiguous"),
    ({"a": Negated(np.ones(2))}, "broadcast_parameters: a: .*, or a negated view"),
    ([weights], "broadcast_parameters: got list, expected {name: array}, or pairs"),
    ([(biases, weights)], "broadcast_parameters: got list, expected {name: array}, or pairs"),
):
    try:
        ft.broadcast_parameters(wrong)
        raise AssertionError(message)
    except ft.errors.InvalidArgumentError as error:
        import re
        assert re.match(message, str(error)), error
""",
    )


def test_explicit_byte_order_and_unknown_arguments() -> None:
    check(
        2,
        LIBRARY
        + """
for kind in ("f4", "f8", "i8", "u1"):
    native = np.dtype(kind).newbyteorder(">").newbyteorder(sys.byteorder)
    array = np.full(4, rank + 1).astype(native)
    assert array.dtype.byteorder in "<>|"
    assert ft.allreduce(array, ft.Sum).tolist() == [3] * 4
    assert ft.reduce_scatter(array, ft.Sum).tolist() == [3] * 2
    assert ft.allreduce_(array, ft.Max).tolist() == [2] * 4
for wrong in ("name", "average"):
    try:
        ft.allreduce(np.ones(2), **{wrong: "x"})
        raise AssertionError(wrong)
    except ft.errors.InvalidArgumentError as error:
        assert str(error).startswith(f"allreduce: has no argument {wrong}, expected "), error
""",
    )
