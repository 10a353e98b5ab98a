# SPDX-License-Identifier: Apache-2.0
"""Ranks that call different collectives: every rank raises the same, and the next collective works."""

from __future__ import annotations

import pytest
from launch import check, script

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

# Of each case what most ranks call, what one calls, and how the error names both.
CASES = """
import itertools
import numpy as np
import floodtide as ft
ft.init()
me, ranks = ft.rank(), range(ft.size())
floats = lambda *shape: np.full(shape, me + 1, np.float32)
RING = {"algorithm": "ring"}

CASES = [
    (lambda: ft.broadcast(floats(2)), lambda: ft.broadcast(np.full(2, me, np.int32)),
     "broadcast (float32 (2,) from rank 0)", "broadcast (int32 (2,) from rank 0)"),
    (lambda: ft.broadcast(floats(2, 3)), lambda: ft.broadcast(floats(3, 2)),
     "broadcast (float32 (2, 3) from rank 0)", "broadcast (float32 (3, 2) from rank 0)"),
    (lambda: ft.broadcast(floats(2)), lambda: ft.broadcast(floats(2), 1),
     "broadcast (float32 (2,) from rank 0)", "broadcast (float32 (2,) from rank 1)"),
    (lambda: ft.allreduce(floats(2, 3), ft.Sum, **RING), lambda: ft.allreduce(floats(3, 2), ft.Sum, **RING),
     "allreduce (sum of float32 (2, 3))", "allreduce (sum of float32 (3, 2))"),
    (lambda: ft.allreduce(floats(4), ft.Sum, **RING), lambda: ft.allreduce(np.ones(4, np.int64), ft.Sum, **RING),
     "allreduce (sum of float32 (4,))", "allreduce (sum of int64 (4,))"),
    (lambda: ft.allreduce(floats(4), ft.Sum, **RING), lambda: ft.allreduce(floats(5), ft.Sum, **RING),
     "allreduce (sum of float32 (4,))", "allreduce (sum of float32 (5,))"),
    (lambda: ft.allreduce(floats(4), ft.Sum, **RING), lambda: ft.allreduce(floats(4), ft.Average, **RING),
     "allreduce (sum of float32 (4,))", "allreduce (average of float32 (4,))"),
    (lambda: ft.allreduce(floats(4), ft.Min, **RING), lambda: ft.allreduce(floats(4), ft.Max, **RING),
     "allreduce (min of float32 (4,))", "allreduce (max of float32 (4,))"),
    (lambda: ft.allreduce(floats(4), ft.Sum, **RING), lambda: ft.allreduce(floats(4), ft.Sum, algorithm="mpi"),
     "allreduce (sum of float32 (4,), ring)", "allreduce (sum of float32 (4,), mpi)"),
    (lambda: ft.allreduce(floats(4), ft.Sum, **RING), lambda: ft.broadcast(floats(4)),
     "allreduce (sum of float32 (4,))", "broadcast (float32 (4,) from rank 0)"),
    (lambda: ft.barrier(), lambda: ft.allgather(floats(4)), "barrier", "allgather (of any lengths)"),
    (lambda: ft.allgather(floats(4)), lambda: ft.broadcast_object("x"),
     "allgather (of any lengths)", "broadcast (size of an object from rank 0)"),
    (lambda: ft.reduce_scatter(floats(4)), lambda: ft.allreduce(floats(4), ft.Sum, **RING),
     "reduce_scatter (average of float32 (4,))", "allreduce (sum of float32 (4,))"),
    (lambda: ft.grouped_allreduce([floats(1), floats(2)], ft.Sum, **RING),
     lambda: ft.grouped_allreduce([floats(1), np.ones(2)], ft.Sum, **RING),
     "allreduce (sum of 2 arrays: float32 (1,), float32 (2,))",
     "group (sum of 2 arrays: float32 (1,), float64 (2,))"),
    (lambda: ft.grouped_allgather([floats(1), floats(2)]), lambda: ft.grouped_allgather([floats(1)] * 3),
     "group (allgather of 2 arrays)", "group (allgather of 3 arrays)"),
    (lambda: ft.alltoall(floats(ft.size())), lambda: ft.allgather(floats(4)),
     "alltoall (of any lengths)", "allgather (of any lengths)"),
]

def said(call):
    try:
        value = call()
    except ft.errors.CommunicationError as error:
        assert error.agreed
        return str(error)
    raise SystemExit(f"rank {me} got {value} and no error")

def expected(odd, usual, other):
    groups = sorted([([odd], other), ([r for r in ranks if r != odd], usual)])
    names = [f"rank{'s' * (len(rows) > 1)} {', '.join(map(str, rows))}" for rows, _ in groups]
    return "; ".join(f"{name} called {text}" for name, (_, text) in zip(names, groups))

def works():
    assert ft.allreduce(np.float64([me]), ft.Sum, **RING) == sum(ranks)
"""


def test_every_rank_raises_the_same_and_the_next_collective_works() -> None:
    check(
        3,
        CASES
        + """
for repetition in range(6):
    for usual, other, usual_text, other_text in CASES:
        odd = repetition % ft.size()
        line = said(other if me == odd else usual)
        assert line.partition(" differs between ranks: ")[2] == expected(odd, usual_text, other_text), line
        if repetition % 2 == 0:
            works()
works()
""",
    )


def test_other_collectives_in_flight_and_process_sets_go_on() -> None:
    check(
        2,
        CASES
        + """
everyone = ft.ProcessSet(ranks)
for _ in range(5):
    array = floats(100)
    sums = [ft.allreduce_async(array, ft.Sum, algorithm="ring")]
    average = ft.allreduce_async(floats(3, 1 + me % 2), algorithm="ring", process_set=everyone)
    order = [ft.allreduce_async(floats(7), op, algorithm="ring") for op in (ft.Min, ft.Max)[:: 1 - 2 * (me % 2)]]
    sums.append(ft.allreduce_async(array, ft.Sum, algorithm="rabenseifner"))
    assert "differs between ranks" in said(lambda: ft.synchronize(average))
    for handle in reversed(order):
        assert "differs between ranks" in said(lambda: ft.synchronize(handle))
    total = sum(r + 1 for r in ranks)
    assert all((ft.synchronize(handle) == total).all() for handle in sums)
    assert ft.allreduce(np.float32([me + 1]), algorithm="ring", process_set=everyone) == np.float32(total) / len(ranks)
    in_place = floats(5)
    said(lambda: ft.allreduce_(in_place, [ft.Sum, ft.Min][me % 2], algorithm="ring"))
    assert (in_place == me + 1).all()
    works()
""",
    )


def test_averages_while_a_rank_has_joined_and_a_disagreement_beside_it() -> None:
    check(
        3,
        CASES
        + """
for _ in range(20):
    if me == 2:
        text = said(ft.join)
    else:
        assert (ft.allreduce(floats(4), algorithm="ring") == 1.5).all()
        text = said(lambda: ft.allreduce(floats(4 + me), algorithm="ring"))
    assert text.endswith(
        "rank 0 called allreduce (average of float32 (4,)); rank 1 called allreduce (average of float32 (5,)); "
        "rank 2 called join"
    ), text
    works()
    assert ft.join() == 2
""",
    )


def test_a_disagreement_that_nobody_catches_ends_the_job_though_more_is_in_flight() -> None:
    result = script(
        2,
        """
        import numpy as np, floodtide as ft
        ft.init()
        if ft.rank() == 0:
            handles = [ft.allreduce_async(np.ones(5), ft.Sum, algorithm="ring") for _ in range(3)]
            ft.synchronize(handles[0])
        ft.barrier()
        """,
        timeout_s=30,
    )

    assert result.status == 1
    assert result.stderr.count("Traceback") == 1
    assert (
        "differs between ranks: rank 0 called allreduce (sum of float64 (5,)); rank 1 called barrier"
        in result.stderr
    )


def test_a_disagreement_in_a_process_set_that_nobody_catches_ends_the_others_too() -> None:
    result = script(
        3,
        """
        import numpy as np, floodtide as ft
        ft.init()
        pair = ft.ProcessSet([1, 2])
        if ft.rank() > 0:
            ft.broadcast(np.ones(ft.rank()), 1, process_set=pair)
        ft.barrier()
        """,
        timeout_s=30,
    )

    assert result.status != 0
    assert (
        "differs between ranks: rank 0 called broadcast (float64 (1,) from rank 1)" in result.stderr
    )
