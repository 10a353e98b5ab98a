# SPDX-License-Identifier: Apache-2.0
"""Pictures of what a run held out, predicted for the report from its newest checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_page import Page
from unet_runs import affinity_record, dice_record

from floodtide import data, nn, report
from floodtide.report import drawing, held_out
from floodtide.segment.predict import Predictor
from floodtide.train import read_run

SLICES = """\
[run]
seed = 1
[[data.slices]]
images = "FOLDER/slices.h5:image"
masks = "FOLDER/slices.h5:mask"
patients = "FOLDER/slices.h5:patient"
[data]
size = [32, 32]
mean = 100.0
std = 50.0
[model]
kind = "unet2d"
depth = 2
[[validation.slices]]
images = "FOLDER/slices.h5:image"
masks = "FOLDER/slices.h5:mask"
patients = "FOLDER/slices.h5:patient"
"""
PATCHES = """\
[[data.volumes]]
name = "made"
image = "FOLDER/volume.h5:raw"
labels = "FOLDER/volume.h5:labels"
voxel_size_nm = [20.0, 10.0, 10.0]
[data]
zero_is_boundary = true
[model]
kind = "unet3d"
depth = 2
pools = [[1, 2, 2]]
[validation]
box = "BOX"
"""


def write_run(
    folder: Path, config: str, unit: str, validation: dict[str, Any], model: nn.UNet
) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.toml").write_text(config)
    start = {"kind": "start", "step": 0, "time_s": 0.0, "unit": unit}
    (folder / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (start, validation)))
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
    config = SLICES.replace("FOLDER", str(tmp_path))
    model = nn.UNet2D(nn.UNetOptions(depth=2))
    return write_run(tmp_path / "run", config, "slices", dice_record(40, 7.0, 0.5), model)


def volume_run(folder: Path, box: str = "4:12,0:40,0:48") -> Path:
    raw, labels = data.synth((16, 48, 48), seed=3)
    data.write_volume(folder / "volume.h5", {"raw": raw, "labels": labels})
    config = PATCHES.replace("FOLDER", str(folder)).replace("BOX", box)
    model = nn.UNet3D(nn.UNet3DOptions(depth=2, kernels=((3, 3, 3),), pools=((1, 2, 2),)))
    return write_run(folder / "run", config, "patches", affinity_record(40, 7.0, 0.5), model)


def test_best_median_and_worst_patients_are_picked() -> None:
    record = dice_record(40, 7.0, 0.5)  # falls from patient to patient; the last one has none
    picked = held_out.pick_patients(record)
    assert [(name, number) for name, number, _ in picked] == [
        ("best", 0),
        ("median", 4),
        ("worst", 8),
    ]
    record["classes"][0]["dice_patients"] = [None, 0.3, 0.4]
    assert held_out.pick_patients(record) == [("best", 2, 0.4), ("worst", 1, 0.3)]
    record["classes"][0]["dice_patients"] = [None]
    assert held_out.pick_patients(record) == []


def test_slices_are_the_largest_of_the_picked_patients_and_as_predicted(
    slices_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    outlined: list[Any] = []
    draw, outline = held_out._draw_slices, drawing.outlined
    monkeypatch.setattr(held_out, "_draw_slices", lambda s, *a: shown.extend(s) or draw(s, *a))
    monkeypatch.setattr(drawing, "outlined", lambda *a: outlined.append(a[2:]) or outline(*a))
    picture, absent = held_out.pictures(read_run(slices_run))
    assert absent == []
    assert picture is not None
    assert picture["checkpoint"] == "step-40.h5"
    assert [title for title, _, _ in shown] == [
        "best: patient 0, Dice 0.500",
        "median: patient 4, Dice 0.460",
        "worst: patient 8, Dice 0.420",
    ]
    predictor = Predictor(nn.load(slices_run / "checkpoints/step-40.h5"), mean=100.0, std=50.0)
    images = data.Volume(f"{slices_run.parent}/slices.h5:image").read()
    for (truth, predicted), number in zip(outlined, (1, 9, 17), strict=True):
        assert truth.sum() == 15 * (2 + number)
        likely = predictor.probabilities(images[number : number + 1]).argmax(axis=0)[0]
        assert (predicted == likely).all()


def test_a_report_shows_the_slices(slices_run: Path) -> None:
    page = Page(report.write([slices_run]))
    assert page.images["Held-out slices with outlines"].startswith("data:image/png")
    assert "What this report cannot show" in page.text  # no training records
    assert "pictures of what was held out" not in page.text


def test_a_section_is_the_middle_one_of_the_held_out_box_with_its_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = volume_run(tmp_path)
    shown: list[Any] = []
    monkeypatch.setattr(held_out, "section_figure", lambda *a: shown.append(a) or "")
    assert held_out.pictures(read_run(run))[1] == []
    ((section, voxel_nm),) = shown
    assert next(iter(section)) == "Image, z = 8"
    assert voxel_nm == (20.0, 10.0, 10.0)
    labels = data.Volume(f"{tmp_path}/volume.h5:labels").read("7:9,0:40,0:48")
    same = (labels[1] == labels[0]) & (labels[1] > 0)
    np.testing.assert_array_equal(section["True affinities"][..., 0] == 1, same)
    predictor = Predictor(nn.load(run / "checkpoints/step-40.h5"), mean=128.0, std=33.0)
    whole = predictor.probabilities(data.Volume(f"{tmp_path}/volume.h5:raw"))
    tolerance = 100 * np.finfo(np.float32).eps  # as in test_predict
    expected = np.moveaxis(whole[:, 8, :40], 0, -1)
    np.testing.assert_allclose(section["Predicted affinities"], expected, rtol=0, atol=tolerance)


def test_a_report_shows_the_section(tmp_path: Path) -> None:
    page = Page(report.write([volume_run(tmp_path)]))
    assert page.images["Held-out section with affinities"].startswith("data:image/png")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: (run.parent / "slices.h5").unlink(), "slices.h5"),
        (lambda run: (run / "checkpoints/step-40.h5").unlink(), "no checkpoint"),
        (lambda run: (run / "checkpoints/step-40.h5").write_text("broken"), "step-40.h5"),
        (
            lambda run: (run / "log.jsonl").write_text('{"kind": "start", "unit": "slices"}\n'),
            "validated nothing",
        ),
    ],
    ids=["data", "checkpoint", "broken", "validation"],
)
def test_what_is_gone_is_named_and_the_rest_is_shown(
    slices_run: Path, change: Any, words: str
) -> None:
    change(slices_run)
    page = Page(report.write([slices_run]))
    absent = page.text[page.text.index("What this report cannot show") :]
    assert "pictures of what was held out: " in absent
    assert words in absent


def test_other_patients_than_the_log_s_are_not_shown(slices_run: Path) -> None:
    patients = np.arange(20, dtype=np.int32)
    with_more = slices_run.parent / "slices.h5"
    images, masks = (data.Volume(f"{with_more}:{name}").read() for name in ("image", "mask"))
    data.write_volume(with_more, {"image": images, "mask": masks, "patient": patients})
    assert held_out.pictures(read_run(slices_run)) == (
        None,
        ["pictures of what was held out: the patients are not those of the log any more"],
    )


def test_a_box_of_one_section_has_nothing_to_compare(tmp_path: Path) -> None:
    run = volume_run(tmp_path, "4:5,0:40,0:48")
    picture, absent = held_out.pictures(read_run(run))
    assert picture is None
    assert "a picture needs 2" in absent[0]
