# SPDX-License-Identifier: Apache-2.0
"""Cables that are pulled and hosts that are lost while ranks on two hosts train: named, all gone in time, resumed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w
from launch import mpiexec
from launch_hosts import HostsJob, command, run
from network import Network
from storage_faults import checkpoints
from training_volume import document, write_volume

pytestmark = [pytest.mark.mpi, pytest.mark.extra]

TIMEOUT_S = 3.0
PATIENT_S = 60.0  # of runs that nothing happens to
MARGIN_S = 5.0
START_S = 60.0
STEPS = 1000  # some seconds of training, so that a fault comes in the middle
STRIKE_AT = 100
NAMES = ["alpha", "beta"]
LAST = f"step-{STEPS}.h5"


# Loads what the first line of the log would load: that takes long where ranks share cores, while other ranks wait.
TRAIN = "import sys, tensorboardX; from floodtide.cli import main; main(['train', sys.argv[1]])"


@pytest.fixture
def pair() -> Iterator[Network]:
    """Two hosts, which a test may lose."""
    with Network(NAMES) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults")
    write_volume(path)
    return path


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> str:
    """A hash of the last checkpoint of a run that nothing happens to, on one host."""
    done = mpiexec(2, train(folder, "undisturbed", PATIENT_S))
    assert done.status == 0, done.stderr
    return checkpoints(folder / "undisturbed")[LAST]


def train(folder: Path, name: str, timeout_s: float = TIMEOUT_S) -> list[str]:
    """Arguments of Python for a training in a run directory of this name."""
    path = folder / f"{name}.toml"
    path.write_text(
        tomli_w.dumps(
            document(
                folder,
                run={
                    "dir": str(folder / name),
                    "log_every_s": 1000.0,
                    "checkpoint_every_s": 0.2,
                },
                training={"steps": STEPS, "walkers": 4},
                comm={"timeout_s": timeout_s, "exactness": "workers"},
                validation={"box": ""},
            )
        )
    )
    return ["-c", TRAIN, str(path)]


def start(
    network: Network,
    folder: Path,
    name: str,
    *,
    ranks_per_host: int = 1,
    timeout_s: float = TIMEOUT_S,
) -> HostsJob:
    """Begin a training; returns in the middle of it."""
    line = command(network, train(folder, name, timeout_s), ranks_per_host=ranks_per_host)
    said = folder / f"{name}-said"
    said.mkdir()
    job = HostsJob(line, said)
    deadline = time.monotonic() + START_S
    while newest(folder / name) < STRIKE_AT:
        if job.process.poll() is not None or time.monotonic() > deadline:
            job.close()
            raise AssertionError(f"the ranks do not begin: {job.said()}")
        time.sleep(0.01)
    return job


def newest(run_folder: Path) -> int:
    """The step of a run's last checkpoint; 0: there is none."""
    names = (run_folder / "checkpoints").glob("step-*.h5")
    return max((int(path.stem.removeprefix("step-")) for path in names), default=0)


def finish(network: Network, job: HostsJob) -> tuple[int, float]:
    """The launcher's status, and seconds until it and all processes of the hosts are gone."""
    began = time.monotonic()
    status = job.finish(TIMEOUT_S + 2 * MARGIN_S)
    while left := [pid for name in NAMES for pid in network.processes(name)]:
        assert time.monotonic() - began < TIMEOUT_S + 2 * MARGIN_S, f"{left}: {job.said()}"
        time.sleep(0.05)
    return status, time.monotonic() - began


def stop(processes: list[int], seconds: float) -> None:
    for number, pause_s in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.0)):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        time.sleep(pause_s)


def reason(folder: Path, name: str, rank: int) -> str:
    """Why the job ended, as a rank recorded it."""
    text: str = json.loads((folder / name / f"failure-rank-{rank}.json").read_text())["reason"]
    return text


def blamed(text: str) -> set[int]:
    """Return the ranks that a reason calls silent, and those that it says other ranks wait for."""
    silent = re.findall(r"rank (\d+) has been silent for", text)
    awaited = re.findall(
        r"\brank (\d+) \((?:silent since|never heard of|not in a collective)", text
    )
    return set(map(int, silent + awaited))


def test_cut_cable_ends_the_job_on_both_of_its_ends(pair: Network, folder: Path) -> None:
    job = start(pair, folder, "cut", ranks_per_host=2)

    pair.plug("beta", plugged=False)
    status, seconds = finish(pair, job)

    assert status != 0
    assert seconds <= TIMEOUT_S + MARGIN_S, job.said()
    assert newest(folder / "cut") < STEPS
    for rank in range(4):
        text = reason(folder, "cut", rank)
        assert blamed(text), text
        assert blamed(text) <= ({2, 3} if rank < 2 else {0}), text
    assert reason(folder, "cut", 0) in job.said()


@pytest.mark.parametrize("lost", NAMES)
def test_lost_host_ends_the_job_and_the_other_one_resumes_to_the_same_bits(
    pair: Network, folder: Path, undisturbed: str, lost: str
) -> None:
    name = f"lost-{lost}"
    job = start(pair, folder, name)

    pair.drop(lost)
    status, seconds = finish(pair, job)

    assert status != 0
    assert seconds <= TIMEOUT_S + MARGIN_S, job.said()
    assert newest(folder / name) < STEPS
    lost_rank = NAMES.index(lost)
    text = reason(folder, name, 1 - lost_rank)
    assert blamed(text) == {lost_rank}, text

    rest = [other for other in NAMES if other != lost]
    # The lock of a lost host is taken over two minutes after its last sign of life. Rank 1 waits for rank 0 so long.
    resumed = run(pair, train(folder, name, 300), hosts=rest, ranks_per_host=2, timeout_s=200)

    assert resumed.status == 0, resumed.stderr
    assert "resumed" in resumed.stdout + resumed.stderr
    assert checkpoints(folder / name)[LAST] == undisturbed


def test_stops_of_a_rank_do_not_hide_the_rank_that_it_waits_for(
    pair: Network, folder: Path
) -> None:
    job = start(pair, folder, "stopped")

    pair.drop("beta")
    for _ in range(4):  # as on a machine that is far too busy
        time.sleep(0.1)
        stop(pair.processes("alpha"), seconds=0.9)
    status, _ = finish(pair, job)

    assert status != 0
    text = reason(folder, "stopped", 0)
    assert blamed(text) == {1}, text


def test_cable_that_comes_back_in_time_changes_no_bit(
    pair: Network, folder: Path, undisturbed: str
) -> None:
    job = start(pair, folder, "back", timeout_s=PATIENT_S)

    pair.plug("beta", plugged=False)
    before = newest(folder / "back")
    time.sleep(1.5)
    assert newest(folder / "back") <= before + 50  # what was under way
    pair.plug("beta", plugged=True)
    status = job.finish(START_S)

    assert status == 0, job.said()
    assert checkpoints(folder / "back")[LAST] == undisturbed
