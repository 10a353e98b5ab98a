# SPDX-License-Identifier: Apache-2.0
"""Trainers built from objects, on ranks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from launch import mpiexec, shared
from training_volume import write_volume

from floodtide import nn

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

SCRIPT = """
import sys
import floodtide as ft

ft.init()
folder, directory, *features = sys.argv[1:]
features = int(features[ft.rank() % len(features)])
model = ft.nn.FFN(depth=2, features=features, fov=(7, 7, 7), deltas=(2, 2, 2))
cube = ft.data.TrainingVolume(
    f"{folder}/volume.h5:raw", f"{folder}/volume.h5:labels", f"{folder}/partitions.h5:af", name="cube"
)
trainer = ft.train.Trainer(
    model=model,
    data=ft.data.Shards(cube, patch_size=model.patch_size, walkers=4),
    optimizer=ft.optim.Adam(lr=1e-3),
    schedule=ft.optim.lr.Schedule("constant", warmup_steps=3, scale="sqrt"),
    directory=directory,
    steps=8,
    options=ft.train.MoreOptions(
        run=ft.config.RunConfig(threads=1), comm=ft.config.CommConfig(exactness="workers")
    ),
)
rates = []
with trainer:
    for step in trainer:
        rates.append(step.lr)
        if step.number == 4 and ft.rank() == ft.size() - 1:
            trainer.scale_lr(0.25)
assert trainer.lr_factor == 0.25
assert rates[3:] == [2e-3, 2e-3, 2e-3, 5e-4, 5e-4], rates
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("objects")
    write_volume(path)
    return path


def test_one_and_two_ranks_train_the_same_bits_with_a_rate_that_one_rank_changes(
    folder: Path,
) -> None:
    states = []
    for ranks in (1, 2):
        directory = folder / f"run-{ranks}"
        result = shared(ranks, ["-c", SCRIPT, str(folder), str(directory), "4"])
        assert result.status == 0, result.stderr
        states.append(nn.load(directory / "checkpoints/step-8.h5").state_dict())
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name])


def test_ranks_with_other_objects_are_named(folder: Path) -> None:
    arguments = ["-c", SCRIPT, str(folder), str(folder / "other"), "4", "8"]
    result = mpiexec(2, arguments, timeout_s=30)
    assert result.status != 0
    assert "model.features is 4 on rank 0 and 8 on rank 1" in result.stderr


def test_the_example_script_trains_on_two_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = mpiexec(2, [str(ROOT / "examples/train_mpi.py")])
    assert result.status == 0, result.stderr
    assert result.stdout.splitlines()[-1].startswith("step 50: loss ")
    records = (tmp_path / "runs/train_mpi/log.jsonl").read_text().splitlines()
    begun = json.loads(records[0])
    assert begun["ranks"] == 2
    assert begun["walkers"] == 8


AFTER = """
import sys, time
import tensorboardX  # the first record would load it, which takes long where ranks share cores
import floodtide as ft

folder, directory = sys.argv[1:]
model = ft.nn.FFN(depth=2, features=4, fov=(7, 7, 7), deltas=(2, 2, 2))
cube = ft.data.TrainingVolume(
    f"{folder}/volume.h5:raw", f"{folder}/volume.h5:labels", f"{folder}/partitions.h5:af", name="cube"
)
trainer = ft.train.Trainer(
    model=model,
    data=ft.data.Shards(cube, patch_size=model.patch_size, walkers=2),
    optimizer=ft.optim.Adam(lr=1e-3),
    directory=directory,
    steps=2,
    options=ft.train.MoreOptions(
        run=ft.config.RunConfig(threads=1), comm=ft.config.CommConfig(timeout_s=2.0)
    ),
)
trainer.run()
del trainer
if ft.rank() == 0:
    time.sleep(3.5)  # more than the limit
ft.barrier()
print("all there")
"""


def test_the_time_limit_of_a_trainer_ends_with_the_trainer(folder: Path) -> None:
    """After the training, rank 0 may work alone for longer than that: `floodtide demo` segments there."""
    result = shared(2, ["-c", AFTER, str(folder), str(folder / "after")])
    assert result.status == 0, result.stderr
    assert result.stdout.count("all there") == 2
