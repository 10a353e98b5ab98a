# SPDX-License-Identifier: Apache-2.0
"""`floodtide train --tuned` on two ranks: waiting policy, cores of each rank, and wrong files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tomli_w
import training_volume
from launch import mpiexec

from floodtide import _core

pytestmark = [pytest.mark.mpi, pytest.mark.any_library, pytest.mark.extra]

TUNED = """\
# Written by floodtide tune.
[tuned]
ranks = 2
threads = 1
walkers = 1
bind = "ranks"
wait = "active"
processor = "P"
cores = 2
reason = "R"
"""
CORES = """\
import os
import floodtide as ft
from floodtide.train.threads import bind_ranks
ft.init()
bind_ranks()
cores = [set(map(int, one.split())) for one in
         ft.comm.world.allgather_bytes(" ".join(map(str, os.sched_getaffinity(0))).encode())]
assert not cores[0] & cores[1], cores
bind_ranks()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 3, "walkers": 2})
    (tmp_path / "base.toml").write_text(tomli_w.dumps(document))
    (tmp_path / "tuned.toml").write_text(TUNED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_ranks_take_up_the_setting(folder: Path) -> None:
    command = ["-m", "floodtide", "train", "base.toml", "--tuned", "tuned.toml"]
    result = mpiexec(2, command, env={"OMP_DISPLAY_ENV": "true", "OMP_WAIT_POLICY": "passive"})
    assert result.status == 0, result.stderr
    assert result.stderr.count("OMP_WAIT_POLICY = 'ACTIVE'") >= 2
    assert "measured on P with 2 cores" in result.stderr
    assert 'bind = "ranks"' in (folder / "run" / "config.toml").read_text()


def test_another_number_of_ranks_is_refused_on_every_rank(folder: Path) -> None:
    command = ["-m", "floodtide", "train", "base.toml", "--tuned", "tuned.toml"]
    result = mpiexec(3, command)
    assert result.status == 2
    assert result.stderr.count("for 2 ranks on a host, expected the 3 of this one") == 1
    assert not (folder / "run").exists()
    (folder / "tuned.toml").write_text("[tuned]\nranks = 2\n")
    assert mpiexec(2, command).status == 2


@pytest.mark.skipif(_core.available_cores() < 2, reason="one core cannot be shared out")
def test_each_rank_has_cores_of_its_own() -> None:
    assert len(os.sched_getaffinity(0)) >= 2
    result = mpiexec(2, ["-c", CORES])
    assert result.status == 0, result.stderr
