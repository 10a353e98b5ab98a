# SPDX-License-Identifier: Apache-2.0
"""A trained U-Net segments any image: in subvolumes, at other voxel sizes, in other formats."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import affinity_network
import numpy as np
import pytest
from affinity_network import SHAPE, SUBVOLUME
from plans import refused

from floodtide import cli, data
from floodtide.agglomerate import predicted
from floodtide.data import Volume
from floodtide.evaluate import scores
from floodtide.segment import blocks

pytest.importorskip("waterz")
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return affinity_network.train(tmp_path_factory.mktemp("stack"))


@pytest.fixture(scope="module")
def whole(plan: Path) -> Array:
    """Return the segments of the whole volume in one piece."""
    out = f"{plan.parent}/whole.h5:s"
    assert cli.run(["segment", str(plan), "--out", out, "--box", "0:64,0:64,0:64"]) == 0
    return Volume(out).read()


def segmented(*line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.run(["segment", *line, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_subvolumes_have_the_segments_of_the_whole(
    plan: Path, whole: Array, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [str(plan), "--out", f"{tmp_path}/pieces", *SUBVOLUME]
    estimate = segmented(*line, "--estimate", capsys=capsys)
    assert (estimate["subvolumes"], estimate["counts"]) == (27, [3, 3, 3])
    assert estimate["hours"] == pytest.approx(27 * estimate["seconds_per_subvolume"] / 3600)
    assert estimate["memory_bytes_per_rank"] > 300 << 20
    assert not (tmp_path / "pieces").exists()
    assert segmented(*line, "--subvolumes", "3:5", capsys=capsys)["segmented"] == 2
    assert segmented(*line, "--estimate", capsys=capsys)["segmented"] == 2
    found = segmented(*line, capsys=capsys)
    assert (found["subvolumes"], found["segmented"], found["missing"]) == (27, 25, 0)
    assert segmented(*line, capsys=capsys)["segmented"] == 0
    assert cli.run(["reconcile", f"{tmp_path}/pieces", f"{tmp_path}/out.h5:s"]) == 0
    out = Volume(f"{tmp_path}/out.h5:s")
    assert (out.shape, out.geometry.voxel_size_nm) == (SHAPE, (16.0, 16.0, 16.0))
    assert whole.max() > 3
    assert error(out.read(), whole) < 0.01


def test_the_seconds_are_also_those_of_choosing_the_decoding(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen, decoding_of = [0.0], predicted.decoding_of

    def slow(*arguments: Any) -> Any:
        chosen[0] += 1000.0
        return decoding_of(*arguments)

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + chosen[0])
    monkeypatch.setattr(blocks, "time", clock)
    monkeypatch.setattr(predicted, "decoding_of", slow)
    assert segmented(str(plan), "--out", f"{tmp_path}/out.h5:s", capsys=capsys)["seconds"] > 1000
    pieces = [str(plan), "--out", f"{tmp_path}/pieces", *SUBVOLUME]
    assert segmented(*pieces, "--subvolumes", "0:1", capsys=capsys)["seconds"] > 1000


def test_an_image_of_other_voxels_and_format(
    plan: Path, whole: Array, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = Volume(f"{plan.parent}/volume.h5:raw").read().repeat(2, 1).repeat(2, 2)
    fine = data.convert(Volume(raw), f"{tmp_path}/fine.zarr", voxel_size_nm=(16, 8, 8)).name
    line = [fine, "--model", f"{plan.parent}/run", "--out"]
    segmented(*line, f"{tmp_path}/out.tif", capsys=capsys)
    expected = whole.repeat(2, 1).repeat(2, 2)
    np.testing.assert_array_equal(Volume(f"{tmp_path}/out.tif").read(), expected)
    part = ["--box", "3:60,5:120,7:121"]
    segmented(*line, f"{tmp_path}/part.zarr", *part, capsys=capsys)
    kept = Volume(f"{tmp_path}/part.zarr")
    assert (kept.geometry.offset, kept.shape) == ((3, 5, 7), (57, 115, 114))
    assert kept.geometry.voxel_size_nm == (16.0, 8.0, 8.0)
    cut = ["--set", "segment.subvolume=[33,51,53]"]  # not a multiple of the factor
    segmented(*line, f"{tmp_path}/pieces", *part, *cut, capsys=capsys)
    assert cli.run(["reconcile", f"{tmp_path}/pieces", f"precomputed://{tmp_path}/joined"]) == 0
    joined = Volume(f"precomputed://{tmp_path}/joined")
    assert (joined.geometry.offset, joined.shape) == ((3, 5, 7), (57, 115, 114))
    assert joined.geometry.voxel_size_nm == (16.0, 8.0, 8.0)
    assert error(joined.read(), kept.read()) < 0.01


def test_another_image_of_the_plan(
    plan: Path, whole: Array, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = data.convert(
        Volume(np.ascontiguousarray(Volume(f"{plan.parent}/volume.h5:raw").read()[:, ::-1])),
        f"{tmp_path}/other.tif",
    ).name
    line = [str(plan), "--set", f"segment.image={other}", "--out"]
    text = refused("segment", *line, f"{tmp_path}/a.h5:s", capsys=capsys)
    assert "states no voxel size, and the network was trained on voxels of 16 x 16 x 16 nm" in text
    line += [f"{tmp_path}/other.h5:s", "--voxel-nm", "16,16,16"]
    found = segmented(*line, capsys=capsys)
    assert found["prediction"] == f"{tmp_path}/other.predicted.h5:predicted"
    assert error(Volume(f"{tmp_path}/other.h5:s").read(), whole[:, ::-1]) < 0.001


def test_what_does_not_fit(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*line: str) -> str:
        return refused("segment", *line, capsys=capsys)

    raw = Volume(f"{plan.parent}/volume.h5:raw").read()
    model = ["--model", f"{plan.parent}/run", "--voxel-nm", "16,16,16"]
    faint = data.convert(Volume((raw // 40).astype(np.uint8)), f"{tmp_path}/faint.tif").name
    assert "segment.mean and segment.std" in said(faint, *model, "--out", f"{tmp_path}/f.h5:s")
    inverted = data.convert(Volume(255 - raw), f"{tmp_path}/inverted.tif").name
    assert cli.run(["segment", inverted, *model, "--out", f"{tmp_path}/i.h5:s"]) == 0
    assert "set segment.mean and segment.std to" in capsys.readouterr().err
    out = ["--out", f"{tmp_path}/pieces"]
    size = ["--voxel-nm", "1600,16,16"]
    assert "factor of 64" in said(faint, *model[:2], *size, *out, *SUBVOLUME)
    assert "names a dataset" in said(str(plan), "--out", "a.h5:s", *SUBVOLUME)
    assert "box 0:65,0:64,0:64 is not inside" in said(
        str(plan), *out, *SUBVOLUME, "--box", "0:65,0:64,0:64"
    )
    assert "without segment.subvolume" in said(str(plan), *out, "--subvolumes", "0:1")
    assert "expected it only for 'flood'" in said(str(plan), *out, "--set", "segment.grow=1")
    assert "--preview is for flood-filling networks" in said(faint, *model, "--preview")
    theirs = data.convert(Volume(raw), f"{tmp_path}/theirs.h5:s").name
    assert "theirs.h5:s: exists" in said(str(plan), "--out", theirs)
    assert not Path(tmp_path, "theirs.predicted.h5").exists()  # it says so before the prediction
    (tmp_path / "there.zarr").mkdir()
    assert "exists and is not replaced" in said(str(plan), "--out", f"{tmp_path}/there.zarr")
    line = ["segment", str(plan), *out, *SUBVOLUME, "--subvolumes", "0:1"]
    assert cli.run(line) == 0
    capsys.readouterr()
    text = said(*line[1:], "--set", "segment.mean=120.0")
    assert "its subvolumes were made with mean = [128.0], now it is [120.0]" in text


def error(found: Array, truth: Array) -> float:
    """Return the adapted Rand error, in which the voxels without a segment are one more segment."""
    return scores(found.astype(np.int64) + 1, truth.astype(np.int64) + 1)["adapted_rand_error"]
