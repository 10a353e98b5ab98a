# SPDX-License-Identifier: Apache-2.0
"""Commands that write HDF5 only say so for names of other formats, before they work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from floodtide import cli, nn

LABELS = (np.indices((12, 12, 12)) // 4).sum(0).astype(np.uint32) + 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    nn.FFN(depth=1, features=2, fov=(5, 5, 5), deltas=(1, 1, 1)).save("ffn.h5")
    nn.UNet(nn.UNetOptions(depth=1, features=16), classes=2).save("unet.h5")
    with h5py.File("v.h5", "w") as file:
        file["labels"] = LABELS
        file["image"] = LABELS.astype(np.uint8) * 20
    Path("c.toml").write_text(
        '[segment]\ncheckpoint = "ffn.h5"\nimage = "v.h5:image"\nmean = 80\nstd = 33\n'
    )
    return tmp_path


COMMANDS: dict[str, list[Any]] = {
    "predict": ["unet.h5", "v.h5:image", "OUT", "--mean", "80", "--std", "33"],
    "segment": ["c.toml", "--out", "OUT"],
    "partition": ["v.h5:labels", "OUT", "--lom-radius", "1,2,2"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "out", ["precomputed://o", "o.zarr", "o.zarr/x", "o.N5/", "o.tif", "o.nii.gz", "s3://b/o"]
)
def test_names_of_other_formats_are_refused(
    command: str, out: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    words = [out if word == "OUT" else word for word in COMMANDS[command]]
    assert cli.run([command, *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"floodtide {command}: writes FILE.h5:DATASET, and not {out}; `floodtide convert" in said
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dataset_of_any_name_is_written(command: str, folder: Path) -> None:
    words = ["o.h5:a.zarr" if word == "OUT" else word for word in COMMANDS[command]]
    assert cli.run([command, *words]) == 0
    with h5py.File("o.h5") as file:
        assert "a.zarr" in file
