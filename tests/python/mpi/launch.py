# SPDX-License-Identifier: Apache-2.0
"""Starts ranks with the mpiexec of the environment that runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import kill_job
from shared_jobs import run_shared

import floodtide
from floodtide.comm import launching

MPIEXEC = Path(sys.executable).with_name("mpiexec")

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "",  # it writes a line and its end apart, and ranks' lines run into each other
    "PYTHONPATH": str(Path(floodtide.__file__).parents[1]),
    # Open MPI as root, and with more ranks than cores (version 4, version 5); others ignore these.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@dataclass(frozen=True)
class Result:
    """How a job ended: exit status of mpiexec, its output, seconds that it took."""

    status: int
    stdout: str
    stderr: str
    seconds: float


def skip_without_mpi() -> None:
    """Skip the calling test where no ranks can be started."""
    if not MPIEXEC.exists():
        pytest.skip(f"no mpiexec beside {sys.executable} (pip install '.[mpi]')")
    if not any(launching.plugin(family).exists() for family in launching.FAMILIES):
        pytest.skip("this build has no MPI plug-in")


def run(command: list[str], *, timeout_s: float = 60, env: dict[str, str] | None = None) -> Result:
    """Run a command in a new session. Kill it and all that it started if it takes longer than `timeout_s`."""
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **ENVIRONMENT, **(env or {})},
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        kill_job(process)
        stdout, stderr = process.communicate()
        pytest.fail(f"no end after {timeout_s} s: {command}\n{stdout}\n{stderr}")
    return Result(
        status=process.returncode,
        stdout=stdout,
        stderr=stderr,
        seconds=time.monotonic() - start,
    )


def mpiexec(
    ranks: int, arguments: list[str], *, timeout_s: float = 60, env: dict[str, str] | None = None
) -> Result:
    """Run `python arguments...` on that many ranks, as a job that runs nothing else.

    For programs that kill, hang, exit with another status than 0, or change what a process starts with.
    """
    skip_without_mpi()
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, *arguments]
    return run(command, timeout_s=timeout_s, env=env)


def shared(ranks: int, arguments: list[str], *, status: int = 0, timeout_s: float = 60) -> Result:
    """Run `python arguments...`, which must end with `status` on all ranks, in a job that runs many programs.

    A program that fails there runs once more in its own job, and the result is that of its own job. A program that
    fails in the shared job only is a failure as well.
    """
    skip_without_mpi()
    start = time.monotonic()
    launcher = [str(MPIEXEC), "-n", str(ranks)]
    ending = run_shared(
        launcher, ranks, {**os.environ, **ENVIRONMENT}, arguments, status, timeout_s
    )
    if isinstance(ending, str):
        alone = mpiexec(ranks, arguments, timeout_s=timeout_s)
        if alone.status == status:
            pytest.fail(f"passes in its own job, but {ending}")
        return alone
    return Result(*ending, time.monotonic() - start)


def script(ranks: int, text: str, *, timeout_s: float = 60) -> Result:
    """Run a Python text on that many ranks, as a job that runs nothing else."""
    return mpiexec(ranks, ["-c", textwrap.dedent(text)], timeout_s=timeout_s)


def check(ranks: int, text: str, *, timeout_s: float = 60, alone: bool = False) -> str:
    """Run a Python text that must succeed on that many ranks, in a shared job, and return what the ranks printed."""
    run_on_ranks = mpiexec if alone else shared
    result = run_on_ranks(ranks, ["-c", textwrap.dedent(text)], timeout_s=timeout_s)
    assert result.status == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


def assert_one_line(stderr: str) -> None:
    """The job says one thing; launchers may add their own after it."""
    ours = [line for line in stderr.splitlines() if "floodtide" in line]
    assert len(ours) == 1, stderr
