# SPDX-License-Identifier: Apache-2.0
"""Small files that claim, and unpack to, more than the available memory: one line before anything is decoded."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile

from floodtide import _core, cli, errors
from floodtide.data import Volume

EDGE = 12_000


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 128 MiB of memory be available."""
    monkeypatch.setattr(_core, "available_bytes", lambda: 1 << 27)


def bomb(path: Path) -> str:
    """Write a TIFF picture of 144 MB in less than 200 kB."""
    strip = zlib.compress(bytes(EDGE * 1000), 9)
    tifffile.imwrite(
        path,
        iter([strip] * (EDGE // 1000)),
        shape=(EDGE, EDGE),
        dtype=np.uint8,
        compression="zlib",
        rowsperstrip=1000,
    )
    assert path.stat().st_size < 200_000
    return str(path)


def zarr(path: Path, shape: list[int], chunks: list[int]) -> str:
    path.mkdir()
    document = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": chunks,
        "dtype": "|u1",
        "compressor": {"id": "zlib", "level": 9},
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
    (path / ".zarray").write_text(json.dumps(document))
    return str(path)


@pytest.mark.usefixtures("small_machine")
def test_a_picture_that_unpacks_to_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    name = bomb(tmp_path / "bomb.tif")
    for reference in (name, f"{tmp_path}/*.tif"):
        with pytest.raises(
            errors.InvalidArgumentError, match=r"bomb\.tif: 12000 x 12000 voxels at"
        ):
            Volume(reference)


@pytest.mark.usefixtures("small_machine")
def test_a_chunk_that_unpacks_to_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"512 x 512 x 512 voxels at once need"):
        Volume(zarr(tmp_path / "a.zarr", [1024, 512, 512], [512, 512, 512]))


@pytest.mark.usefixtures("small_machine")
def test_a_box_that_does_not_fit_is_refused_and_a_smaller_one_is_read(tmp_path: Path) -> None:
    volume = Volume(zarr(tmp_path / "a.zarr", [1024, 512, 512], [64, 64, 64]))
    with pytest.raises(errors.InvalidArgumentError, match="1024 x 512 x 512 voxels at once need"):
        volume.read()
    assert not volume.read("0:9,0:9,0:9").any()


def test_a_volume_that_claims_too_many_sections_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = zarr(tmp_path / "a.zarr", [2**28, 4, 4], [64, 4, 4])

    assert cli.run(["inspect", name, "--out", str(tmp_path / "page.html")]) == 2

    said = capsys.readouterr().err
    assert "has 268435456 sections (z), expected at most" in said
    assert len([line for line in said.splitlines() if "note: " not in line]) == 1


def test_what_fits_is_read(tmp_path: Path) -> None:
    name = bomb(tmp_path / "bomb.tif")
    assert not Volume(name).read("0:1,0:9,11900:12000").any()
    assert not Volume(f"{tmp_path}/*.tif").read("0:1,0:9,11900:12000").any()
