# SPDX-License-Identifier: Apache-2.0
"""Jobs over several hosts: places, traffic, training, and the commands around it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from launch import ENVIRONMENT, mpiexec
from launch_hosts import check, command, run
from network import Network
from storage_faults import checkpoints
from training_volume import document, write_volume

from floodtide import cli
from floodtide.train import read_log

pytestmark = [pytest.mark.mpi, pytest.mark.extra]

# Frames and acknowledgements beside the values, and what launchers and libraries tell each other meanwhile.
OVERHEAD = 1.1
STEPS = 20
CHATTER_BYTES = 200_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hosts")
    write_volume(path)
    return path


@pytest.fixture
def namesakes() -> Iterator[Network]:
    """Two hosts that call themselves alike, as machines copied from one image do."""
    with Network(["alpha", "beta"], host_names=["node", "node"]) as made:
        yield made


def configuration(folder: Path, name: str, **sections: Any) -> str:
    sections["run"] = {"dir": str(folder / name), **sections.get("run", {})}
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(document(folder, **sections)))
    return str(path)


PLACES = """
    import json, socket
    import floodtide as ft
    ft.init()
    own = [socket.gethostname(), ft.local_rank(), ft.local_size(), ft.cross_rank(), ft.cross_size()]
    print(json.dumps([ft.rank(), *own]), flush=True)
"""


def places(network: Network, **options: Any) -> list[list[Any]]:
    """What each rank says of itself, in the order of ranks."""
    said = check(network, PLACES, **options)
    return sorted(json.loads(line) for line in re.findall(r"\[.*?\]", said))


def test_ranks_know_their_place_on_three_hosts(hosts: Network) -> None:
    names = hosts.names[:3]

    found = places(hosts, hosts=names, ranks_per_host=2)

    expected = [
        [2 * number + local, name, local, 2, number, 3]
        for number, name in enumerate(names)
        for local in range(2)
    ]
    assert found == expected


def test_hosts_of_one_name_are_two_hosts(namesakes: Network) -> None:
    found = places(namesakes, ranks_per_host=2)

    assert [row[2:] for row in found] == [[0, 2, 0, 2], [1, 2, 0, 2], [0, 2, 1, 2], [1, 2, 1, 2]]


SUMS = """
    import numpy as np
    import floodtide as ft
    ft.init()
    array = np.arange({count}, dtype=np.float32) % 7 + ft.rank()
    total = ft.allreduce(array, op=ft.Sum, algorithm="{algorithm}")
    expected = ft.size() * (np.arange({count}) % 7) + sum(range(ft.size()))
    np.testing.assert_array_equal(total, expected)
"""


# Bytes that leave the first of two hosts with two ranks each, for each byte of the array: the two ranks of a host own
# half each and exchange it with their partner; a ring of four crosses each cable with 2 (4 - 1) / 4.
@pytest.mark.parametrize(("algorithm", "crossing"), [("two_level", 1.0), ("ring", 1.5)])
def test_sum_crosses_the_cable_as_often_as_its_algorithm_says(
    namesakes: Network, algorithm: str, crossing: float
) -> None:
    count = 2_000_000
    before = namesakes.traffic("alpha")

    check(namesakes, SUMS.format(count=count, algorithm=algorithm), ranks_per_host=2)

    for received_or_sent, earlier in zip(namesakes.traffic("alpha"), before, strict=True):
        crossed = received_or_sent - earlier
        assert crossing * 4 * count <= crossed <= crossing * 4 * count * OVERHEAD + CHATTER_BYTES


def test_training_has_the_same_bits_on_one_host_and_on_several(
    hosts: Network, folder: Path
) -> None:
    training = {"steps": STEPS, "walkers": 4}
    one = ["-m", "floodtide", "train", configuration(folder, "one", training=training)]
    assert mpiexec(2, one).status == 0

    path = configuration(folder, "two", training=training)
    names = hosts.names[:2]
    before = hosts.traffic(names[1])[1]
    done = run(hosts, ["-m", "floodtide", "train", path], hosts=names)

    assert done.status == 0, done.stderr
    assert checkpoints(folder / "two") == checkpoints(folder / "one")
    parameters = read_log(folder / "two" / "log.jsonl")[0]["parameters"]
    assert hosts.traffic(names[1])[1] - before > STEPS * 4 * parameters  # at least once a step


def test_training_by_workers_has_the_bits_of_one_rank(hosts: Network, folder: Path) -> None:
    sections = {"training": {"steps": STEPS, "walkers": 6}, "comm": {"exactness": "workers"}}
    alone = ["-m", "floodtide", "train", configuration(folder, "alone", **sections)]
    assert mpiexec(1, alone).status == 0

    path = configuration(folder, "spread", **sections)
    names = hosts.names[:3]
    done = run(hosts, ["-m", "floodtide", "train", path], hosts=names)

    assert done.status == 0, done.stderr
    assert checkpoints(folder / "spread") == checkpoints(folder / "alone")


def test_info_of_the_machine_counts_hosts_of_one_name(namesakes: Network, folder: Path) -> None:
    path = configuration(folder, "examined")

    done = run(
        namesakes,
        ["-m", "floodtide", "info", "--machine", path, "--json"],
        ranks_per_host=2,
        timeout_s=120,
    )

    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    by_check = {finding["check"]: finding for finding in found}
    assert by_check["launcher"]["text"].startswith("4 ranks on 2 hosts, ")


def test_signal_to_a_job_script_makes_the_ranks_of_all_hosts_save(
    hosts: Network, folder: Path
) -> None:
    sections = {"run": {"log_every_s": 0.1}, "training": {"steps": 10**6, "walkers": 2}}
    path = configuration(folder, "job", **sections)
    line = command(hosts, [], hosts=hosts.names[:2])
    python = line.index(sys.executable)
    script = folder / "job.pbs"
    wrapper = folder / "floodtide"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m floodtide "$@"\n')
    wrapper.chmod(0o755)
    options = ["--nodes", "2", "--ranks-per-node", "1", "--cores-per-node", "1"]
    options += ["--time", "01:00:00", "--out", str(script)]
    assert cli.run(["job", "pbs", path, *options]) == 0
    launcher = f"launcher=({shlex.join(line[:python])})"
    text = re.sub("launcher=.*", lambda _: launcher, script.read_text())
    script.write_text(text.replace("max_jobs=20", "max_jobs=1"))
    job = subprocess.Popen(
        ["bash", str(script)],
        env={
            **os.environ,
            **ENVIRONMENT,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PBS_O_WORKDIR": str(folder),
            "PBS_JOBID": "76",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        log = folder / "job" / "log.jsonl"
        deadline = time.monotonic() + 40
        while not any(record["kind"] == "train" for record in read_log(log)):
            assert job.poll() is None, job.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
        said, _ = job.communicate(timeout=40)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()

    assert job.returncode == 0, said
    assert "2 walkers on 2 ranks" in said
    assert re.search(r"stopped at step \d+ of 1000000 with a checkpoint", said), said
    assert list((folder / "job" / "checkpoints").glob("step-*.h5"))
