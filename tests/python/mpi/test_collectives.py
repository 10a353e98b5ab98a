# SPDX-License-Identifier: Apache-2.0
"""Collectives on NumPy arrays between processes."""

from __future__ import annotations

import pytest
from launch import check

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_launched_processes_become_ranks_of_one_job(ranks: int) -> None:
    printed = check(
        ranks,
        """
        import floodtide as ft
        ft.init()
        local = [ft.local_rank(), ft.local_size()]
        numbers = ft.allgather([[ft.rank(), ft.size(), *local, ft.cross_rank(), ft.cross_size()]])
        if ft.rank() == 0:
            print(numbers.tolist())
        """,
    )

    assert printed.strip() == str([[r, ranks, r, ranks, 0, 1] for r in range(ranks)])


def test_rank_that_joined_answers_the_others() -> None:
    check(
        3,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        steps = [5, 2, 3][ft.rank()]
        for step in range(steps):
            active = [r for r in range(3) if step < [5, 2, 3][r]]
            average = ft.allreduce(np.float32([ft.rank(), 1]), algorithm="two_level" if step > 2 else None)
            assert average.tolist() == [np.float32(sum(active)) / np.float32(len(active)), 1], step
            assert ft.allreduce(np.int64([ft.rank()]), op=ft.Min) == min(active)
            assert ft.broadcast_object("x", 0) == "x"
        assert ft.join() == 0
        assert ft.allreduce(np.float32([1]), op=ft.Sum) == 3
        assert ft.join() == 2
        fresh = ft.ProcessSet([2, 1, 0])  # its nodes are not known yet
        if ft.rank() != 1:
            for algorithm in ("two_level", "mpi"):
                ones = np.ones(1000, np.float32)
                assert (ft.allreduce(ones, ft.Sum, algorithm=algorithm, process_set=fresh) == 2).all()
        assert ft.join(fresh) == 0
        """,
    )


def test_what_needs_a_joined_ranks_values_is_an_error_on_all_ranks() -> None:
    check(
        2,
        """
        import floodtide as ft
        ft.init()
        try:
            ft.join() if ft.rank() == 1 else ft.allgather([1])
        except ft.errors.UnsupportedError as error:
            assert "needs values of rank 1, which has joined" in str(error), error
            assert error.agreed
        else:
            raise SystemExit("no error")
        assert ft.allgather([ft.rank()]).tolist() == [0, 1]
        """,
    )


def test_process_sets_reduce_apart_from_each_other() -> None:
    check(
        3,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        sets = [ft.ProcessSet([2, 0]), ft.ProcessSet([1])]
        own, other = sets if ft.rank() != 1 else sets[::-1]
        assert own.included() and not other.included() and own.size() == len(own.ranks)
        assert own.rank() == own.ranks.index(ft.rank())
        handle = ft.allreduce_async(np.float32([ft.rank()]), op=ft.Sum, process_set=own)
        assert ft.allreduce(np.float32([1]), op=ft.Sum) == 3
        assert ft.synchronize(handle) == sum(own.ranks)
        if own.rank() == own.size() - 1:
            ft.allreduce(np.ones(1), process_set=own)
        assert ft.join(process_set=own) == own.ranks[-1]
        ft.barrier(process_set=own)
        for call in (lambda: ft.barrier(process_set=other), other.rank):
            try:
                call()
            except ft.errors.InvalidArgumentError as error:
                assert f"rank {ft.rank()} is not in the process set" in str(error)
            else:
                raise SystemExit("no error")
        """,
    )


def test_process_sets_that_differ_are_an_error_on_all_ranks() -> None:
    check(
        2,
        """
        import floodtide as ft
        ft.init()
        try:
            ft.ProcessSet([ft.rank()])
        except ft.errors.CommunicationError as error:
            assert str(error).endswith(
                "rank 0 called allgather (process set of ranks [0]); rank 1 called allgather (process set of ranks [1])"
            )
        else:
            raise SystemExit("no error")
        """,
    )


def test_parameters_that_do_not_fit_are_an_error_on_all_ranks() -> None:
    check(
        2,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        try:
            ft.broadcast_parameters({"a": np.zeros(1 + ft.rank())})
        except ft.errors.CommunicationError as error:
            assert "rank 1 called broadcast (the parameter a, float64 (2,), from rank 0)" in str(error), error
        else:
            raise SystemExit("no error")
        """,
    )


def test_waiting_releases_the_interpreter_lock() -> None:
    check(
        2,
        """
        import threading, time
        import floodtide as ft
        ft.init()
        ticks = 0
        done = threading.Event()
        def count():
            global ticks
            while not done.wait(0.01):
                ticks += 1
        threading.Thread(target=count, daemon=True).start()
        if ft.rank() == 0:
            time.sleep(0.4)
        before = ticks
        ft.barrier()
        done.set()
        assert ft.rank() == 0 or ticks - before > 8, ticks - before
        """,
    )
