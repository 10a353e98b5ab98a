# SPDX-License-Identifier: Apache-2.0
"""Ranks that were asked for different things, or hold different parameters, do not train on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
from launch import MPIEXEC, Result, run, script, skip_without_mpi
from training_volume import document, write_volume

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("same")
    write_volume(path)
    return path


def configuration(folder: Path, name: str, **sections: dict[str, Any]) -> str:
    sections["run"] = {"dir": str(folder / name), **sections.get("run", {})}
    sections["training"] = {"steps": 4, "walkers": 3, **sections.get("training", {})}
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps({**document(folder, **sections), "validation": {}}))
    return str(path)


def each(*ranks: list[str]) -> Result:
    """One job in which every rank has its own arguments of Python."""
    skip_without_mpi()
    command = [str(MPIEXEC)]
    for index, arguments in enumerate(ranks):
        command += [*([":"] if index else []), "-n", "1", sys.executable, *arguments]
    return run(command)


def ours(result: Result) -> list[str]:
    lines = [line for line in result.stderr.splitlines() if "floodtide" in line]
    return [line for line in lines if not line.startswith("floodtide: warning: ")]


def test_keys_that_differ_are_named_with_their_ranks(folder: Path) -> None:
    train = ["-m", "floodtide", "train", configuration(folder, "differs")]
    other = [*train, "--set", "optimizer.lr=0.1", "--set", "data.prefetch=3"]
    result = each(train, other, train)
    assert result.status == 2, result.stderr
    assert ours(result) == [
        "floodtide train: data.prefetch is 2 on rank 0 and 3 on rank 1, optimizer.lr is 0.001 on rank 0 "
        "and 0.1 on rank 1; expected the same configuration on every rank"
    ]
    assert not (folder / "differs").exists()


def test_an_unreadable_configuration_of_one_rank_is_said_once(folder: Path) -> None:
    train = ["-m", "floodtide", "train", configuration(folder, "unreadable")]
    result = each(train, [*train, "--set", "run.seed=-1"])
    assert result.status == 2, result.stderr
    assert len(ours(result)) == 1
    assert "run.seed is -1, expected 0 to" in ours(result)[0]


def test_threads_and_folders_of_inputs_may_differ(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    for name in ("volume.h5", "partitions.h5"):
        (folder / "elsewhere" / name).write_bytes((folder / name).read_bytes())
    path = configuration(folder, "alike")
    there = [
        f"data.volumes.0.{key}={folder}/elsewhere/{file}"
        for key, file in (
            ("image", "volume.h5:raw"),
            ("labels", "volume.h5:labels"),
            ("partitions", "partitions.h5:af"),
        )
    ]
    overrides = [word for text in (*there, "run.threads=2") for word in ("--set", text)]
    train = ["-m", "floodtide", "train", path]
    result = each(train, [*train, *overrides])
    assert result.status == 0, result.stderr


def test_other_data_under_the_same_name_are_found(folder: Path) -> None:
    (folder / "smaller").mkdir()
    for name in ("volume.h5", "partitions.h5"):
        (folder / "smaller" / name).write_bytes((folder / name).read_bytes())
    with h5py.File(folder / "smaller" / "partitions.h5", "r+") as file:
        file["af"][:12] = 255
    train = ["-m", "floodtide", "train", configuration(folder, "data")]
    there = f"data.volumes.0.partitions={folder}/smaller/partitions.h5:af"
    result = each(train, [*train, "--set", there])
    assert result.status == 2, result.stderr
    assert len(ours(result)) == 1
    assert "the number of examples is" in ours(result)[0]
    assert "expected the same data on every rank" in ours(result)[0]


OTHER_BUILD = """
import floodtide.train.same_on_ranks, sys
floodtide.train.same_on_ranks.version = lambda: "floodtide 0.1.0 (build b)"
from floodtide.cli import main
main(sys.argv[1:])
"""


def test_other_builds_are_named(folder: Path) -> None:
    train = ["train", configuration(folder, "build")]
    result = each(["-m", "floodtide", *train], ["-c", OTHER_BUILD, *train])
    assert result.status == 2, result.stderr
    assert len(ours(result)) == 1
    assert "the version is 'floodtide 0.1.0 (build " in ours(result)[0]
    assert "'floodtide 0.1.0 (build b)' on rank 1" in ours(result)[0]


def test_arguments_of_commands_are_compared(folder: Path) -> None:
    partition = ["-m", "floodtide", "partition", f"{folder}/volume.h5:labels"]
    out = [f"{folder}/compared.h5:af", "--lom-radius", "4,4,4"]
    result = each([*partition, *out], [*partition, *out, "--min-size", "7"])
    assert result.status == 2, result.stderr
    assert ours(result) == [
        "floodtide partition: min_size is 10000 on rank 0 and 7 on rank 1; "
        "expected the same arguments on every rank"
    ]
    assert not (folder / "compared.h5").exists()


DAMAGED = """
from floodtide.comm import world
from floodtide.cli import main
from floodtide.train.step_loop import StepLoop

step = StepLoop.step

def damaging(loop):
    done = step(loop)
    if done.number == 1 and world.rank() == {rank}:
        loop.model.parameters()["seed_update/conv_lom/biases"][0] += 1e-6
    return done

StepLoop.step = damaging
main(["train", {path!r}])
"""


@pytest.mark.parametrize(
    ("ranks", "damaged", "said"),
    [
        (2, 1, "rank 1 holds other parameters than rank 0 after step 3"),
        (3, 0, "rank 0 holds other parameters than ranks 1, 2 after step 3"),
    ],
)
def test_parameters_of_a_rank_that_differ_are_not_saved(
    folder: Path, ranks: int, damaged: int, said: str
) -> None:
    name = f"damaged-{ranks}"
    path = configuration(folder, name, run={"checkpoint_every_s": 0.0})
    result = script(ranks, DAMAGED.format(rank=damaged, path=path))
    assert result.status == 1, result.stderr
    good = folder / name / "checkpoints" / "step-2.h5"
    assert ours(result) == [
        f"floodtide train: {said}; they are not saved; the checkpoint before is good: {good}"
    ]
    assert sorted(file.name for file in good.parent.glob("*.h5")) == ["step-1.h5", "step-2.h5"]
    with h5py.File(good) as file:
        assert np.isfinite(file["parameters/seed_update/conv_lom/biases"][0])
