# SPDX-License-Identifier: Apache-2.0
"""floodtide.run: ranks from a notebook cell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import ENVIRONMENT, MPIEXEC, check, skip_without_mpi

import floodtide as ft
from floodtide.comm import notebook

pytestmark = pytest.mark.mpi

END_S = 30


@pytest.fixture(autouse=True)
def _root_may_start_open_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_mpi()
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, ENVIRONMENT[name])


def gone(pids: list[int]) -> bool:
    """Whether the processes end within some seconds."""
    deadline = time.monotonic() + 15
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_results_come_by_rank_and_rank_0_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    offset = np.float64(10)  # travels with the function

    def add(rows: int, *, name: str) -> tuple[str, Any]:
        print(f"rank {ft.rank()} of {ft.size()}")
        total = ft.allreduce(np.full(rows, offset + ft.rank()), op=ft.Sum)
        return f"{name} {ft.rank()}", total

    results = ft.run(add, np=2, args=(3,), kwargs={"name": "rank"})

    assert [name for name, _ in results] == ["rank 0", "rank 1"]
    for _, total in results:
        np.testing.assert_array_equal(total, np.full(3, 21.0))
    assert capsys.readouterr().out == "rank 0 of 2\n"


def test_threads_of_a_rank_have_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    cores = os.sched_getaffinity(0)

    [(mask, threads)] = ft.run(
        lambda: (os.sched_getaffinity(0), os.environ["OMP_NUM_THREADS"]), np=1
    )

    assert mask == cores
    assert int(threads) == len(cores)


def raises() -> None:
    if ft.rank() == 1:
        raise ValueError("no such volume")
    ft.barrier()


def returns_what_cannot_travel() -> object:
    return threading.Lock() if ft.rank() == 1 else None


def leaves() -> None:
    if ft.rank() == 1:
        sys.exit(3)
    ft.barrier()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, "rank 1 failed: ValueError: no such volume"),
        (returns_what_cannot_travel, "rank 1 failed: TypeError: cannot pickle"),
        (leaves, "rank 1 failed: SystemExit: 3"),
    ],
)
def test_failure_names_the_rank_and_shows_its_traceback(
    function: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ft.errors.RankError, match=message) as caught:
        ft.run(function, np=2)

    assert caught.value.rank == 1
    assert "Traceback (most recent call last)" in str(caught.value.__cause__)


def killed() -> None:
    if ft.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ft.barrier()


def leaves_python() -> None:
    if ft.rank() == 1:
        os._exit(3)
    time.sleep(60)


@pytest.mark.parametrize("function", [killed, leaves_python])
def test_ranks_without_a_result_are_named(function: Callable[[], Any]) -> None:
    """mpiexec ends the other ranks, too. floodtide cannot tell which rank ended first."""
    says = r"1 ended without a result \(mpiexec's exit status: [0-9]+\)"
    with pytest.raises(ft.errors.RankError, match=says) as caught:
        ft.run(function, np=2)
    assert caught.value.rank is None or "run: rank 1 ended" in str(caught.value)


SLEEPER = """
import os, sys, time, floodtide as ft
def sleep(folder):
    open(f"{folder}/pid-{ft.rank()}", "w").write(str(os.getpid()))
    ft.barrier()
    time.sleep(300)
ft.run(sleep, np=2, args=(sys.argv[1],))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_ranks_end_with_an_interrupted_or_killed_caller(tmp_path: Path, name: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path)],
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    files = [tmp_path / f"pid-{rank}" for rank in range(2)]
    deadline = time.monotonic() + END_S
    while not all(file.exists() and file.read_text() for file in files):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pids = [int(file.read_text()) for file in files]
    process.send_signal(getattr(signal, name))
    _, stderr = process.communicate(timeout=END_S)

    assert gone(pids)
    assert process.returncode != 0
    if name == "SIGINT":
        assert "KeyboardInterrupt" in stderr


def test_environment_of_a_launcher_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PMI_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE", "HYDI_CONTROL_FD"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("MPI_LOCALRANKID", "1")
    monkeypatch.setenv("FLOODTIDE_ISA", "avx2")

    kept = notebook.environment(2)

    assert not [name for name in kept if name.startswith(("PMI", "HYDI_", "OMPI_COMM", "MPI_"))]
    assert kept["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert kept["FLOODTIDE_ISA"] == "avx2"


def test_a_job_of_one_rank_may_start_another() -> None:
    # MPI runs in the caller, as in a notebook whose kernel mpiexec has started.
    out = check(
        1,
        """
        import mpi4py.MPI
        import floodtide as ft
        print(ft.run(lambda: (ft.rank(), ft.size()), np=2))
        """,
        alone=True,
    )

    assert out.splitlines()[-1] == "[(0, 2), (1, 2)]"


def test_ranks_of_a_job_may_not_start_another() -> None:
    out = check(
        2,
        """
        import floodtide as ft
        ft.init()
        try:
            ft.run(ft.rank, np=2)
        except ft.errors.UnsupportedError as error:
            print(error)
        """,
    )

    assert out.splitlines() == 2 * ["run: called by one of 2 ranks, expected one process"]


@pytest.mark.parametrize("ranks", [0, -1, True, 1.0, "2"])
def test_number_of_ranks_is_checked(ranks: Any) -> None:
    with pytest.raises(
        ft.errors.InvalidArgumentError, match=r"np is .*, expected a number of rank"
    ):
        ft.run(print, np=ranks)


def test_arguments_that_cannot_travel_are_named() -> None:
    with pytest.raises(ft.errors.InvalidArgumentError, match="cannot be sent to other processes"):
        ft.run(print, np=1, args=(threading.Lock(),))


def test_without_mpiexec_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ft.errors.UnsupportedError, match="there is no mpiexec"):
        ft.run(print, np=1)

    assert MPIEXEC.exists()  # and it was looked for where it was not
