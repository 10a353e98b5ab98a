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
            for algorithm in (None, "ring", "mpi"):
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
