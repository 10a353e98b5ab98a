# SPDX-License-Identifier: Apache-2.0
"""Sweeps: the trainings of a file, what is refused, restarts after kills, and equal results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
import training_volume

from floodtide.errors import ConfigurationError, InvalidArgumentError, InvalidFileError
from floodtide.lab import sweep
from floodtide.train import read_log

pytestmark = pytest.mark.extra

STEPS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep")
    training_volume.write_volume(path)
    document = training_volume.document(
        path,
        run={"threads": 1, "log_every_s": 0.0, "checkpoint_every_s": 0.2},
        training={"steps": STEPS, "walkers": 2},
    )
    (path / "base.toml").write_text(tomli_w.dumps(document))
    return path


def write(folder: Path, name: str, **changes: Any) -> Path:
    """Write the file of a sweep of four trainings."""
    document: dict[str, Any] = {
        "config": str(folder / "base.toml"),
        "directory": str(folder / name),
        "set": {"comm.exactness": "workers"},
        "grid": {"optimizer.lr": [1e-3, 1e-2], "run.seed": [0, 1]},
    }
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps({k: v for k, v in (document | changes).items() if v is not None}))
    return path


def parameters(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(directory / "checkpoints" / f"step-{STEPS}.h5") as file:
        file["parameters"].visititems(
            lambda name, item: (
                found.__setitem__(name, item[:]) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def log_lines(plan: sweep.Sweep) -> int:
    """Return the number of lines in the logs of all trainings."""
    logs = [cell.directory / "log.jsonl" for cell in plan.cells]
    return sum(log.read_bytes().count(b"\n") for log in logs if log.exists())


def test_the_grid_has_every_combination(folder: Path) -> None:
    plan = sweep.load(write(folder, "grid"))
    assert [cell.name for cell in plan.cells] == [
        "lr=0.001,seed=0",
        "lr=0.001,seed=1",
        "lr=0.01,seed=0",
        "lr=0.01,seed=1",
    ]
    assert [cell.config.optimizer.lr for cell in plan.cells] == [1e-3, 1e-3, 1e-2, 1e-2]
    assert all(cell.config.comm.exactness == "workers" for cell in plan.cells)
    assert plan.cells[0].examples == STEPS * 2
    assert not any(cell.finished() for cell in plan.cells)


def test_work_is_counted_in_examples_of_all_ranks(folder: Path) -> None:
    grid = {"comm.mode": ["synchronous", "partial"], "training.walkers": [0, 16]}
    settings = {"comm.exactness": "run"}
    plan = sweep.load(write(folder, "ranks", grid=grid, ranks=8, set=settings))
    walkers = [8, 16, 8, 16]
    assert [cell.examples for cell in plan.cells] == [STEPS * count for count in walkers]


def test_several_grids_are_added_up(folder: Path) -> None:
    grids = [
        {"optimizer.name": ["adam"], "optimizer.lr": [1e-3]},
        {"optimizer.name": ["sgd"], "optimizer.lr": [0.1, 0.3]},
    ]
    plan = sweep.load(write(folder, "grids", grid=grids))
    assert [cell.name for cell in plan.cells] == [
        "name=adam,lr=0.001",
        "name=sgd,lr=0.1",
        "name=sgd,lr=0.3",
    ]
    with pytest.raises(ConfigurationError, match=r"name=sgd,lr=0\.1, is used twice"):
        sweep.load(
            write(
                folder, "twice", grid=[*grids, {"optimizer.name": ["sgd"], "optimizer.lr": [0.1]}]
            )
        )
    with pytest.raises(ConfigurationError, match=r"\[grid\] is empty"):
        sweep.load(write(folder, "empty", grid=[]))
    with pytest.raises(ConfigurationError, match=r"\[grid\] is empty"):
        sweep.load(write(folder, "empty", grid=[*grids, {}]))


def test_a_sweep_trains_what_single_trainings_train(folder: Path) -> None:
    plan = sweep.load(write(folder, "whole"))
    seen: list[tuple[int, int]] = []
    outcomes = sweep.run(plan, parallel=2, progress=lambda done, total: seen.append((done, total)))
    assert [outcome.status for outcome in outcomes] == ["trained"] * 4
    assert all(cell.finished() for cell in plan.cells)
    assert all(total == 4 * STEPS * 2 for _, total in seen)
    cell = plan.cells[2]
    alone = [override for override in cell.overrides if not override.startswith("run.dir")]
    command = [sys.executable, "-m", "floodtide", "train", str(plan.file)]
    command += [word for override in alone for word in ("--set", override)]
    subprocess.run([*command, "--set", f"run.dir={folder}/alone"], check=True, capture_output=True)
    for name, values in parameters(folder / "alone").items():
        np.testing.assert_array_equal(parameters(cell.directory)[name], values)


def test_a_finished_sweep_runs_nothing(folder: Path) -> None:
    plan = sweep.load(write(folder, "whole"))
    logs = {cell.name: (cell.directory / "log.jsonl").read_bytes() for cell in plan.cells}
    assert [outcome.status for outcome in sweep.run(plan)] == ["finished"] * 4
    for cell in plan.cells:
        assert (cell.directory / "log.jsonl").read_bytes() == logs[cell.name]


def test_a_sweep_killed_at_random_moments_has_the_same_results(folder: Path) -> None:
    file = write(folder, "killed")
    plan = sweep.load(file)
    command = [sys.executable, "-m", "floodtide", "lab", "sweep", str(file), "--parallel", "2"]
    draw = random.Random(5)
    ends: dict[str, bytes] = {}
    for _ in range(3):
        enough = log_lines(plan) + draw.randrange(1, STEPS)
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + 60
        while log_lines(plan) < enough and process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        process.kill()
        process.wait()
        for cell in plan.cells:  # a finished training is never touched again
            log = cell.directory / "log.jsonl"
            if cell.name in ends:
                assert log.read_bytes() == ends[cell.name]
            elif log.exists() and cell.finished():
                ends[cell.name] = log.read_bytes()
    subprocess.run(command, check=True, capture_output=True)
    for cell in plan.cells:
        assert cell.finished()
        for name, values in parameters(folder / "whole" / cell.name).items():
            np.testing.assert_array_equal(parameters(cell.directory)[name], values)


def test_an_interrupted_sweep_saves_its_trainings_and_continues(folder: Path) -> None:
    file = write(folder, "interrupted", set={"training.steps": 100_000})
    command = [sys.executable, "-m", "floodtide", "lab", "sweep", str(file), "--parallel", "1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    first = sweep.load(file).cells[0]
    end = time.monotonic() + 60
    while first.steps_done() == 0 and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command continues" in said
    assert 0 < first.steps_done() < 100_000
    records = read_log(first.directory / "log.jsonl")
    assert records[-1]["step"] == first.steps_done()


def test_a_failed_training_is_named_and_the_others_are_trained(folder: Path) -> None:
    file = write(
        folder, "failed", grid={"data.volumes.0.image": [f"{folder}/volume.h5:raw", "no.h5:raw"]}
    )
    command = [sys.executable, "-m", "floodtide", "lab", "sweep", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stdout.splitlines()[0].endswith("raw: trained")
    assert result.stdout.splitlines()[1] == "image=no.h5_raw: failed"
    assert len(result.stderr.strip().splitlines()) == 1
    assert "1 of 2 trainings failed; image=no.h5_raw: " in result.stderr
    assert result.stderr.endswith("no.h5: no such file\n")


def test_a_training_that_diverges_is_a_result_and_is_not_repeated(folder: Path) -> None:
    file = write(
        folder,
        "diverged",
        set={"optimizer.name": "sgd", "training.clip": 1e20},
        grid={"optimizer.lr": [1e-3, 1e6]},
    )
    command = [sys.executable, "-m", "floodtide", "lab", "sweep", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["lr=0.001: trained", "lr=1000000.0: diverged"]
    log = folder / "diverged" / "lr=1000000.0" / "log.jsonl"
    before = log.read_bytes()
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == ["lr=0.001: finished", "lr=1000000.0: diverged"]
    assert [outcome.status for outcome in sweep.run(sweep.load(file))] == ["finished", "diverged"]
    assert log.read_bytes() == before


def test_a_hopeless_training_is_given_up_and_does_not_go_on(folder: Path) -> None:
    file = write(
        folder,
        "hopeless",
        set={"validation.every": 10, "validation.give_up_after": 20},
        grid={"optimizer.lr": [1.0, 1e-2]},  # the first rate kills all feature maps
    )
    command = [sys.executable, "-m", "floodtide", "lab", "sweep", str(file), "--parallel", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["lr=1.0: given up", "lr=0.01: trained"]
    cell = sweep.load(file).cells[0]
    records = read_log(cell.directory / "log.jsonl")
    validated = [record for record in records if record["kind"] == "validation"]
    assert [(record["step"], record.get("given_up", False)) for record in validated] == [
        (10, False),
        (20, True),
        (21, True),
    ]
    assert cell.steps_done() == 21
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == ["lr=1.0: given up", "lr=0.01: finished"]
    alone = [sys.executable, "-m", "floodtide", "train", str(cell.directory / "config.toml")]
    again = subprocess.run(alone, capture_output=True, text=True, check=True)
    assert "stopped at step 21 of 30 for good" in again.stderr
    assert cell.steps_done() == 21
    assert [outcome.status for outcome in sweep.run(sweep.load(file))] == ["given up", "finished"]


def test_a_training_killed_before_its_first_record_is_trained(folder: Path) -> None:
    plan = sweep.load(write(folder, "early", grid={"optimizer.lr": [1e-3]}))
    plan.cells[0].directory.mkdir(parents=True)
    assert [outcome.status for outcome in sweep.run(plan)] == ["trained"]


def test_a_training_of_another_sweep_is_in_use_and_has_not_failed(folder: Path) -> None:
    file = write(folder, "twice", grid={"optimizer.lr": [1e-3, 1e-2]})
    cell = sweep.load(file).cells[0]
    program = "import sys; from pathlib import Path; from floodtide.train.run_directory import RunDirectory\n"
    program += "directory = RunDirectory(Path(sys.argv[1]), writer=True); directory.take()\n"
    program += "print('has it', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(cell.directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        command = [sys.executable, "-m", "floodtide", "lab", "sweep", str(file)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        other.kill()

    assert result.returncode == 1
    assert result.stdout.splitlines() == ["lr=0.001: in use", "lr=0.01: trained"]
    assert "floodtide lab: sweep: 1 of 2 trainings in use; lr=0.001: " in result.stderr
    assert " is in use by " in result.stderr
    assert "failed" not in result.stderr


def test_parts_of_a_job_array_share_the_trainings(folder: Path) -> None:
    plan = sweep.load(write(folder, "parts"))
    first = sweep.run(plan, part=(0, 2), parallel=2)
    assert [outcome.cell.name for outcome in first] == ["lr=0.001,seed=0", "lr=0.01,seed=0"]
    assert [cell.finished() for cell in plan.cells] == [True, False, True, False]
    with pytest.raises(InvalidArgumentError, match="part 2/2"):
        sweep.run(plan, part=(2, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {}}, "is empty"),
        ({"grid": {"optimizer.lr": []}}, "a list of one value or more"),
        ({"grid": {"optimizer.lr": 0.1}}, "a list of one value or more"),
        ({"grid": {"optimizer.lr": [0.1, 0.1]}}, "is used twice"),
        ({"grid": {"optimizer.lr": [-1.0]}}, "optimizer.lr is -1"),
        ({"grid": {"optimizer.rate": [1.0]}}, "rate"),
        ({"grid": {"schedule.warmup_steps": [0, 31]}}, "warm-up of 31 training steps is longer"),
        ({"grid": {"schedule.scale": ["sqrt", "lars"]}}, "is for lars"),
        ({"grid": {"schedule.scale": ["cubic"]}}, "cubic"),
        (
            {
                "grid": {"run.stop_after_s": [60.0]},
                "set": {"training.fit_time": True, "schedule.name": "cosine"},
            },
            "lets the clock decide",
        ),
        (
            {"grid": {"validation.give_up_after": [10]}},
            r"expected held-out data and validation\.every",
        ),
        ({"ranks": 0}, "ranks is 0"),
        ({"ranks": "two"}, "ranks is"),
        ({"config": None}, "config is missing"),
        ({"directory": None}, "directory is missing"),
        ({"grids": {}}, "there is no key 'grids'"),
        ({"grid": {"run.dir": ["x"]}}, r"run\.dir is given, which directory decides"),
        ({"set": {"run": {"dir": "x"}}}, r"run\.dir is given, which directory decides"),
        ({"set": {"optimizer.lr": 1.0}}, r"optimizer\.lr is given, which \[grid\] gives too"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        sweep.load(write(folder, "wrong", **changes))
    assert not (folder / "wrong").exists()


def test_a_missing_configuration_is_named(folder: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"nowhere\.toml"):
        sweep.load(write(folder, "wrong", config="nowhere.toml"))
    command = [
        sys.executable,
        "-m",
        "floodtide",
        "lab",
        "sweep",
        str(write(folder, "wrong")),
        "--part",
        "2/2",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
