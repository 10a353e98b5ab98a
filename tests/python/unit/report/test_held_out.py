# SPDX-License-Identifier: Apache-2.0
"""Pictures of what a run held out, predicted for the report from its newest checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_page import Page
from unet_runs import validation_record

from floodtide import config, data, nn, report
from floodtide.report import drawing, held_out, segmented
from floodtide.report.segmented import Segmented, worst_of
from floodtide.segment.predict import Predictor
from floodtide.train import read_run

GROUPS = """\
[[data.volumes]]
image = "FOLDER/slices.h5:image"
labels = "FOLDER/slices.h5:mask"
groups = "FOLDER/slices.h5:patient"
mean = 100.0
std = 50.0
[data]
patch = "whole"
[task]
kind = "classes"
classes = { 0 = "background", 1 = "liver" }
[model]
kind = "unet"
depth = 2
kernels = [[1, 3, 3]]
pools = [[1, 2, 2]]
[[validation.volumes]]
image = "FOLDER/slices.h5:image"
labels = "FOLDER/slices.h5:mask"
groups = "FOLDER/slices.h5:patient"
mean = 100.0
std = 50.0
"""
VOLUME = """\
[[data.volumes]]
name = "made"
image = "FOLDER/volume.h5:raw"
labels = "FOLDER/volume.h5:labels"
voxel_size_nm = [20.0, 10.0, 10.0]
box = "0:8,0:48,0:48"
[data]
patch = [8, 24, 24]
[task]
kind = "TASK"
OPTIONS
[model]
kind = "unet"
depth = 2
pools = [[1, 2, 2]]
[validation]
box = "8:16,0:48,0:48"
"""


def write_run(folder: Path, config: str, record: dict[str, Any], model: nn.UNet) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.toml").write_text(config)
    start = {"kind": "start", "step": 0, "time_s": 0.0, "unit": "patches"}
    (folder / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (start, record)))
    model.save(folder / "checkpoints" / "step-40.h5")
    return folder


@pytest.fixture
def slices_run(tmp_path: Path) -> Path:
    """Ten patients of two slices each; the object grows with patient and slice."""
    rng = np.random.default_rng(0)
    masks = np.zeros((20, 32, 32), np.uint8)
    for number in range(20):
        masks[number, 4 : 6 + number, 5:20] = 1
    images = (80 + 60 * masks + rng.integers(0, 40, masks.shape)).astype(np.uint8)
    patients = np.arange(20, dtype=np.int32) // 2
    arrays = {"image": images, "mask": masks, "patient": patients}
    data.write_volume(tmp_path / "slices.h5", arrays)
    config = GROUPS.replace("FOLDER", str(tmp_path))
    options = nn.UNetOptions(depth=2, kernels=((1, 3, 3),), pools=((1, 2, 2),))
    model = nn.UNet(options, classes=2)
    record = validation_record("classes", 40, 7.0, 0.5)
    return write_run(tmp_path / "run", config, record, model)


def volume_run(folder: Path, task: str) -> Path:
    raw, labels = data.synth((16, 48, 48), seed=3)
    if task == "classes":
        labels = (labels > 0).astype(np.uint8)
    data.write_volume(folder / "volume.h5", {"raw": raw, "labels": labels})
    options = {"classes": 'classes = { 0 = "other", 1 = "cell" }'}.get(task, "")
    if task in ("affinities", "lsd"):
        options = "zero_is_boundary = true"
    config = VOLUME.replace("FOLDER", str(folder)).replace("TASK", task).replace("OPTIONS", options)
    outputs = {"classes": 2, "affinities": 3, "lsd": 13, "distance": 1}[task]
    model = nn.UNet(
        nn.UNetOptions(depth=2, kernels=((3, 3, 3),), pools=((1, 2, 2),)),
        classes=outputs,
        output="softmax" if task == "classes" else "sigmoid",
    )
    record = validation_record(task, 40, 7.0, 0.5)
    if task == "classes":
        record["groups"], record["classes"][0]["dice_groups"] = ["made"], [0.5]
    return write_run(folder / "run", config, record, model)


def test_the_best_the_median_and_the_worst_are_picked() -> None:
    assert held_out.pick({4: 0.1, 5: 0.5, 6: 0.3, 7: 0.2}) == [
        ("best", 5),
        ("median", 7),
        ("worst", 4),
    ]
    assert held_out.pick({2: 0.4, 1: 0.3}) == [("best", 2), ("worst", 1)]
    assert held_out.pick({}) == []


Shown = list[tuple[str, dict[str, drawing.Picture]]]


def drawn(run: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Titles and pictures of the patches that the report of a run shows."""
    shown: Shown = []
    columns = drawing.columns
    monkeypatch.setattr(
        drawing, "columns", lambda some, *a, **k: shown.extend(some) or columns(some, *a, **k)
    )
    assert held_out.pictures(read_run(run))[1] == []
    return shown


def test_slices_are_as_predicted(slices_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(nn.load(slices_run / "checkpoints/step-40.h5"), mean=100.0, std=50.0)
    images = data.Volume(f"{slices_run.parent}/slices.h5:image").read()
    for title, panels in drawn(slices_run, monkeypatch):
        _, truth, predicted = panels["Truth and prediction"]
        assert truth is not None
        number = truth.sum() // 15 - 2
        likely = predictor.probabilities(images[number : number + 1]).argmax(axis=0)[0]
        assert (predicted == likely).all()
        dice = 2 * np.sum(truth * likely) / (truth.sum() + likely.sum())
        assert title.split("\n")[1] == f"Dice {dice:.3f}"


def test_a_report_shows_slices(slices_run: Path) -> None:
    page = Page(report.write([slices_run]))
    assert page.images["Held-out patches with truth and prediction"].startswith("data:image/png")
    assert "What this report cannot show" in page.text  # no training records
    assert "pictures of what was held out" not in page.text
    assert "pictures of a segmentation" not in page.text  # slices of patients are no volume


@pytest.mark.parametrize(
    ("task", "panels"),
    [
        ("classes", ["Image", "Truth and prediction"]),
        ("affinities", ["Image", "Boundary map", "True affinities", "Predicted affinities"]),
        ("lsd", ["Image", "Boundary map", "True affinities", "Predicted affinities"]),
        ("distance", ["Image", "True distance", "Predicted distance"]),
    ],
)
def test_best_median_and_worst_patch_of_every_task_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, panels: list[str]
) -> None:
    run = volume_run(tmp_path, task)
    shown = drawn(run, monkeypatch)
    name = read_run(run).task.patch_score
    assert [title.split("\n")[0] for title, _ in shown] == [
        f"{which} patch" for which in ("best", "median", "worst")
    ]
    scores = [float(title.removeprefix(f"{title.splitlines()[0]}\n{name} ")) for title, _ in shown]
    assert scores == sorted(scores, reverse=task != "distance")
    assert all(list(pictures) == panels for _, pictures in shown)


def test_patches_with_few_boundaries_are_left_out_if_others_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All boundaries of the volume lie in its lower half."""
    run = volume_run(tmp_path, "affinities")
    labels = np.full((16, 48, 48), 1, np.uint32)
    labels[:, 30:], labels[15, 0, 0] = 2 + np.indices((16, 18, 48))[2] // 4, 2
    raw = data.Volume(f"{tmp_path}/volume.h5:raw").read()
    data.write_volume(tmp_path / "volume.h5", {"raw": raw, "labels": labels})
    config = (run / "config.toml").read_text().replace("[8, 24, 24]", "[8, 16, 16]")
    (run / "config.toml").write_text(config)
    for _, panels in drawn(run, monkeypatch):
        truth = panels["True affinities"][0]
        assert (truth[..., 1:] == 0).any(axis=-1).mean() > 0.05
    labels[:, 30:] = 1
    data.write_volume(tmp_path / "volume.h5", {"raw": raw, "labels": labels})
    assert all("few boundaries" in title for title, _ in drawn(run, monkeypatch))


def test_true_affinities_are_those_of_the_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = volume_run(tmp_path, "affinities")
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace("[8, 24, 24]", "[8, 48, 48]"))
    ((_, panels),) = drawn(run, monkeypatch)
    labels = data.Volume(f"{tmp_path}/volume.h5:labels").read("7:16,0:48,0:48")
    same = (labels[1:] == labels[:-1]) & (labels[1:] > 0)
    truth = panels["True affinities"][0]
    (section,) = (z for z, one in enumerate(same) if ((truth[..., 0] == 1) == one).all())
    assert (truth[0, :, 1] == 1).all()  # no voxel before the first row of the box
    predictor = Predictor(nn.load(run / "checkpoints/step-40.h5"), mean=128.0, std=33.0)
    image = data.Volume(f"{tmp_path}/volume.h5:raw").read("8:16,0:48,0:48")
    tolerance = 100 * np.finfo(np.float32).eps  # as in test_predict
    expected = np.moveaxis(predictor.probabilities(image)[:, section], 0, -1)
    np.testing.assert_allclose(panels["Predicted affinities"][0], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("task", ["classes", "affinities", "lsd", "distance"])
def test_a_report_shows_patches_and_objects(tmp_path: Path, task: str) -> None:
    page = Page(report.write([volume_run(tmp_path, task)]))
    assert page.images["Held-out patches with truth and prediction"].startswith("data:image/png")
    assert "Image, truth and segmentation in three planes" in page.images
    assert ("Scores of the segmentation" in page.text) == (task != "classes")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: (run.parent / "slices.h5").unlink(), "slices.h5"),
        (lambda run: (run / "checkpoints/step-40.h5").unlink(), "neither a checkpoint nor"),
        (lambda run: (run / "checkpoints/step-40.h5").write_text("broken"), "step-40.h5"),
    ],
    ids=["data", "checkpoint", "broken"],
)
def test_what_is_gone_is_named_and_the_rest_is_shown(
    slices_run: Path, change: Any, words: str
) -> None:
    change(slices_run)
    page = Page(report.write([slices_run]))
    absent = page.text[page.text.index("What this report cannot show") :]
    assert "pictures of what was held out: " in absent
    assert words in absent


def test_the_test_part_is_segmented_where_there_is_one(tmp_path: Path) -> None:
    run = volume_run(tmp_path, "affinities")
    file = run / "config.toml"
    assert segmented.held_out_box(config.load(file))[1] == ((8, 0, 0), (8, 48, 48))
    file.write_text(f'{file.read_text()}test_box = "8:16,0:24,0:48"\n')
    assert segmented.held_out_box(config.load(file))[1] == ((8, 0, 0), (8, 24, 48))


def test_a_part_that_a_segment_takes_of_another_object_is_shown_once() -> None:
    truth = np.ones((4, 6, 10), np.uint32)
    truth[..., 5:] = 2
    labels = np.where(np.arange(10) < 7, 1, 2).astype(np.uint32) * np.ones_like(truth)
    found = Segmented(
        segmentation=data.Volume(labels),
        start=(0, 0, 0),
        note="",
        truth=data.Volume(truth),
    )
    (mistake,) = worst_of(found)  # segment 1 merges objects 1 and 2, and object 2 is split
    assert (mistake.parts[1].segment, mistake.parts[1].object) == (1, 2)
