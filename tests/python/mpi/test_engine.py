# SPDX-License-Identifier: Apache-2.0
"""The distributed engine as a user meets it: bits that do not depend on ranks, hanging ranks by name, traces."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from launch import ENVIRONMENT, MPIEXEC, mpiexec, shared, skip_without_mpi
from processes import kill_job, wait_until_gone
from test_train_ranks import assert_equal, configuration, train
from training_volume import write_volume

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

TIMEOUT_S = 3.0
GRACE_S = 5.0  # beyond the timeout, in which all ranks must be gone


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine")
    write_volume(path)
    return path


def test_with_exactness_of_workers_bits_do_not_depend_on_ranks_or_algorithm(folder: Path) -> None:
    sections: dict[str, Any] = {"training": {"steps": 12, "walkers": 4}}
    one = train(folder, "exact1", 1, **sections, comm={"exactness": "workers"})
    for ranks, algorithm in ((2, "ring"), (3, "rabenseifner"), (3, "recursive_doubling")):
        comm = {"exactness": "workers", "algorithm": algorithm}
        assert_equal(one, train(folder, f"exact-{algorithm}", ranks, **sections, comm=comm))


def test_narrow_wire_and_small_buckets_train(folder: Path) -> None:
    usual = train(folder, "usual", 2)
    buckets = train(folder, "buckets", 2, comm={"bucket_mib": 0.001})
    assert_equal(usual, buckets)  # two ranks: a sum of two terms has one order
    narrow = train(folder, "narrow", 2, comm={"wire": "bf16"})
    assert any((narrow[name] != values).any() for name, values in usual.items())


def test_traces_of_all_ranks_are_merged(folder: Path) -> None:
    train(folder, "traced", 2, run={"trace": True}, training={"steps": 12})
    trace = json.loads((folder / "traced" / "trace.json").read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["pid"] for event in events} == {0, 1}
    for rank in (0, 1):
        steps = [
            event["args"]["step"]
            for event in events
            if event["pid"] == rank and event["name"] == "update"
        ]
        assert steps == list(range(12))
    # In rank 0's time both ranks are in the same step's update within a moment.
    last = [e["ts"] for e in events if e["name"] == "update" and e["args"]["step"] == 11]
    assert abs(last[0] - last[1]) < 1e6


def start(folder: Path, name: str) -> tuple[subprocess.Popen[str], dict[int, int]]:
    """A long training on two ranks, and the process of each."""
    skip_without_mpi()
    path = configuration(
        folder,
        name,
        training={"steps": 10**7, "walkers": 4},
        run={"checkpoint_every_s": 1e6, "log_every_s": 0.1, "trace": True},
        comm={"timeout_s": TIMEOUT_S},
        validation={"every": 0},
    )
    # The first record of the log would load tensorboardX, which takes long where ranks share cores.
    text = (
        "import os, pathlib, tensorboardX, floodtide as ft; ft.init();"
        f"pathlib.Path({str(folder)!r}, f'{name}-{{ft.rank()}}.pid').write_text(str(os.getpid()));"
        f"from floodtide.cli import main; main(['train', {path!r}])"
    )
    process = subprocess.Popen(
        [str(MPIEXEC), "-n", "2", sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,
    )
    log = folder / name / "log.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if log.exists() and log.read_text().count('"train"') >= 3:
            break
        time.sleep(0.1)
    pids = {rank: int((folder / f"{name}-{rank}.pid").read_text()) for rank in range(2)}
    return process, pids


def end(process: subprocess.Popen[str], pids: dict[int, int], limit_s: float) -> tuple[int, str]:
    """Exit status and standard error of a job that must end by itself; nobody is left."""
    begin = time.monotonic()
    try:
        _, stderr = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        kill_job(process)
        pytest.fail(f"no end within {limit_s} s")
    left = wait_until_gone(list(pids.values()), limit_s - (time.monotonic() - begin))
    assert not left, "a rank is left"
    return process.returncode, stderr


def test_a_stopped_rank_is_named_and_the_job_ends(folder: Path) -> None:
    process, pids = start(folder, "stopped")
    os.kill(pids[0], signal.SIGSTOP)
    status, stderr = end(process, pids, TIMEOUT_S + GRACE_S)
    assert status != 0
    # Whichever is noticed first: that it is silent, or that the other waits for it.
    silent = rf"rank 1: .*rank 0 (has been silent for {TIMEOUT_S:g} s|\(silent since: )"
    assert re.search(silent, stderr), stderr
    record = json.loads((folder / "stopped" / "failure-rank-1.json").read_text())
    assert record["rank"] == 1
    assert "rank 0 " in record["reason"]
    assert "silent" in record["reason"]
    assert any(not event["done"] for event in record["events"])


def test_a_killed_rank_ends_the_job_and_leaves_valid_traces(folder: Path) -> None:
    process, pids = start(folder, "killed")
    os.kill(pids[1], signal.SIGKILL)
    status, _ = end(process, pids, TIMEOUT_S + GRACE_S)
    assert status != 0
    for rank in (0, 1):
        trace = json.loads((folder / "killed" / "traces" / f"rank-{rank}.json").read_text())
        assert sum(event["ph"] == "X" for event in trace) > 10


LEAVES = """
import sys, tensorboardX, floodtide as ft
from floodtide import config
from floodtide.train import Trainer
trainer = Trainer.from_config(config.load({path!r}))
for _ in range(3):
    trainer.step()
if ft.rank() == 1:
    {then}
trainer.step()
"""


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("trainer.validate()", "differs between ranks: rank 0 called allreduce ("),
        ("del trainer; sys.exit(0)", "rank 1 (has left)"),
    ],
    ids=["another collective", "leaves"],
)
def test_a_rank_that_does_not_come_is_named(folder: Path, then: str, said: str) -> None:
    path = configuration(
        folder,
        "absent",
        training={"steps": 100},
        comm={"timeout_s": TIMEOUT_S},
        run={"log_every_s": 1e6},
    )
    result = mpiexec(2, ["-c", LEAVES.format(path=path, then=then)], timeout_s=30)
    assert result.status != 0
    assert said in result.stderr


def test_a_hook_may_sum_gradients_itself(folder: Path) -> None:
    path = configuration(folder, "hooked", training={"steps": 5})
    text = f"""
import numpy as np, floodtide as ft
from floodtide import config
from floodtide.train import Trainer
trainer = Trainer.from_config(config.load({path!r}))
seen = []
def hook(state, bucket):
    state.append((bucket.index, bucket.parameters, bucket.is_last))
    bucket.buffer[:] = ft.allreduce(bucket.buffer, op=ft.Sum)
trainer.register_comm_hook(seen, hook)
trainer.run()
names = [name for _, names, _ in seen[: sum(not last for _, _, last in seen[:99]) + 1] for name in names]
assert set(trainer.model.state_dict()) < set(names), names
assert [last for _, _, last in seen].count(True) == 5
"""
    usual = train(folder, "unhooked", 2, training={"steps": 5})
    result = shared(2, ["-c", text])
    assert result.status == 0, result.stderr
    from test_train_ranks import parameters

    assert_equal(usual, parameters(folder / "hooked" / "checkpoints" / "step-5.h5"))


@pytest.mark.parametrize(
    "comm",
    [
        {"mode": "partial", "contributors": 1},
        {"mode": "partial", "contributors": 1, "late": "carry"},
    ],
    ids=["drop", "carry"],
)
def test_ranks_that_do_not_wait_meet_to_validate_and_to_end(
    folder: Path, comm: dict[str, Any]
) -> None:
    from floodtide.train import read_log

    name = "-".join(str(value) for value in comm.values())
    train(
        folder,
        name,
        2,
        training={"steps": 60, "walkers": 2, "average": 0.9},
        validation={"every": 20},
        run={"log_every_s": 1e6},
        comm=comm,
    )
    records = read_log(folder / name / "log.jsonl")
    validated = [record["step"] for record in records if record["kind"] == "validation"]
    assert validated == [20, 40, 60]
    (sums,) = [record for record in records if record["kind"] == "train"]
    assert sums["step"] == 60
    assert sums["fovs"] - sums["dropped"] >= 60


def test_more_contributors_than_ranks_is_one_line(folder: Path) -> None:
    path = configuration(folder, "many", comm={"mode": "partial", "contributors": 3})
    result = shared(2, ["-m", "floodtide", "train", path], status=2)
    assert result.status == 2
    assert "3 contributors, expected 1 to 2, the number of ranks" in result.stderr
    assert result.stderr.count("contributors") == 1
