# SPDX-License-Identifier: Apache-2.0
"""A disk that fails, and kills, while a run writes its directory: a part of storage_faults.py's trials."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.extra

CAMPAIGN = Path(__file__).with_name("storage_faults.py")


def test_every_fsync_and_rename_and_some_other_calls() -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    ended = subprocess.run(
        [sys.executable, str(CAMPAIGN), "--sample", "1", "--seed", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "trials, 0 of them wrong" in ended.stdout
