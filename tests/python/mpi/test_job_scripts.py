# SPDX-License-Identifier: Apache-2.0
"""The scripts of `floodtide job`, run as a scheduler would, with stand-ins for its programs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from launch import ENVIRONMENT, MPIEXEC, skip_without_mpi
from processes import kill_job
from training_volume import document, write_volume

from floodtide import cli
from floodtide.train import read_log
from floodtide.train.run_directory import RunDirectory

pytestmark = [pytest.mark.mpi, pytest.mark.extra, pytest.mark.any_library]

SUBMIT = {"slurm": "sbatch", "pbs": "qsub"}
CANCEL = {"slurm": "scancel", "pbs": "qdel"}


class Cluster:
    """A folder with a configuration, and programs that note what the script asks of the scheduler."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.touch()
        (folder / "bin").mkdir()
        for scheduler in SUBMIT:
            self.program(SUBMIT[scheduler], 'echo "submit $*" >>"$NOTES"; echo 77')
            self.program(CANCEL[scheduler], 'echo "cancel $*" >>"$NOTES"')
        self.program("floodtide", f'exec "{sys.executable}" -m floodtide "$@"')

    def program(self, name: str, text: str) -> Path:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return path

    def write(self, scheduler: str, *arguments: str, **training: Any) -> Path:
        config = document(
            self.folder,
            run={"dir": str(self.folder / "run"), "log_every_s": 0.05},
            training={"walkers": 2, **training},
        )
        (self.folder / "c.toml").write_text(tomli_w.dumps(config))
        out = self.folder / f"c.{scheduler}"
        options = ["--nodes", "1", "--ranks-per-node", "2", "--cores-per-node", "2"]
        out.unlink(missing_ok=True)
        command = ["job", scheduler, str(self.folder / "c.toml"), *options, "--out", str(out)]
        if "--time" not in arguments:
            arguments = ("--time", "01:00:00", *arguments)
        assert cli.run([*command, *arguments]) == 0
        text = re.sub("launcher=.*", f"launcher=('{MPIEXEC}' -n 2)", out.read_text())
        out.write_text(text)
        return out

    def start(self, script: Path, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(script)],
            env={
                **os.environ,
                **ENVIRONMENT,
                "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "NOTES": str(self.notes),
                "SLURM_SUBMIT_DIR": str(self.folder),
                "SLURM_JOB_ID": "76",
                "PBS_O_WORKDIR": str(self.folder),
                "PBS_JOBID": "76",
                "TMPDIR": str(self.folder),
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: Path, **variables: str) -> tuple[int, str]:
        return self.finish(self.start(script, **variables))

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        try:
            output, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            kill_job(process)
            pytest.fail(f"no end of the script: {process.communicate()}")
        return process.returncode, output

    def asked(self) -> list[str]:
        lines = self.notes.read_text().splitlines()
        self.notes.write_text("")
        return lines

    def steps(self) -> int:
        newest = RunDirectory(self.folder / "run", writer=True).newest_checkpoint()
        return int(Path(newest).stem.removeprefix("step-")) if newest else 0


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    skip_without_mpi()
    write_volume(tmp_path)
    return Cluster(tmp_path)


@pytest.mark.parametrize("scheduler", SUBMIT)
def test_finished_training_cancels_the_next_job_and_submits_no_more(
    cluster: Cluster, scheduler: str
) -> None:
    script = cluster.write(scheduler, steps=6)

    status, output = cluster.run(script)

    assert status == 0, output
    assert "2 walkers on 2 ranks" in output
    assert "steps done: 0 before this job, 6 of 6 now" in output
    submitted, cancelled = cluster.asked()
    assert "afterany:76" in submitted
    assert "FLOODTIDE_JOB=2" in submitted
    assert submitted.endswith(str(script))
    assert cancelled == "cancel 77"

    status, output = cluster.run(script)  # a job that was in the queue already
    assert (status, output) == (0, "all 6 steps are done\n")
    assert cluster.asked() == []


def test_signal_before_the_limit_saves_and_the_next_job_goes_on(cluster: Cluster) -> None:
    script = cluster.write("slurm", steps=1_000_000)
    process = cluster.start(script)
    log = cluster.folder / "run" / "log.jsonl"
    deadline = time.monotonic() + 40
    while not any(record["kind"] == "train" for record in read_log(log)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # to the script alone, as --signal=B:TERM does
    status, output = cluster.finish(process)

    done = cluster.steps()
    assert status == 0, output
    assert done > 0
    assert "asked to stop: saving" in output
    assert f"stopped at step {done} of 1000000 with a checkpoint" in output
    assert "job 77 goes on" in output
    assert [line.split()[0] for line in cluster.asked()] == ["submit"]

    script = cluster.write("slurm", steps=done + 2)
    status, output = cluster.run(script, FLOODTIDE_JOB="2")
    assert status == 0, output
    assert cluster.steps() == done + 2
    assert "FLOODTIDE_JOB=3" in cluster.asked()[0]


def test_pbs_timer_stops_the_training_before_the_limit(cluster: Cluster) -> None:
    script = cluster.write("pbs", "--time", "00:03:00", steps=1_000_000)
    text = script.read_text()
    assert text.count("sleep $((60 - SECONDS)) &") == 1
    log = cluster.folder / "run" / "log.jsonl"
    trains = f"until grep -qs '\"train\"' '{log}'; do sleep 0.1; done &"  # the test's patience
    script.write_text(text.replace("sleep $((60 - SECONDS)) &", trains))

    status, output = cluster.run(script)

    assert status == 0, output
    assert cluster.steps() > 0
    assert "asked to stop: saving" in output


def test_wrong_input_ends_the_row_of_jobs_with_its_status(cluster: Cluster) -> None:
    script = cluster.write("slurm", steps=6)
    (cluster.folder / "volume.h5").unlink()

    status, output = cluster.run(script)

    assert status & 2, output
    assert "this job has saved nothing new" in output
    assert [line.split()[0] for line in cluster.asked()] == ["submit", "cancel"]


def test_last_job_of_a_row_submits_no_other(cluster: Cluster) -> None:
    script = cluster.write("slurm", steps=6)
    script.write_text(script.read_text().replace("max_jobs=20", "max_jobs=3"))

    status, output = cluster.run(script, FLOODTIDE_JOB="3")

    assert status == 0, output
    assert cluster.asked() == []


def test_archive_is_unpacked_once_for_all_ranks_of_a_node(cluster: Cluster) -> None:
    environment = cluster.folder / "environment" / "bin"
    environment.mkdir(parents=True)
    python = environment / "python"
    python.write_text(f'#!/bin/bash\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    archive = cluster.folder / "my environment.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(environment.parent, arcname=".")
    cluster.program("tar", 'echo "unpack" >>"$NOTES"; exec /bin/tar "$@"')
    script = cluster.write("slurm", "--environment", str(archive), steps=3)

    status, output = cluster.run(script)

    assert status == 0, output
    assert cluster.steps() == 3
    assert [line.split()[0] for line in cluster.asked()] == ["submit", "unpack", "cancel"]
