# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment CONFIG` of U-Nets: from the newest checkpoint to segments, for each task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomllib
from plans import refused
from scipy import ndimage
from training_patches import KINDS, text, write_patches

from floodtide import cli, config
from floodtide.base.tasks import Classes, Distance
from floodtide.data import Volume
from floodtide.report import segmented
from floodtide.segment.linking import objects_of
from floodtide.train import Trainer, read_run

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predicted")
    write_patches(path)
    return path


def same_partition(a: Array, b: Array) -> bool:
    """True if two segmentations have the same objects, whatever their numbers are."""
    pairs = np.unique(np.stack([a.ravel(), b.ravel()]), axis=1)
    return all(len(np.unique(row)) == pairs.shape[1] for row in pairs)


def components(classes: Array, *, sections: bool = False) -> Array:
    structure = ndimage.generate_binary_structure(3, 1)
    if sections:
        structure[[0, 2]] = False
    labels = np.zeros(classes.shape, np.int64)
    for value in np.unique(classes[classes > 0]):
        found, _ = ndimage.label(classes == value, structure)
        labels += np.where(found > 0, found + labels.max(), 0)
    return labels


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_is_segmented(
    folder: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    task = tomllib.loads(text(folder, kind))["task"]["kind"]
    if task != "classes":
        pytest.importorskip("waterz")
    file = folder / f"{kind}.toml"
    file.write_text(text(folder, kind, kind))
    more = ["training.steps=40", "optimizer.lr=5e-3", "training.walkers=2", "run.threads=1"]
    Trainer.from_config(config.load(file, more)).run()
    out = folder / f"{kind}.h5"
    capsys.readouterr()
    assert cli.run(["segment", str(file), "--out", f"{out}:segments", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    segments = Volume(f"{out}:segments")
    found = segments.read()
    assert found.shape == (8, 32, 32)  # the held-out box
    assert segments.geometry.offset == (12, 0, 0)
    assert report["segments"] == len(np.unique(found[found > 0])) > 0
    assert report["coverage"] == pytest.approx((found > 0).mean())
    with h5py.File(folder / f"{kind}.predicted.h5") as prediction:
        stored = prediction["predicted"]
        values = stored[()]
        if task == "classes":
            assert set(np.unique(values)) <= {0, 255}
            assert json.loads(stored.attrs["classes"]) == {
                "0": "background",
                "255": "foreground",
            }
            sections = kind == "two channels"  # its network sees one section at a time
            assert same_partition(found, components(values, sections=sections))
            both = [f"{folder / kind}.predicted.h5:predicted"] * 2
            assert cli.run(["evaluate", *both, "--objects", "--json"]) == 0
            row = json.loads(capsys.readouterr().out)["classes"][1]
            assert row["objects"]["true"] == report["segments"]
            of_report, _ = segmented.of_run(read_run(folder / kind), alone=True)
            assert of_report is not None
            assert same_partition(of_report.segmentation.read(), found)
        elif task == "distance":
            assert values.shape == (1, 8, 32, 32)
            assert not found[values[0] <= 0.5].any()
        else:
            offsets = json.loads(stored.attrs["offsets"])
            assert values.shape == (len(offsets), 8, 32, 32)
    if kind != "two channels":
        line = ["segment", f"{folder}/volume.h5:raw", "--model", str(folder / kind)]
        box = ["--box", "12:20,0:32,0:32"]
        assert cli.run([*line, "--out", f"{folder}/{kind} model.tif", *box]) == 0
        np.testing.assert_array_equal(Volume(f"{folder}/{kind} model.tif").read(), found)
    else:
        line = ["segment", str(file), "--set", f"segment.image={folder}/volume.h5:second"]
        said = refused(*line, "--out", f"{out}:other", capsys=capsys)
        assert "1 image(s), expected 2: one for each channel of the network" in said
    box = ["--box", "2:5,0:32,0:16"]
    assert cli.run(["segment", str(file), "--out", f"{folder}/{kind} box.h5:s", *box]) == 0
    assert Volume(f"{folder}/{kind} box.h5:s").shape == (3, 32, 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('kind = "classes"', 'kind = "distance"'), "expected 'distance' (distance)"),
        (
            ('kind = "classes"', 'kind = "classes"\nclasses = { 0 = "a", 255 = "b" }'),
            "expected 'classes' (a; b)",
        ),
    ],
)
def test_the_task_of_the_configuration_is_that_of_the_checkpoint(
    folder: Path, change: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "changed.toml"
    file.write_text(text(folder, "classes in space", "changed"))
    Trainer.from_config(config.load(file, ["training.steps=1"])).run()
    file.write_text(file.read_text().replace(*change))
    capsys.readouterr()
    assert cli.run(["segment", str(file), "--out", f"{folder}/changed.h5:s"]) == 2
    said = capsys.readouterr().err
    assert "has learnt the task 'classes' (background; foreground)" in said
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("sections", [False, True])
def test_objects_of_classes_are_connected_components_of_each_class(sections: bool) -> None:
    random = np.random.default_rng(0)
    classes = np.array([0, 7, 255])[random.choice(3, (6, 12, 13), p=(0.7, 0.2, 0.1))]
    task = Classes(classes={"0": "background", "7": "vesicle", "255": "mitochondria"})
    found = objects_of(task, classes, sections=sections)
    assert same_partition(found, components(classes, sections=sections))
    assert len(np.unique(found)) == found.max() + 1


def test_objects_of_distances_are_cut_where_the_distance_is_small() -> None:
    pytest.importorskip("waterz")
    x = np.arange(40)
    profile = np.minimum(np.abs(x - 20), 6)[None, None] * np.ones((10, 12, 1))
    depth = np.where(np.minimum(x, 39 - x) > 2, profile, -2)  # two plates with a gap, and outside
    distances = (0.5 + np.tanh(depth / 3) / 2).astype(np.float32)
    found = objects_of(Distance(scale=3.0), distances[None])
    assert len(np.unique(found[found > 0])) == 2
    assert found[5, 6, 10] != found[5, 6, 30]
    assert not found[..., :3].any()
    assert not found[..., 20].any()
    flat = objects_of(Distance(scale=3.0), distances[None], sections=True)
    assert len(np.unique(flat[flat > 0])) == 20
    assert all(len(np.unique(section)) == 3 for section in flat)
