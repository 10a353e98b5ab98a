# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab compare`: which objects of another segmentation differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import bright_network
import h5py
import numpy as np
import pytest

from floodtide import cli, evaluate
from floodtide.lab.compared import differing_objects


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """A folder with the segmentation of a volume, and a copy of it that tests change."""
    file = bright_network.configuration(tmp_path)
    assert cli.run(["segment", str(file), "--out", f"{tmp_path}/out.h5:ids"]) == 0
    shutil.copy(tmp_path / "out.h5", tmp_path / "reference.h5")
    return tmp_path


def compared(folder: Path, capsys, *arguments: str) -> str:
    capsys.readouterr()
    words = ["lab", "compare", f"{folder}/out.h5:ids", f"{folder}/reference.h5:ids", *arguments]
    assert cli.run(words) == 0
    return capsys.readouterr().out


def test_equal_segmentations_have_no_differences(found: Path, capsys):
    report = json.loads(compared(found, capsys, "--json"))
    assert report["matching"]["identical"] == report["matching"]["objects"] > 3
    assert report["differences"] == []
    assert report["network_calls"] == report["reference_network_calls"] > 0


def test_an_object_that_lacks_a_voxel_is_told(found: Path, capsys):
    with h5py.File(found / "out.h5", "r+") as file:
        labels = file["ids"][()]
        name = int(np.bincount(labels[labels > 0]).argmax())
        file["ids"][tuple(np.argwhere(labels == name)[0])] = 0
    (row,) = json.loads(compared(found, capsys, "--json"))["differences"]
    assert row == {"object": name, "segment": name, "missing": 1, "additional": 0}
    text = compared(found, capsys)
    assert f"object {name}: 1 voxels missing, 0 additional" in text
    assert "voxel for voxel" in text


def test_objects_that_differ_are_those_without_an_equal_segment():
    table = evaluate.ContingencyTable()
    a = np.array([[[1, 1, 1, 2, 2, 0, 3, 0]]], np.uint8)
    b = np.array([[[5, 5, 5, 6, 0, 7, 8, 8]]], np.uint8)
    table.add(a, b)
    rows = differing_objects(table)
    assert [(r.object, r.segment, r.missing, r.additional) for r in rows] == [
        (6, 2, 0, 1),
        (7, 0, 1, 0),
        (8, 3, 1, 0),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["volume.h5:raw"], "origins"),
        (["missing.h5:ids"], "missing.h5"),
        (["small.h5:ids"], "expected one that covers the segmentation"),
    ],
)
def test_wrong_input_is_one_line(found: Path, capsys, words, message):
    with h5py.File(found / "small.h5", "w") as file:
        file["ids"] = np.zeros((4, 4, 4), np.uint8)
    capsys.readouterr()
    words = [f"{found}/{word}" if "." in word and "-" not in word else word for word in words]
    assert cli.run(["lab", "compare", f"{found}/out.h5:ids", *words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
