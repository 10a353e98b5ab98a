# SPDX-License-Identifier: Apache-2.0
"""Collectives on NumPy arrays between processes."""

from __future__ import annotations

import pytest
from launch import check, script

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


def test_allreduce_agrees_with_numpy_and_on_all_ranks() -> None:
    check(
        3,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        for length in (0, 1, 2, 3, 1009, 472353):
            generators = [np.random.default_rng(r) for r in range(3)]
            values = [generator.normal(size=length).astype(np.float32) for generator in generators]
            exact = np.sum(np.float64(values), axis=0)
            bound = 2 * np.finfo(np.float32).eps * np.abs(values).sum(axis=0, dtype=np.float64)
            table = "recursive_doubling:0-8192,ring:8193-"
            for algorithm in (None, "auto", table, *ft.allreduce_algorithms()):
                own = values[ft.rank()].copy()
                total = ft.allreduce(own, op=ft.Sum, algorithm=algorithm)
                assert total.dtype == np.float32
                assert (np.abs(total - exact) <= bound).all()
                assert (own == values[ft.rank()]).all(), "the input was changed"
                assert len({a.tobytes() for a in np.split(ft.allgather(total), 3)}) == 1
                average = ft.allreduce(own, algorithm=algorithm)
                assert (average == total / np.float32(3)).all()
        counts = np.arange(6).reshape(2, 3) + ft.rank()
        assert (ft.allreduce(counts, op=ft.Max) == np.arange(6).reshape(2, 3) + 2).all()
        assert (ft.allreduce(counts, op=ft.Min) == np.arange(6).reshape(2, 3)).all()
        """,
    )


def test_narrow_wire_halves_the_bytes_within_its_bound() -> None:
    check(
        3,
        """
        import numpy as np
        import floodtide as ft
        from floodtide.comm import world
        ft.init()
        def sent(*arguments):
            before = world.current().traffic["bytes"]
            total = ft.allreduce(*arguments)
            return total, world.current().traffic["bytes"] - before
        values = [np.random.default_rng(r).normal(size=1009).astype(np.float32) for r in range(3)]
        exact = np.sum(np.float64(values), axis=0)
        magnitude = np.abs(values).sum(axis=0, dtype=np.float64)
        for algorithm in ft.allreduce_algorithms(own=True):
            ft.allreduce(values[0], ft.Sum, algorithm)  # two_level asks for the nodes once
            _, full = sent(values[ft.rank()], ft.Sum, algorithm)
            total, half = sent(values[ft.rank()], ft.Sum, algorithm, "bf16")
            assert full == 2 * half > 0
            assert (np.abs(total - exact) <= ((1 + 2.0**-8) ** 4 - 1) * magnitude).all()
            assert len({a.tobytes() for a in np.split(ft.allgather(total), 3)}) == 1
        """,
    )


def test_asynchronous_allreduces_complete_in_any_order() -> None:
    check(
        3,
        """
        import random
        import numpy as np
        import floodtide as ft
        ft.init()
        me = ft.rank()
        arrays = [np.arange(1 + 1000 * i, dtype=np.float32) + me for i in range(10)]
        names = ft.allreduce_algorithms()
        handles = [
            ft.allreduce_async(a, ft.Sum if i % 2 else ft.Average, names[i % len(names)])
            for i, a in enumerate(arrays)
        ]
        order = list(range(10))
        random.Random(me).shuffle(order)
        for i in order:
            while me == 0 and not ft.poll(handles[i]):
                pass
            total = ft.synchronize(handles[i])
            expected = np.arange(1 + 1000 * i, dtype=np.float32) + 1
            assert (total == expected * (3 if i % 2 else 1)).all(), i
            assert ft.poll(handles[i]) and ft.synchronize(handles[i]) is total
        del handles[:]
        ft.allreduce_async(arrays[1])  # nobody waits: its end does
        ft.barrier()
        """,
    )


def test_reduce_scatter_gives_each_rank_its_rows() -> None:
    check(
        3,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        rows = np.arange(14, dtype=np.float64).reshape(7, 2)
        shares = [slice(0, 3), slice(3, 5), slice(5, 7)]
        assert (ft.reduce_scatter(rows + ft.rank()) == rows[shares[ft.rank()]] + 1).all()
        counts = np.arange(2) * ft.rank()
        assert ft.reduce_scatter(counts, op=ft.Max).tolist() == [[0], [2], []][ft.rank()]
        assert ft.reduce_scatter(np.zeros((0, 3))).shape == (0, 3)
        """,
    )


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
            average = ft.allreduce(np.float32([ft.rank(), 1]), algorithm="auto" if step > 2 else None)
            assert average.tolist() == [np.float32(sum(active)) / np.float32(len(active)), 1], step
            assert ft.allreduce(np.int64([ft.rank()]), op=ft.Min) == min(active)
            assert ft.broadcast_object("x", 0) == "x"
        assert ft.join() == 0
        assert ft.allreduce(np.float32([1]), op=ft.Sum) == 3
        assert ft.join() == 2
        fresh = ft.ProcessSet([2, 1, 0])  # neither measured nor located yet
        if ft.rank() != 1:
            for algorithm in ("auto", "two_level", "mpi"):
                ones = np.ones(1000, np.float32)
                assert (ft.allreduce(ones, ft.Sum, algorithm, process_set=fresh) == 2).all()
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
        4,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        pairs = [ft.ProcessSet([0, 3]), ft.ProcessSet([2, 1])]
        own, other = pairs if ft.rank() in (0, 3) else pairs[::-1]
        assert own.included() and not other.included() and own.size() == 2
        assert own.rank() == own.ranks.index(ft.rank())
        handle = ft.allreduce_async(np.float32([ft.rank()]), op=ft.Sum, process_set=own)
        assert ft.allreduce(np.float32([1]), op=ft.Sum) == 4
        assert ft.synchronize(handle) == sum(own.ranks)
        assert ft.allgather([ft.rank()], process_set=own).tolist() == list(own.ranks)
        assert ft.broadcast([ft.rank()], own.ranks[1], process_set=own) == own.ranks[1]
        assert ft.broadcast_object(ft.rank(), own.ranks[0], process_set=own) == own.ranks[0]
        assert ft.reduce_scatter(np.ones(2), process_set=own).tolist() == [1]
        if own.rank() == 1:
            ft.allreduce(np.ones(1), process_set=own)
        assert ft.join(process_set=own) == own.ranks[1]
        ft.barrier(process_set=own)
        for call in (lambda: ft.barrier(process_set=other), other.rank):
            try:
                call()
            except ft.errors.InvalidArgumentError as error:
                assert f"rank {ft.rank()} is not in the process set" in str(error)
            else:
                raise SystemExit("no error")
        try:
            ft.broadcast([1], other.ranks[0], process_set=own)
        except ft.errors.OutOfRangeError as error:
            assert "is not in the process set" in str(error)
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
        except ft.errors.InvalidArgumentError as error:
            assert str(error) == "ProcessSet on rank 1: [1]: other ranks than on rank 0, which has [0]"
        else:
            raise SystemExit("no error")
        """,
    )


def test_an_uncaught_disagreement_is_one_traceback_and_ends_all_ranks() -> None:
    result = script(
        2,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        ft.allreduce(np.ones(5 + ft.rank(), np.float32), op=ft.Sum, algorithm="ring")
        """,
    )

    assert result.status == 1
    assert result.stderr.count("Traceback") == 1
    assert "differs between ranks: rank 0 called allreduce (sum of " in result.stderr
    assert "; rank 1 called allreduce (sum of " in result.stderr


def test_broadcasts_reach_every_rank() -> None:
    check(
        3,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        class Optimizer:
            def __init__(self, step): self.step = step
            def state_dict(self): return {"step": self.step, "moment": np.full(5, self.step)}
            def load_state_dict(self, state): self.step, self.moment = state.values()
        me = ft.rank()
        for root in range(3):
            assert (ft.broadcast(np.full((2, 2), me), root_rank=root) == root).all()
            assert ft.broadcast_object({"text": "x" * me}, root) == {"text": "x" * root}
            shapes = {"weights": (3, 4), "biases": (4,)}
            parameters = {n: np.full(shape, me, np.float32) for n, shape in shapes.items()}
            ft.broadcast_parameters(parameters, root_rank=root)
            assert all((array == root).all() for array in parameters.values())
            optimizer = Optimizer(me)
            ft.broadcast_optimizer_state(optimizer, root_rank=root)
            assert optimizer.step == root
            assert me == root or (optimizer.moment == root).all()
        """,
    )


def test_allgather_joins_arrays_of_different_lengths() -> None:
    check(
        3,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        own = np.full((ft.rank(), 2), ft.rank(), np.int32)
        assert ft.allgather(own).tolist() == [[1, 1], [2, 2], [2, 2]]
        ft.barrier()
        """,
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ft.allgather(np.zeros((2, 1 + ft.rank())))", "differ in the length of axis 0 only"),
        (
            "ft.broadcast_parameters({'a': np.zeros(1 + ft.rank())})",
            "on rank 1 differ from rank 0's",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_an_error_on_all_ranks(call: str, message: str) -> None:
    check(
        2,
        f"""
        import numpy as np
        import floodtide as ft
        ft.init()
        try:
            {call}
        except ft.errors.ShapeError as error:
            assert {message!r} in str(error), error
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
        def count():
            global ticks
            while True:
                ticks += 1
                time.sleep(0.01)
        threading.Thread(target=count, daemon=True).start()
        if ft.rank() == 0:
            time.sleep(1)
        before = ticks
        ft.barrier()
        assert ft.rank() == 0 or ticks - before > 20, ticks - before
        """,
    )


def test_shutdown_and_init_again() -> None:
    check(
        2,
        """
        import floodtide as ft
        for _ in range(2):
            ft.init()
            ft.init()
            assert ft.is_initialized() and ft.size() == 2
            ft.barrier()
            ft.shutdown()
            assert not ft.is_initialized()
        """,
    )
