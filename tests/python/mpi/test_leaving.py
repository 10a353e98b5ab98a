# SPDX-License-Identifier: Apache-2.0
"""Ranks that leave `with trainer` by an exception: the job ends in time, or goes on with another training."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from launch import mpiexec
from test_train_ranks import configuration
from training_volume import write_volume

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

END_S = 60.0  # start of the ranks, the steps of those that go on, and 5 s for which ranks wait for one that has left
STATUS = 3

MODES: dict[str, dict[str, Any]] = {
    "synchronous": {},
    "two_level": {"algorithm": "two_level"},
    "workers": {"exactness": "workers"},
    "partial": {"mode": "partial", "contributors": 1},
    "carry": {"mode": "partial", "contributors": 1, "late": "carry"},
}

# Arguments: configuration, who leaves ("all" or "one": the last rank), when, how.
LEAVE = f"""
import sys, time
import floodtide as ft

path, who, when, how = sys.argv[1:]
ft.init()

def leave():
    if who == "all" or ft.rank() == (0 if when == "callback" else ft.size() - 1):
        raise (SystemExit({STATUS}) if how == "exit" else ValueError("leaves"))

def callback(trainer, record):
    if when == "callback" and record["kind"] == "train":
        leave()

def train():  # the trainer ends with the frame of this function, while ranks still communicate
    config = ft.config.load(path)
    with ft.train.Trainer.from_config(config, callbacks=[callback]) as trainer:
        if when == "start":
            leave()
        for number, _ in enumerate(trainer):
            if number == 2 + ft.rank() and when == "between":
                leave()
            if number == 0 and when == "meeting":
                ft.barrier()
                trainer.stop()  # the next gradients of ranks above 0 make all ranks meet
                if ft.rank() == 0:
                    time.sleep(1)  # its threads learn of the meeting, and it does not come
                    leave()

train()
"""

LEAVE_TOGETHER = """
import sys
import floodtide as ft

paths = sys.argv[1:]
ft.init()

def train(path, steps):
    with ft.train.Trainer.from_config(ft.config.load(path)) as trainer:
        for number, _ in enumerate(trainer):
            if number == steps:
                ft.barrier()  # no rank waits in its trainer for one that has left
                raise ValueError("leaves")
        return trainer.steps_done

for steps, path in enumerate(paths[:-1]):
    try:
        train(path, steps)
    except ValueError:
        continue
    raise SystemExit("nobody has left")
assert train(paths[-1], -1) == 6
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leaving")
    write_volume(path)
    return path


def settings(
    folder: Path, name: str, mode: str, steps: int = 10**6, log_every_s: float = 1e6
) -> str:
    """Path of a configuration whose ranks meet only at the end, or when the log is written."""
    return configuration(
        folder,
        name,
        training={"steps": steps, "walkers": 3},
        run={"log_every_s": log_every_s, "checkpoint_every_s": 1e6, "threads": 1},
        validation={"every": 0, "centres": 1},
        comm={"timeout_s": 20.0, **MODES[mode]},
    )


def leave(folder: Path, ranks: int, mode: str, who: str, when: str, how: str) -> int:
    """Exit status of a job whose ranks leave so. It must end in time."""
    name = "-".join((mode, who, when, how, str(ranks)))
    path = settings(folder, name, mode, steps=300, log_every_s=0.0 if when == "callback" else 1e6)
    result = mpiexec(
        ranks,
        ["-c", LEAVE, path, who, when, how],
        timeout_s=END_S,
        env={"FLOODTIDE_RANKS_PER_NODE": "2"},
    )
    assert result.status != 0, f"{result.stdout}\n{result.stderr}"
    return result.status


@pytest.mark.parametrize("mode", ["synchronous", "partial"])
def test_all_ranks_leave_before_the_first_step(folder: Path, mode: str) -> None:
    assert leave(folder, 2, mode, "all", "start", "exit") == STATUS


@pytest.mark.parametrize(("mode", "when"), [("partial", "between"), ("carry", "meeting")])
def test_a_rank_that_leaves_does_not_wait_for_the_others(
    folder: Path, mode: str, when: str
) -> None:
    leave(folder, 2, mode, "all", when, "exit")


LEAVING = [
    case
    for case in itertools.product(
        MODES, ("all", "one"), ("start", "between", "callback", "meeting")
    )
    if case[2] not in ("callback", "meeting") or case[1] == "all"
]


# Every mode, place and rank; the number of ranks and the kind of end take turns.
@pytest.mark.extra
@pytest.mark.parametrize(
    ("mode", "who", "when", "how", "ranks"),
    [
        (*case, ("exit", "raise")[(number + number // 6) % 2], 2 + number // 2 % 2)
        for number, case in enumerate(LEAVING)
    ],
)
def test_a_job_ends_whoever_leaves_it(
    folder: Path, mode: str, who: str, when: str, how: str, ranks: int
) -> None:
    leave(folder, ranks, mode, who, when, how)


@pytest.mark.parametrize(
    ("mode", "ranks"),
    [
        ("partial", 2),
        ("carry", 3),
        *(
            pytest.param(mode, ranks, marks=pytest.mark.extra)
            for mode, ranks in itertools.product(MODES, (2, 3))
            if (mode, ranks) not in (("partial", 2), ("carry", 3))
        ),
    ],
)
def test_after_all_ranks_have_left_they_train_again(folder: Path, mode: str, ranks: int) -> None:
    left = [settings(folder, f"{mode}-{ranks}-left-{steps}", mode) for steps in range(5)]
    again = settings(folder, f"{mode}-{ranks}-again", mode, steps=6)
    result = mpiexec(ranks, ["-c", LEAVE_TOGETHER, *left, again], timeout_s=END_S)
    assert result.status == 0, f"{result.stdout}\n{result.stderr}"
