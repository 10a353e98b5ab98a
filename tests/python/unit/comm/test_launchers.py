# SPDX-License-Identifier: Apache-2.0
"""Who started this process: variables that are left over, partial, or of several launching."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import floodtide as ft
from floodtide.comm import launching

STALE_PMI = {"PMI_RANK": "0", "PMI_SIZE": "1", "PMI_FD": "123456"}
STALE_OMPI = {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}
STEP = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "6"}


@pytest.fixture
def pmi() -> Iterator[dict[str, str]]:
    """Variables of a live MPICH mpiexec with 4 ranks."""
    ours, theirs = socket.socketpair()
    yield {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": str(ours.fileno())}
    ours.close()
    theirs.close()


@pytest.fixture
def ompi() -> Iterator[dict[str, str]]:
    """Variables of a live Open MPI mpiexec with 3 ranks."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        yield {
            "OMPI_COMM_WORLD_SIZE": "3",
            "OMPI_COMM_WORLD_RANK": "2",
            "PMIX_RANK": "2",
            "PMIX_NAMESPACE": "prterun-host-77@1",
            "PMIX_SERVER_URI41": f"prterun-host-77@0.0;tcp4://127.0.0.1:{port}",
        }


def found(environ: dict[str, str]) -> tuple[str | None, int | None, int, bool] | None:
    launched = launching.launcher(environ)
    return launched and (launched.family, launched.ranks, launched.rank, launched.live)


def dead(environ: dict[str, str]) -> dict[str, str]:
    """The same variables after their server has ended."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return environ | {"PMIX_SERVER_URI41": f"prterun-host-77@0.0;tcp4://127.0.0.1:{port}"}


def test_the_launcher_that_is_there_wins_over_what_is_left_of_another(
    pmi: dict[str, str], ompi: dict[str, str]
) -> None:
    assert found(pmi | STALE_OMPI) == ("mpich", 4, 1, True)
    assert found(pmi | dead(ompi)) == ("mpich", 4, 1, True)
    assert found(ompi | STALE_PMI) == ("openmpi", 3, 2, True)
    assert found(ompi | {"PMI_RANK": "0"}) == ("openmpi", 3, 2, True)


def test_of_two_that_are_there_the_one_with_several_ranks_counts(
    pmi: dict[str, str], ompi: dict[str, str]
) -> None:
    assert found(pmi | {"PMI_SIZE": "1"} | ompi) == ("openmpi", 3, 2, True)
    assert found(pmi | ompi) == ("mpich", 4, 1, True)  # MPI will tell if it is the other one


def test_launchers_in_an_allocation_of_slurm(pmi: dict[str, str], ompi: dict[str, str]) -> None:
    step = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}  # one daemon for each of two nodes

    assert found(pmi | step) == ("mpich", 4, 1, True)
    assert found(ompi | step) == ("openmpi", 3, 2, True)
    assert found(STALE_PMI | STEP) == (None, 6, 5, True)


def test_variables_of_pmix_of_another_job_than_open_mpis(ompi: dict[str, str]) -> None:
    # srun --mpi=pmix within an environment that Open MPI's mpiexec has left.
    environ = ompi | {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}

    assert found(environ) == (None, None, 2, True)


def test_left_over_variables_of_one_rank_are_no_job() -> None:
    for environ in (STALE_PMI, STALE_OMPI, STALE_PMI | STALE_OMPI):
        launched = launching.launcher(environ)
        assert launched is not None
        assert (launched.ranks, launched.live) == (1, False)


def run(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command without a launcher."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PMI", "OMPI_COMM", "HYDI_", "SLURM_"))
    }
    kept["PYTHONPATH"] = str(Path(ft.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "floodtide", *arguments],
        env=kept | environ,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize(
    ("environ", "variables"),
    [
        ({"PMI_SIZE": "4", "PMI_FD": "123456"}, "PMI_FD=123456 is closed"),
        ({"PMI_SIZE": "3", "OMPI_COMM_WORLD_SIZE": "4"}, "this process finds no other"),
    ],
)
def test_process_without_its_launcher_says_so_whatever_its_rank(
    rank: str, environ: dict[str, str], variables: str
) -> None:
    result = run(environ | {"PMI_RANK": rank}, "info")

    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("floodtide info: mpi: ")
    assert variables in lines[0]
    assert f"PMI_RANK={rank}" in lines[0]


def test_process_with_variables_of_one_rank_works() -> None:
    result = run(STALE_PMI | STALE_OMPI, "info")

    assert (result.returncode, result.stderr) == (0, "")
    assert "mpi launcher: " not in result.stdout
