# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed or full: no traceback, and the exit status is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import floodtide

PROGRAM = f"{sys.executable} -m floodtide"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["raw"] = np.arange(512, dtype=np.uint8).reshape(8, 8, 8)
    return tmp_path


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = str(Path(floodtide.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, cwd=folder, env=environment, timeout=60
    )


@pytest.mark.parametrize("streams", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_commands_work_without_standard_error(folder: Path, streams: str) -> None:
    good = shell(f"{PROGRAM} convert v.h5:raw v.tif {streams}", folder)
    wrong = shell(f"{PROGRAM} convert v.h5:none w.tif {streams}", folder)

    assert (good.returncode, good.stderr) == (0, "")
    assert (wrong.returncode, wrong.stdout + wrong.stderr) == (2, "")
    assert (folder / "v.tif").exists()


def test_a_full_standard_output_is_an_error(folder: Path) -> None:
    full = shell(f"{PROGRAM} info >/dev/full", folder)

    assert full.returncode == 1
    assert full.stderr == "floodtide info: No space left on device\n"


def test_notes_never_go_to_standard_output(folder: Path) -> None:
    script = (
        "from floodtide.base import notes; notes.show('a'); notes.warn('b'); notes.line('c');"
        "from floodtide.base.progress import bar\n"
        "with bar('x', 'y') as progress: progress(1, 2)"
    )
    (folder / "script.py").write_text(script)

    result = shell(f"{sys.executable} script.py 2>&-", folder)

    assert (result.returncode, result.stdout) == (0, "")


def test_json_is_whole_without_standard_error(folder: Path) -> None:
    result = shell(f"{PROGRAM} info --json 2>&-", folder)

    assert result.returncode == 0
    assert "version" in json.loads(result.stdout)
