# SPDX-License-Identifier: Apache-2.0
"""What happens on all ranks when one of them fails."""

from __future__ import annotations

import re
import sys
import textwrap

import pytest
from launch import run, script, skip_without_mpi

pytestmark = pytest.mark.mpi

END_S = 30  # every rank must be gone by then
KILLED = 9  # of the ranks that were killed; MPICH's mpiexec may add these bits to the status


def test_exception_on_one_rank_ends_all_and_names_it() -> None:
    result = script(
        3,
        """
        import numpy as np
        import floodtide as ft
        ft.init()
        if ft.rank() == 1:
            raise ft.errors.NumericalError("loss is nan at step 7")
        ft.allreduce(np.ones(100000))
        """,
        timeout_s=END_S,
    )

    assert result.status in (1, 1 | KILLED)
    # Open MPI's launcher may put a piece of its own text about MPI_Abort before it.
    told = re.findall(r"\brank \d+: .*$", result.stderr, re.MULTILINE)
    assert told == ["rank 1: loss is nan at step 7"]


def test_input_error_on_one_rank_ends_all_with_its_exit_status() -> None:
    result = script(
        2,
        """
        import floodtide as ft
        ft.init()
        if ft.rank() == 1:
            raise ft.errors.InvalidFileError("a.h5: not found")
        ft.barrier()
        """,
        timeout_s=END_S,
    )

    assert result.status in (2, 2 | KILLED)
    assert "rank 1: a.h5: not found" in result.stderr


def test_agreed_failure_is_raised_on_all_ranks_and_leaves_mpi_in_order() -> None:
    result = script(
        3,
        """
        import sys
        import floodtide as ft
        from floodtide.comm import world
        ft.init()
        try:
            with world.agreed():
                if ft.rank() > 0:
                    raise ft.errors.InvalidFileError(f"file of rank {ft.rank()}")
        except ft.errors.InvalidFileError as error:
            assert error.agreed
            print(error)
            world.fail(error)  # returns: nobody waits
            sys.exit(error.exit_status)
        """,
        timeout_s=END_S,
    )

    assert result.status == 2
    assert result.stdout.count("file of rank 1") == 3


def test_agreed_failure_of_a_foreign_class_names_rank_and_class() -> None:
    result = script(
        2,
        """
        import floodtide as ft
        from floodtide.comm import world
        ft.init()
        try:
            with world.agreed():
                if ft.rank() == 1:
                    raise KeyError("lr")
        except (KeyError, ft.errors.CommunicationError) as error:
            said = world.current().allgather(f"{type(error).__name__} {error}".encode())
            if ft.rank() == 0:
                print(*said, sep="\\n")
        """,
        timeout_s=END_S,
    )

    assert result.stdout.splitlines() == [
        """b"CommunicationError rank 1: KeyError: 'lr'\"""",
        """b"KeyError 'lr'\"""",
    ]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_signal_to_one_rank_ends_all(name: str) -> None:
    result = script(
        2,
        f"""
        import os, signal, threading, time
        import floodtide as ft
        from floodtide.comm import world
        world._RANK_0_S = 0.3  # for which rank 1 lets rank 0 end the job
        ft.init()
        if ft.rank() == 1:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.{name})).start()
        else:
            time.sleep(1)  # rank 1 waits for this one when the signal comes; later this one waits
        ft.barrier()
        ft.barrier()
        raise SystemExit("the barriers held without rank 1")
        """,
        timeout_s=END_S,
    )

    assert result.status != 0
    assert "the barriers held" not in result.stderr
    if name == "SIGINT":
        assert "rank 1: KeyboardInterrupt" in result.stderr


FAKE_LAUNCHERS = {
    "Open MPI": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
    "MPICH": {"PMI_SIZE": "2", "PMI_RANK": "0"},
}


@pytest.mark.parametrize("launcher", FAKE_LAUNCHERS)
def test_processes_that_see_no_other_rank_are_an_error(launcher: str) -> None:
    # Under a launcher that the library does not understand, each of N processes would train alone.
    skip_without_mpi()
    result = run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import sys
                import floodtide as ft
                try:
                    ft.init()
                except ft.errors.UnsupportedError as error:
                    print(error)
                    sys.exit(error.exit_status)
                """
            ),
        ],
        env=FAKE_LAUNCHERS[launcher],
    )

    assert result.status == 2, result.stderr
    assert len(result.stdout.splitlines()) == 1
    assert result.stdout.startswith(f"mpi: {launcher}'s mpiexec started 2 ranks, but ")
