# SPDX-License-Identifier: Apache-2.0
"""Training runs of U-Nets from a configuration: log, validation, resuming, mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
from training_slices import document, volume, write_slices

from floodtide import config, nn
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
    assert start["unit"] == "patches"
    assert "conv" in start["kernels"]
    (row,) = last["classes"]
    assert (row["class"], row["name"]) == (1, "foreground")
    assert row["dice_pooled"] > 0.85 > row["dice_everything"] + 0.4
    assert len(row["dice_groups"]) == len(last["groups"]) == 2
    assert last["samples"] == 4
    assert np.sum(last["confusion"]) == 4 * 16 * 16
    (_, false_alarms), (missed, hits) = last["confusion"]
    assert row["dice_pooled"] == pytest.approx(2 * hits / (2 * hits + missed + false_alarms))
    train = [record for record in records if record["kind"] == "train"]
    assert sum(record["patches"] for record in train) == 60 * 4


def test_the_table_of_classes_that_labels_have_is_kept(folder: Path) -> None:
    trained(folder, "table", training={"steps": 1}, validation={"share": 0.0, "every": 0})
    kept = config.load(folder / "table" / "config.toml")
    assert config.to_dict(kept)["task"]["classes"] == {"0": "background", "1": "foreground"}


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
    assert isinstance(loaded, nn.UNet)
    assert loaded.flat
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
    records = [one for one in read_log(folder / "epochs" / "log.jsonl") if one["kind"] == "train"]
    assert all(one["loss"] > 0 for one in records)  # none of the call that found no patch


def wrong_shape(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["mask"]
        file["mask"] = np.zeros((12, 16, 17), np.uint8)


def unexpected_value(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["mask"][7, 3, 3] = 5


def no_label(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["mask"][...] = 0


RELATIVE = {"image": "slices.h5:image", "labels": "slices.h5:mask", "groups": "slices.h5:patient"}
MASKS = {**RELATIVE, "labels": "", "masks": {"a": "slices.h5:mask", "b": "slices.h5:mask"}}
TABLE = {"classes": {"0": "background", "1": "disk"}}


@pytest.mark.parametrize(
    ("sections", "spoil", "said"),
    [
        ({}, wrong_shape, ("slices.h5:mask", "(12, 16, 17)", "(12, 16, 16)", "labels_start")),
        (
            {},
            unexpected_value,
            (
                "data.volumes.labels",
                "3 values",
                'task.classes = { 0 = "background", 1 = "class 1", 5',
            ),
        ),
        (
            {"task": TABLE},
            unexpected_value,
            (
                "slices.h5:mask",
                "value 5 at (7, 3, 3)",
                'accept it by task.classes = { ..., 5 = "NAME" }',
            ),
        ),
        ({"validation": {"share": 0.95}}, None, ("validation.share 0.95 of 6 group(s)", "groups")),
        ({"training": {"batch": 7}}, None, ("2 walkers", "7")),
        ({"data": {"volumes": []}}, None, ("data.volumes is empty",)),
        ({"model": {"depth": 6}, "data": {"size": [16, 16]}}, None, ("16", "32")),
        ({"model": {"fov": [1, 1, 1]}}, None, ("unknown key 'model.fov'",)),
        ({"training": {"seed_pad": 0.1}}, None, ("training.seed_pad", "'classes'", "'flood'")),
        ({"segment": {"init_activation": 0.9}}, None, ("segment", "'flood'")),
        ({"model": {"kind": "unet2d"}}, None, ("model.kind is 'unet2d'", "'unet'")),
        ({"comm": {"exactness": "workers"}, "training": {"dice": "batch"}}, None, ("exactness",)),
        ({"data": {"patch": [1, 17, 17]}}, None, ("(1, 17, 17)", "(12, 16, 16)")),
        (
            {"data": {"size": [16, 16], "patch": [1, 8, 8]}},
            None,
            ("data.size is [16, 16]", "whole"),
        ),
        (
            {"data": {"unlabelled": 1}, "task": TABLE},
            None,
            ("data.unlabelled is 1", "task.classes"),
        ),
        ({"validation": {"box": "0:2,0:16,0:16"}}, None, ("validation.box and validation.share",)),
        ({"data": {"volumes": [MASKS]}}, None, ("slices.h5:mask", "masks", "overlap at (0, ")),
        (
            {"data": {"volumes": [{**RELATIVE, "box": "0:13,0:16,0:16"}]}},
            None,
            ("volume 'volume'", "box 0:13,0:16,0:16 is not inside the labels, 0:12,0:16,0:16"),
        ),
        (
            {"validation": {"share": 0.0, "volumes": [RELATIVE]}},
            None,
            ("6 group(s) of sections are trained on and held out: 1, 2", "expected other groups"),
        ),
        (
            {"data": {"unlabelled": 0}, "task": {"classes": {"1": "disk", "2": "other"}}},
            no_label,
            ("no voxel", "label"),
        ),
        ({"task": TABLE}, no_label, ("all labels of the training boxes have one class", "disk")),
        (
            {"data": {"patch": [1, 7, 7]}, "training": {"steps": 1}},
            None,
            ("samples of (1, 7, 7)", "multiples of (1, 2, 2)"),
        ),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sections: dict[str, Any],
    spoil: Any,
    said: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_slices(tmp_path)
    if spoil is not None:
        spoil(path)
    file = tmp_path / "run.toml"
    file.write_text(tomli_w.dumps(document(tmp_path, **sections)))
    assert command_line(["train", str(file)]) == 2
    lines = [text for text in capsys.readouterr().err.splitlines() if text]
    (line,) = [text for text in lines if "note: no voxel of the boxes" not in text]
    for part in said:
        assert part in line
    assert not (tmp_path / "run").exists()


def test_a_group_in_both_parts_is_refused(folder: Path) -> None:
    wrong = document(folder, validation={"share": 0.0, "volumes": [volume(folder / "slices.h5")]})
    with pytest.raises(
        Exception, match=r"6 group\(s\) of sections are trained on and held out: 1, "
    ):
        Trainer.from_config(config.from_dict(wrong))
    right = document(folder, validation={"share": 0.0, "volumes": [volume(folder / "others.h5")]})
    right["run"]["dir"] = str(folder / "others")
    Trainer.from_config(config.from_dict(right)).close()
