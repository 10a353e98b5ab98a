# SPDX-License-Identifier: Apache-2.0
"""Previews and whole segmentations of an image with a known network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bright_network
import numpy as np
import pytest
from plans import refused
from scipy import ndimage

from floodtide import cli, data, segment
from floodtide.base import progress
from floodtide.data import Volume
from floodtide.nn.load import load_ffn
from floodtide.plan import segmenting

pytestmark = pytest.mark.usefixtures("fast")


def test_previews(
    tmp_path: Path,
    network: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At the network's voxels, and at finer ones, which are resampled and come back on the image's grid."""
    monkeypatch.chdir(tmp_path)
    bright_network.write_volume(tmp_path / "volume.h5", (32, 36, 40))
    raw = Volume("volume.h5:raw").read()

    truth = ndimage.label(raw > 128)[0].astype(np.int32)
    data.write_volume("truth.h5", {"labels": truth})
    line = [
        "segment",
        "volume.h5:raw",
        "--model",
        network,
        "--preview",
    ]
    line += [
        "--set",
        "segment.min_segment_size=20",
        "--set",
        "segment.mean=128.0",
        "--set",
        "segment.std=33.0",
    ]
    assert cli.run([*line, "--voxel-nm", "8,8,8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["box"] == "0:32,0:36,0:40"
    assert not found["stopped"]
    options = segment.SegmentOptions(mean=128.0, std=33.0, reflect=True, min_segment_size=20)
    expected = segment.Segmenter(load_ffn(tmp_path / "bright.h5"), options).segment(raw)
    whole = Volume("volume-preview.h5:segmentation").read()
    np.testing.assert_array_equal(whole, expected.segmentation)
    assert found["coverage"] == expected.coverage
    assert Path("volume-preview.png").stat().st_size > 10_000
    assert cli.run([*line, "--voxel-nm", "4,8,8", "--box", "2:30,0:36,4:40"]) == 0
    text = capsys.readouterr()
    assert "resampled to 8 x 8 x 8 nm for fib25" in text.err
    assert cli.run(["evaluate", "volume-preview.h5:segmentation", "truth.h5:labels"]) == 0
    assert "best grey level" in capsys.readouterr().out
    part = Volume("volume-preview.h5:segmentation")
    assert part.shape == (28, 36, 36)
    assert part.geometry.offset == (2, 0, 4)
    for size in ("8,8,8", "4,8,8"):
        text = refused(*line, "--voxel-nm", size, "--box", "2:33,0:36,0:40", capsys=capsys)
        assert "box 2:33,0:36,0:40 is not inside the image of 32 x 36 x 40 voxels" in text


def test_a_whole_image_with_a_known_network(
    tmp_path: Path, network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bright_network.write_volume(tmp_path / "volume.h5", (24, 26, 28))
    line = [
        "segment",
        f"{tmp_path}/volume.h5:raw",
        "--model",
        network,
        "--out",
        f"{tmp_path}/o.h5:s",
    ]
    line += ["--set", "segment.min_segment_size=20"]
    text = refused(*line, "--voxel-nm", "4,4,4", capsys=capsys)
    assert "--resample-nm 8,8,8" in text
    assert cli.run([*line, "--voxel-nm", "8,8,8", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["segments"] > 0
    assert report["mean"] != 128.0  # the image has other grey levels


def test_previews_end_in_time(
    tmp_path: Path,
    network: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("floodtide.plan.segmenting.LIMIT_S", 0.0)
    bright_network.write_volume(tmp_path / "volume.h5", (24, 26, 28))
    line = ["segment", "volume.h5:raw", "--model", network, "--preview", "--voxel-nm", "8,8,8"]
    assert cli.run(line) == 0
    assert "the time was over" in capsys.readouterr().out


def test_the_time_left_of_a_preview_is_at_most_its_limit(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first objects of a box settle slowly: by their speed alone, the preview would take many minutes."""
    monkeypatch.chdir(tmp_path)
    seen = []
    made = progress.bar

    def bar(*arguments: Any, **options: Any) -> progress.bar:
        limit_s = options["at_most_s"]()
        assert limit_s is not None
        seen.append(limit_s)
        return made(*arguments, **options)

    monkeypatch.setattr(progress, "bar", bar)
    bright_network.write_volume(tmp_path / "volume.h5", (24, 26, 28))
    line = ["segment", "volume.h5:raw", "--model", network, "--preview", "--voxel-nm", "8,8,8"]
    assert cli.run(line) == 0
    assert len(seen) == 1
    assert 0.0 < seen[0] <= segmenting.LIMIT_S


@pytest.mark.parametrize(
    "line",
    [
        ["a.tif", "--preview"],
        ["a.tif", "--model", "fib25"],
        ["a.tif", "--model", "fib25", "--preview", "--estimate"],
        ["a.toml"],
    ],
)
def test_options_belong_together(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected" in refused("segment", *line, capsys=capsys)
