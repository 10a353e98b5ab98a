# SPDX-License-Identifier: Apache-2.0
"""Ends processes of a test, and tells which of them still run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import psutil


def kill(pids: Sequence[int]) -> None:
    """Send SIGKILL; a process that is gone already is left alone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_job(launcher: subprocess.Popen[Any]) -> None:
    """Send SIGKILL to a launcher and to every process that it started, also in other sessions and process groups.

    The ranks are killed first, so that the launcher cannot end them in an orderly way.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        started = psutil.Process(launcher.pid).children(recursive=True)
        kill([*(member.pid for member in reversed(started)), launcher.pid])


def alive(pids: Sequence[int]) -> list[int]:
    """Return the processes that still run."""
    return [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pids: Sequence[int], seconds: float) -> list[int]:
    """Wait until the processes have ended, at most `seconds`, and return those that still run."""
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive(pids)
