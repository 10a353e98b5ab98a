# SPDX-License-Identifier: Apache-2.0
"""SIGTERM and SIGUSR1 end a run with a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from launch import ENVIRONMENT, MPIEXEC, mpiexec, skip_without_mpi
from processes import kill_job
from training_volume import document, write_volume

from floodtide.train import read_log
from floodtide.train.run_directory import RunDirectory

pytestmark = pytest.mark.mpi

MANY = 1_000_000  # steps that no test waits for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("signals")
    write_volume(path)
    return path


def configuration(folder: Path, name: str, steps: int = MANY) -> str:
    sections: dict[str, dict[str, Any]] = {
        "run": {"dir": str(folder / name), "log_every_s": 0.05},
        "training": {"steps": steps},
    }
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(document(folder, **sections)))
    return str(path)


def steps_logged(directory: Path) -> int:
    records = [r for r in read_log(directory / "log.jsonl") if r["kind"] == "train"]
    return records[-1]["step"] if records else 0


def wait_for_steps(process: subprocess.Popen[str], directory: Path, steps: int) -> None:
    deadline = time.monotonic() + 40
    while steps_logged(directory) < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "training does not advance"
        time.sleep(0.05)


# A rank tells its process id, then trains as the command line does.
TRAIN = """
import os, sys, floodtide
from floodtide.cli import main
floodtide.init()
open(f"{sys.argv[2]}.{floodtide.rank()}", "w").write(str(os.getpid()))
main(["train", sys.argv[1]])
"""


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    skip_without_mpi()
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-c", TRAIN]
    return subprocess.Popen(
        [*command, configuration(folder, name), str(folder / name)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        _, stderr = process.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        kill_job(process)
        pytest.fail(f"no end after the signal: {process.communicate()}")
    return process.returncode, stderr


@pytest.mark.parametrize(("rank", "name"), [(0, "SIGTERM"), (1, "SIGUSR1")])
def test_signal_to_any_rank_stops_all_with_a_checkpoint(folder: Path, rank: int, name: str) -> None:
    directory = folder / f"{name}{rank}"
    process = start(folder, directory.name)
    wait_for_steps(process, directory, 5)
    os.kill(int(Path(f"{directory}.{rank}").read_text()), getattr(signal, name))
    status, stderr = finish(process)

    assert status == 0, stderr
    newest = RunDirectory(directory, writer=True).newest_checkpoint()
    last = steps_logged(directory)
    assert newest.endswith(f"step-{last}.h5")
    assert f"stopped at step {last} of {MANY} with a checkpoint" in stderr
    kinds = [record["kind"] for record in read_log(directory / "log.jsonl")]
    assert "validation" not in kinds  # the time before the kill belongs to the checkpoint

    # And it goes on from there, on one rank.
    path = configuration(folder, directory.name, steps=last + 2)
    assert mpiexec(1, ["-m", "floodtide", "train", path]).status == 0
    resumed = [r for r in read_log(directory / "log.jsonl") if r["kind"] == "start"][-1]
    assert resumed["resumed_from"] == newest
    assert steps_logged(directory) == last + 2


def test_launcher_hands_sigusr1_on(folder: Path) -> None:
    process = start(folder, "launcher")
    wait_for_steps(process, folder / "launcher", 5)
    process.send_signal(signal.SIGUSR1)
    status, stderr = finish(process)

    assert status == 0, stderr
    assert "with a checkpoint: the same command resumes from there" in stderr
