# SPDX-License-Identifier: Apache-2.0
"""Compute threads: the cores on which they run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import time
from pathlib import Path
import numpy as np
import floodtide as ft
from floodtide import _core

def cores():
    tasks = Path("/proc/self/task").iterdir()
    lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
    return [line.split()[1] for line in lines if line.startswith("Cpus_allowed_list")]

_core.set_num_threads(2)
network = ft.nn.FFN(depth=2, fov=(9, 9, 9), deltas=(0, 0, 0), features=16)
network.forward(np.zeros((9, 9, 9), np.float32), np.zeros((9, 9, 9), np.float32))
end = time.monotonic() + 10
while len(set(cores())) < 2 and time.monotonic() < end:
    time.sleep(0.01)
print(*sorted(cores()))
"""


@pytest.mark.parametrize("variable", ["OMP_PROC_BIND=close", "OMP_PLACES=cores"])
def test_bound_threads_have_a_place_each(variable: str) -> None:
    """OpenMP binds the main thread to its place; compute threads must not share it."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        pytest.skip("this processor has one core for this process; two places need two")
    name, value = variable.split("=")
    shown = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    places = shown.stdout.split()
    assert len(places) == 2
    assert places[0] != places[1]


IDLE = """
import sys, time
import numpy as np
import floodtide as ft
from floodtide import _core

_core.set_num_threads(2)
network = ft.nn.FFN(depth=2, fov=(9, 9, 9), deltas=(0, 0, 0), features=16)
network.forward(np.zeros((9, 9, 9), np.float32), np.zeros((9, 9, 9), np.float32))
begin, end = time.process_time(), time.monotonic() + float(sys.argv[1])
while time.process_time() - begin < 0.1 and time.monotonic() < end:
    time.sleep(0.02)
print(time.process_time() - begin)
"""


@pytest.mark.parametrize(
    ("policy", "polls", "limit_s"), [("passive", False, 0.4), ("ACTIVE", True, 30)]
)
def test_idle_threads_sleep_unless_they_are_to_poll(
    policy: str, polls: bool, limit_s: float
) -> None:
    """Of 0.4 s, sleeping threads use nearly nothing. Polling ones use all that a busy machine gives them."""
    shown = subprocess.run(
        [sys.executable, "-c", IDLE, str(limit_s)],
        env={**os.environ, "OMP_WAIT_POLICY": policy},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (float(shown.stdout) >= 0.1) == polls
