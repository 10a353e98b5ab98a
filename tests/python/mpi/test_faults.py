# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed or leave, and rank 0's disk that fails, while they train."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
from launch import mpiexec, skip_without_mpi
from training_volume import document, write_volume

pytestmark = [pytest.mark.mpi, pytest.mark.extra]

FAULTS = Path(__file__).parents[1] / "faults"
sys.path.insert(0, str(FAULTS))

import hangs  # noqa: E402
from storage_faults import build  # noqa: E402


def test_runs_killed_at_random_moments_end_with_the_same_bits() -> None:
    skip_without_mpi()
    ended = subprocess.run(
        [sys.executable, str(FAULTS / "random_kills.py"), "--kills", "3", "--seed", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "all with the bits of the run that was not killed" in ended.stdout


def test_rank_that_leaves_early_is_named_in_time(tmp_path: Path) -> None:
    skip_without_mpi()
    write_volume(tmp_path)
    case = hangs.Case("exit", "training", 1)

    _, line = hangs.trial(tmp_path, case, 2, random.Random(0))  # asserts that the job is over

    assert "for rank 1 (" in line or "rank 1 has been silent" in line


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return build(tmp_path_factory.mktemp("library"))


def test_failing_disk_of_rank_0_is_one_line_of_the_job(tmp_path: Path, library: Path) -> None:
    write_volume(tmp_path)
    run = tmp_path / "run"
    path = tmp_path / "run.toml"
    path.write_text(tomli_w.dumps(document(tmp_path, training={"steps": 3})))
    fault = f"2 2 {tmp_path}/calls {run / 'log.jsonl'}"  # the second call: a line after opening
    result = mpiexec(
        2,
        ["-m", "floodtide", "train", str(path)],
        env={"LD_PRELOAD": str(library), "FLOODTIDE_FAULT": fault},
    )

    assert result.status == 1, result.stderr
    lines = [line for line in result.stderr.splitlines() if str(run) in line]
    assert len(lines) == 1, result.stderr
    assert "No space left on device" in lines[0]
    assert "Traceback" not in result.stderr
    assert not list((run / "checkpoints").glob(".*"))
