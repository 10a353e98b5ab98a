# SPDX-License-Identifier: Apache-2.0
"""Jobs that run the programs of many tests, one after another: one job for each number of ranks.

A program that all ranks must end with the same status can run in a shared job. Programs that kill, hang, end the job
or change what a process starts with need their own job (`launch.mpiexec`). After a failure or a stall the shared job
ends. The program then runs once more in its own job, so the report shows the program's own failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection, Listener, wait
from pathlib import Path

from processes import kill_job

START_S = 60.0
GRACE_S = 5.0  # for the other ranks, after one has failed

Ending = tuple[int, str, str]  # exit status, output, error output


class SharedJob:
    """Ranks that wait for programs.

    Args:
        launcher: Command that starts `ranks` processes.
        ranks: Number of ranks.
        environment: Environment of the ranks.

    Raises:
        TimeoutError: If the ranks do not report within a minute.
    """

    def __init__(self, launcher: list[str], ranks: int, environment: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        address = os.path.join(self._folder.name, "socket")
        program = str(Path(__file__).with_name("shared_rank.py"))
        self._ranks: dict[int, Connection] = {}
        self.programs = 0
        with Listener(address, family="AF_UNIX", backlog=ranks) as listener:
            listener._listener._socket.settimeout(START_S)  # type: ignore[attr-defined]
            self._process = subprocess.Popen(
                [*launcher, sys.executable, program, address],
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
            )
            connections = [listener.accept() for _ in range(ranks)]
        for connection in connections:
            if not connection.poll(START_S):
                self.kill()
                raise TimeoutError(f"a rank of the shared job of {ranks} did not start")
            self._ranks[connection.recv()] = connection

    def run(self, arguments: list[str], status: int, timeout_s: float) -> list[Ending] | None:
        """Run `python arguments...` on every rank and return each rank's ending. None: not all ranks ended in time."""
        self.programs += 1
        endings: dict[int, Ending] = {}
        waiting = {connection: rank for rank, connection in self._ranks.items()}
        deadline = time.monotonic() + timeout_s
        try:
            for connection in waiting:
                connection.send(arguments)
            while waiting:
                ready = wait(list(waiting), max(0.0, deadline - time.monotonic()))
                if not ready:
                    return None
                for connection in ready:
                    assert isinstance(connection, Connection)
                    ending = connection.recv()
                    endings[waiting.pop(connection)] = ending
                    if ending[0] != status:
                        deadline = min(deadline, time.monotonic() + GRACE_S)
        except (EOFError, OSError):  # a rank has ended
            return None
        return [endings[rank] for rank in sorted(endings)]

    def kill(self) -> None:
        """End the job at once."""
        kill_job(self._process)
        self._process.wait()
        self._clean()

    def end(self) -> None:
        """Let the ranks end, as ranks whose program is over."""
        for connection in self._ranks.values():
            connection.close()
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._clean()

    def _clean(self) -> None:
        for connection in self._ranks.values():
            connection.close()
        self._folder.cleanup()


_jobs: dict[int, SharedJob] = {}


def run_shared(
    launcher: list[str],
    ranks: int,
    environment: Mapping[str, str],
    arguments: list[str],
    status: int,
    timeout_s: float,
) -> Ending | str:
    """Run a program in the shared job of that many ranks, which is started if it does not run yet.

    Returns:
        `status` and the outputs of all ranks, by rank, if all ranks ended with this status. Otherwise a text that says
        what happened; the shared job has then been ended.
    """
    job = _jobs.get(ranks)
    if job is None:
        job = _jobs[ranks] = SharedJob(launcher, ranks, environment)
    endings = job.run(arguments, status, timeout_s)
    if endings is not None and all(ending[0] == status for ending in endings):
        return (
            status,
            "".join(output for _, output, _ in endings),
            "".join(text for _, _, text in endings),
        )
    job.kill()
    del _jobs[ranks]
    if endings is None:
        return f"no end after {timeout_s} s, or a rank ended, in program {job.programs} of a shared job"
    texts = "".join(
        f"rank {rank}: status {ended}\n{output}{errors}"
        for rank, (ended, output, errors) in enumerate(endings)
    )
    return f"program {job.programs} of a shared job failed:\n{texts}"


def end_shared_jobs() -> None:
    """End all shared jobs. Called when the test session ends."""
    while _jobs:
        _jobs.popitem()[1].end()
