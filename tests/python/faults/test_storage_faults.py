# SPDX-License-Identifier: Apache-2.0
"""A disk that fails, and kills, while a run writes its directory: a part of storage_faults.py's trials."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from storage_faults import Call, disorder

CAMPAIGN = Path(__file__).with_name("storage_faults.py")


@pytest.mark.slow
def test_every_fsync_and_rename_and_some_other_calls() -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    ended = subprocess.run(
        [sys.executable, str(CAMPAIGN), "--sample", "4", "--seed", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "trials, 0 of them wrong" in ended.stdout


SAFE = [
    ("write", "/r/checkpoints/a.tmp"),
    ("fsync", "/r/checkpoints/a.tmp"),
    ("rename", "/r/checkpoints/a.tmp"),
]
FOLDER = ("fsync", "/r/checkpoints")
OLD = ("unlink", "/r/checkpoints/b")


@pytest.mark.parametrize(
    ("made", "problems"),
    [
        ([*SAFE, FOLDER, OLD], 0),
        ([*SAFE, OLD, FOLDER], 1),
        ([*SAFE], 1),
        ([SAFE[1], SAFE[0], SAFE[2], FOLDER], 1),
        ([SAFE[0], SAFE[2], OLD], 2),
    ],
)
def test_order_of_calls_that_could_lose_a_file_is_seen(
    made: list[tuple[str, str]], problems: int
) -> None:
    calls = [Call(number, *call) for number, call in enumerate(made, start=1)]
    assert len(disorder(calls)) == problems
