# SPDX-License-Identifier: Apache-2.0
"""Training runs of U-Nets from a configuration: log, validation, resuming, mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
from training_slices import document, stack, write_slices

from floodtide import config, data, nn
from floodtide.cli import run as command_line
from floodtide.train import Trainer, read_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slices")
    write_slices(path)
    write_slices(path, "others.h5", first_patient=50)
    return path


def trained(folder: Path, name: str, **sections: dict[str, Any]) -> Trainer:
    sections["run"] = {**sections.get("run", {}), "dir": str(folder / name)}
    trainer = Trainer.from_config(config.from_dict(document(folder, **sections)))
    trainer.run()
    return trainer


def same_parameters(a: nn.Network, b: nn.Network) -> bool:
    return all(np.array_equal(x, b.state_dict()[name]) for name, x in a.state_dict().items())


def test_dice_rises_above_what_needs_no_network(folder: Path) -> None:
    trained(folder, "dice", training={"steps": 60, "average": 0.9}, validation={"every": 60})
    records = read_log(folder / "dice" / "log.jsonl")
    start, last = records[0], records[-1]
    assert start["unit"] == "slices"
    assert "conv" in start["kernels"]
    (row,) = last["classes"]
    assert row["dice_pooled"] > 0.85 > row["dice_everything"] + 0.4
    assert len(row["dice_patients"]) == len(last["patients"]) == 2
    assert last["samples"] == 4
    train = [record for record in records if record["kind"] == "train"]
    assert sum(record["slices"] for record in train) == 60 * 4


def test_a_resumed_run_has_the_bits_of_the_uninterrupted_one(folder: Path) -> None:
    sections: dict[str, Any] = {"model": {"dropout": 0.1}, "training": {"average": 0.9}}
    whole = trained(folder, "whole", **sections)
    sections["training"]["steps"] = 4
    trained(folder, "parts", **sections)
    sections["training"]["steps"] = 6
    parts = trained(folder, "parts", **sections)
    assert read_log(folder / "parts" / "log.jsonl")[-1]["step"] == 6
    assert same_parameters(whole.model, parts.model)
    assert same_parameters(whole.result, parts.result)


def test_checkpoints_hold_a_network_with_its_statistics(folder: Path) -> None:
    trainer = trained(folder, "file")
    loaded = nn.load(folder / "file" / "checkpoints" / "step-6.h5")
    assert isinstance(loaded, nn.UNet2D)
    assert same_parameters(loaded, trainer.model)
    moved = trainer.model.state_dict()["encoder0/norm_a/variance"]
    assert not np.array_equal(moved, np.ones_like(moved))


@pytest.mark.parametrize("dice", ["image", "batch"])
def test_losses_and_statistics_over_the_batch(folder: Path, dice: str) -> None:
    sections = {"training": {"dice": dice, "loss": "dice"}, "model": {"synchronised": True}}
    trainer = trained(folder, f"over-{dice}", **sections)
    assert trainer.complete


def test_training_ends_with_its_epochs(folder: Path) -> None:
    sections = {"training": {"steps": 100, "on_exhausted": "stop", "epochs": 2, "batch": 4}}
    trainer = trained(folder, "epochs", **sections, validation={"share": 0.0, "every": 0})
    # 12 slices, 8 a step: a step belongs to the epoch that it begins in, and what begins in a third one is not taken.
    assert trainer.steps_done == 3


def test_affinities_are_trained_and_validated(tmp_path: Path) -> None:
    image, labels = data.synth((24, 40, 40), seed=3)
    with h5py.File(tmp_path / "synth.h5", "w") as file:
        file["image"], file["labels"] = image, labels
    volume = {
        "name": "synth",
        "image": f"{tmp_path}/synth.h5:image",
        "labels": f"{tmp_path}/synth.h5:labels",
        "box": "0:16,0:40,0:40",
    }
    document = {
        "run": {"dir": str(tmp_path / "run"), "threads": 1},
        "data": {"volumes": [volume], "patch": [8, 16, 16], "zero_is_boundary": True},
        "model": {"kind": "unet3d", "depth": 2, "features": 16},
        "training": {"steps": 4, "batch": 2},
        "validation": {"box": "16:24,0:40,0:40"},
    }
    trainer = Trainer.from_config(config.from_dict(document))
    trainer.run()
    last = read_log(tmp_path / "run" / "log.jsonl")[-1]
    assert set(last["affinities"]) == {"z", "y", "x"}
    for row in last["affinities"].values():
        assert 0 < row["average_precision"] <= 1
        assert 0.3 < row["share_of_ones"] < 1


def wrong_shape(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["mask"]
        file["mask"] = np.zeros((12, 16, 15), np.uint8)


def unexpected_class(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["mask"][7, 3, 3] = 5


@pytest.mark.parametrize(
    ("sections", "spoil", "said"),
    [
        ({}, wrong_shape, ("slices.h5:mask", "(12, 16, 15)", "(12, 16, 16)")),
        ({}, unexpected_class, ("slices.h5:mask", "slice 7", "class 5", "0 to 1")),
        ({"validation": {"share": 0.001}}, None, ("validation", "patients")),
        ({"training": {"batch": 7}}, None, ("2 walkers", "7")),
        ({"data": {"slices": []}}, None, ("data.slices is empty",)),
        ({"model": {"depth": 6}}, None, ("16", "32")),
        ({"model": {"fov": [1, 1, 1]}}, None, ("unknown key 'model.fov'",)),
        ({"training": {"seed_pad": 0.1}}, None, ("training.seed_pad", "'unet2d'", "'ffn'")),
        ({"segment": {"image": "x"}}, None, ("segment", "'ffn'")),
        ({"model": {"kind": "unet"}}, None, ("model.kind is 'unet'", "'unet2d'")),
        ({"comm": {"exactness": "workers"}, "training": {"dice": "batch"}}, None, ("exactness",)),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sections: dict[str, Any],
    spoil: Any,
    said: tuple[str, ...],
) -> None:
    path = write_slices(tmp_path)
    if spoil is not None:
        spoil(path)
    file = tmp_path / "run.toml"
    file.write_text(tomli_w.dumps(document(tmp_path, **sections)))
    assert command_line(["train", str(file)]) == 2
    (line,) = [text for text in capsys.readouterr().err.splitlines() if text]
    for part in said:
        assert part in line


def test_a_patient_in_both_parts_is_refused(folder: Path) -> None:
    wrong = document(folder, validation={"share": 0.0, "slices": [stack(folder / "slices.h5")]})
    with pytest.raises(Exception, match="patient"):
        Trainer.from_config(config.from_dict(wrong))
    right = document(folder, validation={"share": 0.0, "slices": [stack(folder / "others.h5")]})
    right["run"]["dir"] = str(folder / "others")
    Trainer.from_config(config.from_dict(right)).close()
