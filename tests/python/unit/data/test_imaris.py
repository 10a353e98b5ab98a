# SPDX-License-Identifier: Apache-2.0
"""Imaris pads its datasets to whole chunks: floodtide reads the size that the group states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from floodtide import cli, data

CHANNEL = "DataSet/ResolutionLevel 0/TimePoint 0/Channel 0"
IMAGE = np.random.default_rng(0).integers(1, 255, (5, 24, 20)).astype(np.uint8)


def stored(path: Path, sizes: dict[str, Any]) -> str:
    with h5py.File(path, "w") as file:
        group = file.create_group(CHANNEL)
        padded = np.pad(IMAGE, [(0, 3), (0, 8), (0, 12)])
        group.create_dataset("Data", data=padded, chunks=(8, 16, 16))
        for axis, size in sizes.items():
            group.attrs[f"ImageSize{axis}"] = size
    return f"{path}:{CHANNEL}/Data"


def characters(text: str) -> Any:
    return np.array(list(text), "S1")


@pytest.mark.parametrize("kind", [characters, str, np.bytes_])
def test_padding_is_not_read(kind: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"X": kind("20"), "Y": kind("24"), "Z": kind("5")}
    name = stored(tmp_path / "v.ims", sizes)
    volume = data.Volume(name)
    assert volume.shape == (5, 24, 20)
    np.testing.assert_array_equal(volume.read(), IMAGE)
    np.testing.assert_array_equal(volume.read(((2, 3, 4), (3, 21, 16))), IMAGE[2:, 3:, 4:])
    assert "ImageSize" not in capsys.readouterr().err
    assert cli.run(["convert", name, f"{tmp_path}/o.h5:x", "--voxel-nm", "40,4,4"]) == 0
    np.testing.assert_array_equal(data.Volume(f"{tmp_path}/o.h5:x").read(), IMAGE)


@pytest.mark.parametrize(
    "sizes",
    [
        {"X": characters("33"), "Y": characters("24"), "Z": characters("5")},
        {"X": characters("20"), "Y": characters("24")},
        {"X": characters("2O"), "Y": characters("24"), "Z": characters("5")},
        {"X": np.float32([20]), "Y": characters("24"), "Z": characters("5")},
    ],
)
def test_sizes_that_do_not_fit_are_noted(
    sizes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert data.Volume(stored(tmp_path / "v.ims", sizes)).shape == (8, 32, 32)
    assert "ImageSizeX of Imaris are" in capsys.readouterr().err
