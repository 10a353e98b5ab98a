# SPDX-License-Identifier: Apache-2.0
"""Ranks of a hand-written loop that wait for one that does not come: the job ends in time and names it."""

from __future__ import annotations

import re
import textwrap

import pytest
from launch import Result, check, mpiexec, script, skip_without_mpi
from processes import wait_until_gone

pytestmark = pytest.mark.mpi

TIMEOUT_S = 2.0
MARGIN_S = 5.0
START_S = 20.0  # importing and MPI's start, on a machine that does other things, too

# The last rank does it once the others wait.
FAULTS = {
    "sys.exit": ("sys.exit(0)", "has left"),
    "return": ("pass", "has left"),
    "shutdown": ("ft.shutdown(); time.sleep(60)", "has left"),
    "sleep": ("time.sleep(60)", "not in a collective"),
    "stop": ("os.kill(os.getpid(), signal.SIGSTOP)", "silent since"),
}

LOOP = """
import os, signal, sys, time
import numpy as np
import floodtide as ft
ft.init(timeout_s={timeout_s})
few = ft.ProcessSet(range(ft.size() // 2, ft.size()))
for step in range(3):
    ft.allreduce(np.ones(4))
print(time.time(), flush=True)
if ft.rank() == {victim}:
    {fault}
else:
    {wait}
"""


def stalled(
    ranks: int, victim: int, fault: str, wait: str = "ft.allreduce(np.ones(4), op=ft.Sum)"
) -> Result:
    text = LOOP.format(timeout_s=TIMEOUT_S, victim=victim, fault=fault, wait=wait)
    result = script(ranks, textwrap.dedent(text), timeout_s=60)
    assert result.status != 0, f"{result.stdout}\n{result.stderr}"
    assert result.seconds < START_S + TIMEOUT_S + MARGIN_S
    return result


def told(result: Result) -> str:
    """The only line that floodtide wrote."""
    # Open MPI's launcher may put a piece of its own text about MPI_Abort before it.
    lines = re.findall(r"\brank \d+: .*$", result.stderr, re.MULTILINE)
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("ranks", "victim", "fault"),
    [
        (2, 0, "sys.exit"),
        (2, 0, "sleep"),
        (2, 0, "stop"),
        (3, 2, "return"),
        (3, 2, "shutdown"),
        (3, 2, "sleep"),
        (3, 2, "stop"),
    ],
)
def test_rank_that_does_not_come_is_named(ranks: int, victim: int, fault: str) -> None:
    action, described = FAULTS[fault]

    line = told(stalled(ranks, victim, action))

    assert "allreduce" in line
    if (
        fault == "stop" and "has been waiting" not in line
    ):  # the others may have begun to wait a moment later
        assert f"rank {victim} has been silent for {TIMEOUT_S:g} s (" in line
        assert "waits in collective" in line
        return
    assert f"has been waiting for {TIMEOUT_S:g} s in collective" in line
    assert f"for rank {victim} ({described}" in line
    assert ("floodtide.init(timeout_s=...)" in line) == (fault in ("sleep", "stop"))


def test_process_set_and_its_missing_rank_are_named() -> None:
    line = told(
        stalled(
            4,
            2,
            "time.sleep(60)",
            "ft.rank() == 3 and ft.barrier(process_set=few) or time.sleep(60)",
        )
    )

    assert "rank 3 has been waiting for 2 s in collective" in line
    assert "barrier, of the process set of ranks 2, 3 for rank 2 (not in a collective)" in line


def test_rank_that_waits_elsewhere_is_not_blamed_for_one_that_left() -> None:
    # Rank 0 waits for all, rank 1 waits for rank 2 alone.
    wait = "ft.barrier(process_set=few) if ft.rank() == 3 else ft.barrier()"
    line = told(stalled(4, 2, "sys.exit(0)", wait))

    assert "for rank 2 (has left)" in line


def test_dropping_a_handle_is_waiting() -> None:
    line = told(stalled(2, 1, "time.sleep(60)", "ft.allreduce_async(np.ones(4))"))

    assert "for rank 1 (not in a collective)" in line


def test_polling_is_waiting() -> None:
    wait = "\n    ".join(
        ["handle = ft.allreduce_async(np.ones(4))", "while not ft.poll(handle): time.sleep(0.01)"]
    )
    line = told(stalled(2, 1, "time.sleep(60)", wait))

    assert "for rank 1 (not in a collective)" in line


@pytest.mark.parametrize("reason", ["stalled", "exception"])
def test_job_ends_without_a_launcher_that_answers(reason: str) -> None:
    """As when a launcher's host is lost: nobody does what MPI_Abort asks for."""
    skip_without_mpi()
    waits = "ft.barrier()" if reason == "stalled" else "raise ValueError('no more data')"
    program = f"""
        import os, signal, subprocess, sys, time
        from pathlib import Path
        import floodtide as ft
        ft.init(timeout_s={TIMEOUT_S})
        ft.barrier()
        if ft.rank() == 1:
            loader = subprocess.Popen(["sleep", "1000"])
            print(loader.pid, os.getpid(), flush=True)
            time.sleep(1000)
        print(os.getpid(), flush=True)
        time.sleep(0.5)
        launcher = os.getppid()
        while "hydra_pmi_proxy" in Path(f"/proc/{{launcher}}/comm").read_text():
            os.kill(launcher, signal.SIGSTOP)
            launcher = int(Path(f"/proc/{{launcher}}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(launcher, signal.SIGSTOP)
        {waits}
    """
    result = script(2, program, timeout_s=60)

    assert result.status != 0
    assert result.seconds < START_S + TIMEOUT_S + MARGIN_S
    pids = [int(pid) for pid in result.stdout.split()]
    assert len(pids) == 3
    assert not wait_until_gone(pids, 1.0)


def test_ranks_that_compute_are_left_alone() -> None:
    out = check(
        3,
        """
        import time
        import numpy as np
        import floodtide as ft
        ft.init(timeout_s=0.8)
        half = ft.ProcessSet([0, 2])
        time.sleep(1.2)  # all ranks compute, and no rank waits
        ft.allreduce(np.ones(3))
        if half.included():
            ft.barrier(process_set=half)
        print("done")
        """,
    )

    assert out.split() == 3 * ["done"]


def test_slow_rank_within_the_limit_or_without_one_is_waited_for() -> None:
    out = check(
        2,
        """
        import time
        import floodtide as ft
        for timeout_s in (0, None, float("inf"), 30):
            ft.init(timeout_s=timeout_s)
            if ft.rank() == 1:
                time.sleep(0.3)
            ft.barrier()
            print(ft.rank())
            ft.shutdown()
        """,
    )

    assert sorted(out.split()) == 4 * ["0"] + 4 * ["1"]


def test_init_shutdown_and_init_again_watch_each_time() -> None:
    result = script(
        2,
        """
        import time
        import floodtide as ft
        for _ in range(3):
            ft.init(timeout_s=1)
            ft.init()
            assert ft.is_initialized()
            ft.barrier()
            ft.shutdown()
            assert not ft.is_initialized()
        ft.init(timeout_s=1)
        if ft.rank() == 1:
            time.sleep(60)
        ft.barrier()
        """,
        timeout_s=40,
    )

    assert result.status != 0
    assert "for rank 1 (not in a collective)" in told(result)


def test_mpi4py_communicators_are_watched_and_mpi_may_be_ended_by_hand() -> None:
    pytest.importorskip("mpi4py")
    program = """
        import sys, time
        from mpi4py import MPI
        import floodtide as ft
        half = MPI.COMM_WORLD.Split(0, -MPI.COMM_WORLD.rank)
        ft.init(half, timeout_s=1)
        pair = ft.ProcessSet(half)
        ft.barrier(process_set=pair)
        if len(sys.argv) > 1:
            if ft.rank() == 1:
                time.sleep(60)
            ft.barrier(process_set=pair)
        ft.shutdown()
        MPI.Finalize()
        print("ended")
    """
    result = script(2, program)
    stalled = mpiexec(2, ["-c", textwrap.dedent(program), "stall"], timeout_s=40)

    assert (result.status, result.stdout.split()) == (0, ["ended", "ended"]), result.stderr
    assert stalled.status != 0
    assert "barrier, of the process set of ranks 0, 1 for rank 1 (not in a collective)" in told(
        stalled
    )


def test_with_mpi4py_ranks_wait_in_shutdown_because_mpi_may_end_after_it() -> None:
    pytest.importorskip("mpi4py")
    late = script(
        2,
        """
        import time
        from mpi4py import MPI
        import floodtide as ft
        ft.init(timeout_s=20)
        start_s = time.monotonic()
        time.sleep(ft.rank())
        ft.shutdown()
        print(time.monotonic() - start_s >= 1)
        """,
    )
    missing = script(
        2,
        """
        import time
        from mpi4py import MPI
        import floodtide as ft
        ft.init(timeout_s=1)
        if ft.rank() == 1:
            time.sleep(60)
        ft.shutdown()
        """,
        timeout_s=40,
    )

    assert (late.status, late.stdout.split()) == (0, ["True", "True"]), late.stderr
    assert missing.status != 0
    assert "shutdown: another rank has not called it within 1 s" in missing.stderr


def test_no_thread_is_started_with_one_rank_or_without_a_limit() -> None:
    program = """
        import os, sys
        import floodtide as ft
        def threads(): return len(os.listdir("/proc/self/task"))
        ft.init(timeout_s=0)
        before = threads()
        ft.shutdown()
        ft.init(timeout_s=5)
        print(threads() - before)
    """

    assert check(1, program, alone=True).split() == ["0"]
    assert check(2, program, alone=True).split() == ["1", "1"]


@pytest.mark.parametrize("timeout_s", ["-1", "'5'", "True", "float('nan')"])
def test_timeout_is_checked(timeout_s: str) -> None:
    out = check(
        2,
        f"""
        import floodtide as ft
        try:
            ft.init(timeout_s={timeout_s})
        except ft.errors.InvalidArgumentError as error:
            print(error)
        """,
    )

    assert out.splitlines() == 2 * [out.splitlines()[0]]
    assert "expected a number of seconds, or 0 or None for no limit" in out
