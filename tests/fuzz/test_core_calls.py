# SPDX-License-Identifier: Apache-2.0
"""No arguments of Python make the compiled core end the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import floodtide

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(
    ("calls", "seed"), [(6000, 1), pytest.param(60_000, 2, marks=pytest.mark.extra)]
)
def test_calls_with_other_arguments_than_expected_come_back(calls: int, seed: int) -> None:
    run = subprocess.run(
        [sys.executable, str(HERE / "core_calls.py"), "--calls", str(calls), "--seed", str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(floodtide.__file__).parents[1])},
        timeout=600,
    )
    last = "\n".join(run.stdout.splitlines()[-4:])
    assert run.returncode == 0, f"{last}\n{run.stderr}"
