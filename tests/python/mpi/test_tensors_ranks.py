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
