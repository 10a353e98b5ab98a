# SPDX-License-Identifier: Apache-2.0
"""Networks that `floodtide convert` wrote keep task and normalisation: they predict as the checkpoint does."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
import pytest

from floodtide import cli, data, nn
from floodtide.base.network_files import metadata
from floodtide.config.reader import stored
from floodtide.data.look.trained_on import TrainedOn, to_text, training_images

TASKS = {
    "classes": 'kind = "classes"\nclasses = { 3 = "none", 9 = "object" }',
    "lsd": 'kind = "lsd"\noffsets = [[-1, 0, 0], [0, -4, 0]]',
}
SEEN = TrainedOn(name="volume", mean=100.0, std=50.0, image_mean=127.0, image_std=74.0)


@pytest.fixture(params=TASKS)
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images, and the run of a network that reads both; the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("image", "second"):
        seed = np.random.default_rng(len(name))
        data.write_volume(f"{name}.h5", {"raw": seed.integers(0, 256, (2, 20, 24), np.uint8)})
    options = nn.UNetOptions(depth=2, kernels=((1, 3, 3),), pools=((1, 2, 2),))
    classes, output = (2, "softmax") if request.param == "classes" else (12, "sigmoid")
    network = nn.UNet(options, classes=classes, in_channels=2, output=output, seed=5)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-4.h5"
    checkpoint.parent.mkdir(parents=True)
    network.save(checkpoint, statistics=to_text([SEEN]))
    with h5py.File(checkpoint, "r+") as file:
        file.attrs["configuration"] = (
            f'[task]\n{TASKS[request.param]}\n[model]\nkind = "unet"\n'
            '[[data.volumes]]\nimage = "image.h5:raw"\nmean = 100.0\nstd = 50.0\n'
            'channels = [{ image = "second.h5:raw", mean = 30.0, std = 90.0 }]\n'
        )
    return tmp_path


def predicted(network: str) -> Any:
    arguments = ["predict", network, "image.h5:raw", "out.h5:a", "--channel", "second.h5:raw"]
    assert cli.run(arguments) == 0
    with h5py.File("out.h5") as file:
        return file["a"][()]


def test_predictions_and_metadata_are_the_same_after_any_way(folder: Path) -> None:
    ways = ["run", "a.h5", "b.safetensors", "c.h5", "d.onnx"]
    for source, destination in [*itertools.pairwise(ways), ("run", "e.safetensors")]:
        assert cli.run(["convert", source, destination]) == 0
    (folder / "b.safetensors").rename("F.SAFETENSORS")
    expected = predicted("run")
    first = stored("run/checkpoints/step-4.h5")
    for network in ("a.h5", "F.SAFETENSORS", "c.h5"):
        np.testing.assert_array_equal(predicted(network), expected)
        settings = stored(network)
        assert settings is not None
        assert first is not None
        assert settings.task == first.task
        assert training_images(network) == (SEEN,)
    notes = metadata("e.safetensors")
    assert metadata("F.SAFETENSORS") == notes
    assert {row.key: row.value for row in onnx.load("d.onnx").metadata_props} == notes
    assert (json.loads(notes["mean"]), json.loads(notes["std"])) == ([100, 30], [50, 90])
    if notes["task"] == "classes":
        assert set(np.unique(expected)) <= {3, 9}
        assert json.loads(notes["classes"]) == {"3": "none", "9": "object"}
    else:
        assert expected.shape == (2, 2, 20, 24)
        assert json.loads(notes["offsets"]) == [[-1, 0, 0], [0, -4, 0]]


def test_a_run_without_checkpoint_is_refused(tmp_path: Path, capsys: Any) -> None:
    assert cli.run(["convert", str(tmp_path), str(tmp_path / "a.h5")]) == 2
    assert "nor a run directory with one in checkpoints/" in capsys.readouterr().err
    nn.FFN(depth=1, features=2).save(tmp_path / "a.h5")
    assert stored(tmp_path / "a.h5") is None
