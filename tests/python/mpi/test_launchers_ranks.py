# SPDX-License-Identifier: Apache-2.0
"""mpiexec in environments that other launchers have left, and mpiexec within mpiexec."""

from __future__ import annotations

import json
import sys

import pytest
from launch import MPIEXEC, Result, mpiexec, run, skip_without_mpi

pytestmark = pytest.mark.mpi

INFO = ["-m", "floodtide", "info", "--json"]

LEFT_OVER = {
    "Open MPI, one rank": {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
    "Open MPI, more": {
        "OMPI_COMM_WORLD_SIZE": "8",
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    },
    "Open MPI, with a server that is gone": {
        "OMPI_COMM_WORLD_SIZE": "1",
        "OMPI_COMM_WORLD_RANK": "0",
        "PMIX_RANK": "0",
        "PMIX_NAMESPACE": "prterun-elsewhere-1@1",
        "PMIX_SERVER_URI41": "prterun-elsewhere-1@0.0;tcp4://127.0.0.1:1",
    },
    "MPICH, one rank": {"PMI_RANK": "0", "PMI_SIZE": "1"},
    "MPICH, more": {"PMI_RANK": "3", "PMI_SIZE": "8", "PMI_FD": "999"},
    "a shell of Slurm": {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1"},
}


def facts(result: Result) -> dict[str, object]:
    assert result.status == 0, f"{result.stdout}\n{result.stderr}"
    [line] = result.stdout.splitlines()
    found: dict[str, object] = json.loads(line)["mpi"]
    return found


@pytest.mark.parametrize("name", LEFT_OVER)
def test_left_over_variables_do_not_split_the_job(name: str) -> None:
    found = facts(mpiexec(2, INFO, env=LEFT_OVER[name]))

    assert found["ranks"] == 2
    assert found["launcher"] in ("MPICH's mpiexec", "Open MPI's mpiexec")


def test_mpiexec_within_mpiexec() -> None:
    skip_without_mpi()
    inner = [str(MPIEXEC), "-n", "2", sys.executable, *INFO]
    result = run([str(MPIEXEC), "-n", "1", *inner])

    if result.status == 0:
        assert facts(result)["ranks"] == 2
    else:  # Open MPI refuses it itself
        assert result.stderr


def test_program_that_a_rank_starts_says_that_it_is_no_rank() -> None:
    program = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
    result = mpiexec(2, ["-c", program, *INFO])

    if result.status == 0:  # it has found the launcher in its parent's place
        assert facts(result)["ranks"] == 2
    else:
        assert "mpi: " in result.stderr
        assert "Traceback" not in result.stderr
