# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment`: a run end to end, and one line with exit status 2 for wrong input."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
import tomli_w

from floodtide import cli, data, nn
from floodtide.segment import Segmenter, SegmentOptions

MODEL = nn.FFN(depth=2, fov=(7, 9, 7), deltas=(3, 4, 3), features=4, seed=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small volume and a configuration whose checkpoint is MODEL."""
    real_load = nn.load

    def load(path, fov=None, deltas=None, compute="fp32"):
        return (
            MODEL
            if path.endswith("model.h5")
            else real_load(path, fov=fov, deltas=deltas, compute=compute)
        )

    monkeypatch.setattr(nn, "load", load)
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 255, (20, 24, 22)).astype(np.uint8)
    data.write_volume(tmp_path / "image.h5", {"raw": raw, "flat": raw.astype(np.float32)})
    document = {
        "data": {
            "volumes": [
                {"name": "sample", "image": f"{tmp_path}/image.h5:raw", "mean": 120.0, "std": 40.0}
            ]
        },
        "segment": {
            "checkpoint": f"{tmp_path}/model.h5",
            "image": "sample",
            "min_segment_size": 1,
            "move_threshold": 0.6,
            "disco_seed_threshold": -1.0,
        },
    }
    (tmp_path / "config.toml").write_text(tomli_w.dumps(document))
    return tmp_path


def run(folder, *arguments):
    out = f"{folder}/out.h5:ids"
    return cli.run(["segment", f"{folder}/config.toml", "--out", out, *arguments])


def test_a_box_of_a_named_volume_is_segmented(folder, capsys):
    assert run(folder, "--box", "1:20,2:24,3:22", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    options = SegmentOptions(
        mean=120.0, std=40.0, min_segment_size=1, move_threshold=0.6, disco_seed_threshold=-1.0
    )
    volume = data.Volume(folder / "image.h5", "raw")
    expected = Segmenter(MODEL, options).segment(volume, ((1, 2, 3), (19, 22, 19)))
    assert report["network_calls"] == expected.counters["inference-calls"] > 0
    with h5py.File(folder / "out.h5") as file:
        np.testing.assert_array_equal(file["ids"][:], expected.segmentation)
        assert tuple(file["ids"].attrs["box_start"]) == (1, 2, 3)
        assert file["ids"].attrs["image"] == f"{folder}/image.h5:raw"
        assert json.loads(file["ids"].attrs["options"])["mean"] == 120.0


def test_files_may_be_named_directly_and_the_report_is_one_line(folder, capsys):
    image = f"segment.image={folder}/image.h5:flat"
    assert run(folder, "--set", image, "--set", "run.threads=1") == 0
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert "network calls" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--box", "0:6,0:24,0:22"], "larger than the volume"),
        (["--box", "0:21,0:24,0:22"], "not inside"),
        (["--box", "nonsense"], "expected z0:z1"),
        (["--set", "segment.image=other.h5:raw"], "other.h5"),
        (["--set", "segment.checkpoint=other.h5"], "other.h5"),
        (["--set", "segment.checkpoint="], "segment.checkpoint is missing"),
        (["--set", "segment.seed_policy=grid"], "'peaks'"),
        (["--set", "segment.move_treshold=0.8"], "segment.move_threshold"),
        (["--set", "segment.move_threshold=1.5"], "is 1.5, expected above 0 and below 1"),
        (["--out", "out.h5"], "out.h5"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(folder, capsys, arguments, message):
    assert run(folder, *arguments) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("floodtide segment: ")
    assert message in lines[0]
    assert not list(folder.glob("out.h5*"))
