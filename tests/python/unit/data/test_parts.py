# SPDX-License-Identifier: Apache-2.0
"""Parts of volumes: `floodtide convert --box`, and labels that are smaller than their image."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from floodtide import cli, data
from floodtide.data import look
from floodtide.data.copies import eroded
from floodtide.data.volumes import require_same_grid
from floodtide.errors import OutOfRangeError, ShapeError

RAW = np.random.default_rng(0).integers(0, 255, (20, 24, 28), np.uint8)
LABELS = np.random.default_rng(1).integers(0, 3, (6, 8, 10)).astype(np.uint32)


@pytest.fixture
def padded(tmp_path: Path) -> Path:
    """A file as CREMI writes it: labels (6, 8, 10) that begin at voxel 7, 9, 11 of their image, in nm."""
    path = tmp_path / "padded.h5"
    with h5py.File(path, "w") as file:
        file["raw"], file["ids"] = RAW, LABELS
        labels = file["ids"]
        file["raw"].attrs["resolution"] = labels.attrs["resolution"] = [40.0, 4.0, 4.0]
        labels.attrs["offset"] = [280.0, 36.0, 44.0]
    return path


def test_labels_of_a_part_of_the_image_lead_to_a_training(
    padded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ShapeError) as told:
        look.alignment(data.Volume(f"{padded}:raw"), data.Volume(f"{padded}:ids"))
    boxes = re.findall(r"(\S+) of the image is (\S+) of the labels, if the", str(told.value))
    assert boxes == [("(7:13,9:17,11:21", "0:6,0:8,0:10")]
    part = f"{padded.parent}/part.zarr"
    assert cli.run(["convert", f"{padded}:raw", part, "--box", boxes[0][0][1:]]) == 0
    assert "7,9,11" in capsys.readouterr().out
    found = data.Volume(part)
    assert (found.read() == RAW[7:13, 9:17, 11:21]).all()
    assert found.geometry.voxel_size_nm == (40, 4, 4)
    require_same_grid("test", data.Volume(f"{padded}:ids"), found)


def test_a_copy_needs_the_name_of_a_dataset(
    padded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["convert", f"{padded}:raw", f"{padded.parent}/copy.h5", "--labels"]) == 2
    assert f"expected {padded.parent}/copy.h5:DATASET" in capsys.readouterr().err


def test_a_part_of_a_part_states_its_place_in_the_whole(padded: Path) -> None:
    found = data.convert(f"{padded}:ids", padded.parent / "part.zarr", box=((1, 2, 3), (4, 5, 6)))
    assert (found.read() == LABELS[1:5, 2:7, 3:9]).all()
    assert found.geometry.offset == (8, 11, 14)


def test_erosion_sees_the_objects_outside_of_the_box(padded: Path) -> None:
    whole = eroded(data.Volume(LABELS), (1, 1, 1)).read()
    asked: dict[str, Any] = {"labels": True, "erode": 1, "box": ((2, 3, 4), (3, 3, 3))}
    found = data.convert(f"{padded}:ids", padded.parent / "part.zarr", **asked)
    assert (found.read() == whole[2:5, 3:6, 4:7]).all()


def test_a_box_outside_is_refused_before_anything_is_written(padded: Path) -> None:
    with pytest.raises(
        OutOfRangeError, match=r"box 0:6,0:8,2:12 is not inside its \(6, 8, 10\) voxels"
    ):
        data.convert(f"{padded}:ids", padded.parent / "part.zarr", box="0:6,0:8,2:12")
    assert [one.name for one in padded.parent.iterdir()] == ["padded.h5"]
