# SPDX-License-Identifier: Apache-2.0
"""Jobs that want the same run directory or output: one has it, the others are refused on all ranks, nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from launch import ENVIRONMENT, MPIEXEC, Result, mpiexec, shared, skip_without_mpi
from processes import kill_job
from training_volume import document, write_volume

from floodtide.train.run_directory import LOCK, read_log

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

STEPS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("locks")
    write_volume(path)
    return path


def configuration(folder: Path, name: str, steps: int = STEPS) -> str:
    sections: dict[str, dict[str, Any]] = {
        "run": {"dir": str(folder / name), "log_every_s": 0.0, "checkpoint_every_s": 0.0},
        "training": {"steps": steps, "walkers": 2},
        "validation": {"box": ""},
    }
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(document(folder, **sections)))
    return str(path)


class Job:
    """A training on two ranks that goes on while the test looks."""

    def __init__(self, path: str, run: Path) -> None:
        skip_without_mpi()
        command = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "floodtide", "train", path]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while not list(run.glob("checkpoints/step-*.h5")):
            assert time.monotonic() < deadline, "no checkpoint"
            assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill ranks and launcher."""
        kill_job(self.process)
        self.process.communicate()


def train(path: str) -> Result:
    return mpiexec(2, ["-m", "floodtide", "train", path], timeout_s=90)


def digest(path: Path) -> str:
    import h5py

    found = hashlib.sha256()
    with h5py.File(path) as file:
        file["parameters"].visititems(
            lambda name, item: (
                found.update(name.encode() + item[()].tobytes())
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    return found.hexdigest()


def test_a_second_job_is_refused_and_the_first_one_ends_with_the_same_bits(folder: Path) -> None:
    run, path = folder / "shared", configuration(folder, "shared", 100 * STEPS)
    job = Job(path, run)
    owner = json.loads((run / LOCK).read_text())
    config = (run / "config.toml").read_bytes()
    second = train(configuration(folder, "shared"))
    assert second.status == 1, second.stderr
    lines = [line for line in second.stderr.splitlines() if "floodtide train: " in line]
    assert len(lines) == 1, second.stderr
    assert f"{run} is in use by process {owner['process']} on host {owner['host']}" in lines[0]
    assert "another run.dir" in lines[0]
    assert "Traceback" not in second.stderr
    assert job.process.poll() is None
    assert (run / "config.toml").read_bytes() == config
    os.kill(owner["process"], signal.SIGTERM)  # saves and stops
    _, said = job.process.communicate(timeout=60)
    assert job.process.returncode == 0, said
    assert not (run / LOCK).exists()
    steps = [record["step"] for record in read_log(run / "log.jsonl") if record["kind"] == "train"]
    assert steps == list(range(1, steps[-1] + 1))
    last = steps[-1] + 5
    again = train(configuration(folder, "shared", last))
    assert again.status == 0, again.stderr
    alone = train(configuration(folder, "alone", last))
    assert alone.status == 0, alone.stderr
    checkpoint = f"checkpoints/step-{last}.h5"
    assert digest(run / checkpoint) == digest(folder / "alone" / checkpoint)


def test_a_job_that_was_killed_is_followed_at_once_by_one_with_the_same_bits(folder: Path) -> None:
    run = folder / "killed"
    job = Job(configuration(folder, "killed", 100 * STEPS), run)
    job.kill()
    assert (run / LOCK).exists()
    newest = max(int(p.stem.split("-")[1]) for p in run.glob("checkpoints/step-*.h5"))
    steps = newest + 5
    again = train(configuration(folder, "killed", steps))
    assert again.status == 0, again.stderr
    whole = train(configuration(folder, "whole", steps))
    assert whole.status == 0, whole.stderr
    name = f"checkpoints/step-{steps}.h5"
    assert digest(run / name) == digest(folder / "whole" / name)
    left = [p.name for p in run.rglob("*") if p.name.startswith(".") or p.name == LOCK]
    assert not left


HELD = """
import sys
from floodtide.comm import world
from floodtide.base.outputs import reserved, unchecked
from floodtide.cli import run
with reserved("test", sys.argv[1], unchecked):
    import subprocess
    print(subprocess.run(sys.argv[2:], capture_output=True, text=True))
"""


def test_an_output_that_another_process_writes_is_refused_on_all_ranks(folder: Path) -> None:
    skip_without_mpi()
    out = folder / "out.h5"
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "floodtide", "partition"]
    command += [f"{folder}/volume.h5:labels", f"{out}:af", "--lom-radius", "2,2,2"]
    script = [sys.executable, "-c", HELD, str(out), *command]
    environment = {**os.environ, **ENVIRONMENT}
    held = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=60)
    assert "returncode=1" in held.stdout, held.stdout + held.stderr
    assert held.stdout.count("is in use by process") == 1
    assert not list(folder.glob("*out.h5*"))


def test_an_input_as_output_is_refused_on_all_ranks(folder: Path) -> None:
    before = (folder / "volume.h5").read_bytes()
    (folder / "link.h5").symlink_to("volume.h5")
    arguments = [f"{folder}/volume.h5:labels", f"{folder}/link.h5:labels", "--lom-radius", "2,2,2"]
    result = shared(2, ["-m", "floodtide", "partition", *arguments], status=2)
    assert result.status == 2, result.stderr
    assert result.stderr.count("is also the input") == 1
    assert (folder / "volume.h5").read_bytes() == before
