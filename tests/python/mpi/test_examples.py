# SPDX-License-Identifier: Apache-2.0
"""The example driver script trains on several ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w
from launch import mpiexec
from training_volume import document, write_volume

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.mpi


def test_the_driver_script_trains_and_reports_on_rank_0(tmp_path: Path) -> None:
    write_volume(tmp_path)
    (tmp_path / "run.toml").write_text(tomli_w.dumps(document(tmp_path)))
    script = str(ROOT / "examples/train_mpi.py")
    result = mpiexec(2, [script, str(tmp_path / "run.toml"), "training.steps=4"])
    assert result.status == 0, result.stderr
    assert (tmp_path / "run/checkpoints/step-4.h5").is_file()
    assert [line for line in result.stdout.splitlines() if line.startswith("step 4: loss ")]
