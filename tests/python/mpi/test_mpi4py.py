# SPDX-License-Identifier: Apache-2.0
"""Communicators of mpi4py handed in."""

from __future__ import annotations

import pytest
from launch import check

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.mpi


def test_world_of_mpi4py_is_duplicated() -> None:
    check(
        2,
        """
        from mpi4py import MPI
        import numpy as np
        import floodtide as ft
        ft.init(MPI.COMM_WORLD)
        assert (ft.rank(), ft.size()) == (MPI.COMM_WORLD.rank, 2)
        # A message of the user's on the original does not meet ours.
        request = MPI.COMM_WORLD.irecv(source=1 - ft.rank(), tag=16387)
        assert ft.allreduce(np.ones(1000, np.float32), op=ft.Sum).sum() == 2000
        MPI.COMM_WORLD.send("hello", dest=1 - ft.rank(), tag=16387)
        assert request.wait() == "hello"
        """,
        alone=True,
    )


def test_split_communicator_makes_ranks_of_its_own() -> None:
    check(
        3,
        """
        from mpi4py import MPI
        import numpy as np
        import floodtide as ft
        world = MPI.COMM_WORLD
        ft.init(world.Split(color=world.rank // 2, key=-world.rank))
        assert ft.size() == (2 if world.rank < 2 else 1)
        assert ft.rank() == {0: 1, 1: 0, 2: 0}[world.rank]
        members = ft.allgather(np.array([world.rank])).tolist()
        assert members == ([1, 0] if world.rank < 2 else [2])
        """,
        alone=True,
    )


def test_split_communicator_makes_a_process_set() -> None:
    check(
        3,
        """
        from mpi4py import MPI
        import floodtide as ft
        ft.init()
        world = MPI.COMM_WORLD
        pair = ft.ProcessSet(world.Split(0 if world.rank != 1 else MPI.UNDEFINED, -world.rank))
        assert pair.included() == (world.rank != 1)
        assert pair.ranks == (() if world.rank == 1 else (2, 0))
        if pair.included():
            assert ft.allgather([ft.rank()], process_set=pair).tolist() == [2, 0]
        ft.barrier()
        """,
        alone=True,
    )


@pytest.mark.parametrize("first", ["floodtide", "mpi4py"])
def test_whoever_starts_mpi_first_ends_it(first: str) -> None:
    starts = ["ft.init()", "from mpi4py import MPI"]
    check(
        2,
        f"""
        import numpy as np
        import floodtide as ft
        {"; ".join(starts if first == "floodtide" else reversed(starts))}
        assert MPI.COMM_WORLD.size == ft.size() == 2
        assert MPI.COMM_WORLD.allreduce(ft.rank()) == 1
        assert ft.allreduce(np.float64([ft.rank()]), op=ft.Sum, algorithm="mpi")[0] == 1
        """,
        alone=True,
    )


@pytest.mark.parametrize("level", ["funneled", "serialized"])
def test_thread_level_that_is_too_low_is_an_error(level: str) -> None:
    check(
        2,
        f"""
        import mpi4py
        mpi4py.rc.thread_level = "{level}"
        from mpi4py import MPI
        import floodtide as ft
        try:
            ft.init(MPI.COMM_WORLD)
        except ft.errors.UnsupportedError as error:
            assert "has started MPI at thread level {level}, expected multiple" in str(error), error
        else:
            raise SystemExit("no error")
        """,
        alone=True,
    )


@pytest.mark.parametrize("given", ["MPI.COMM_NULL", "[0, 1]", "3"])
def test_anything_but_an_intracommunicator_is_an_error(given: str) -> None:
    check(
        1,
        f"""
        from mpi4py import MPI
        import floodtide as ft
        try:
            ft.init({given})
        except ft.errors.InvalidArgumentError as error:
            assert "expected an mpi4py intracommunicator or None" in str(error), error
        else:
            raise SystemExit("no error")
        """,
        alone=True,
    )


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        ("MPI._sizeof = lambda _: 3", "handles of 3 bytes"),
        ("MPI.Get_library_version = lambda: version + '.1'", "floodtide has loaded"),
    ],
)
def test_library_of_another_kind_is_an_error_and_not_a_crash(fake: str, message: str) -> None:
    check(
        1,
        f"""
        import sys, types
        from mpi4py import MPI as real
        version = real.Get_library_version()
        MPI = types.SimpleNamespace(**{{name: getattr(real, name) for name in dir(real)}})
        {fake}
        sys.modules["mpi4py.MPI"] = MPI
        import floodtide as ft
        try:
            ft.init(real.COMM_WORLD)
        except ft.errors.UnsupportedError as error:
            assert {message!r} in str(error), error
        else:
            raise SystemExit("no error")
        """,
        alone=True,
    )
