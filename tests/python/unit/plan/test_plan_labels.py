# SPDX-License-Identifier: Apache-2.0
"""Plans for labels as people have them: masks, classes or objects, sparse labels, several images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from plans import planned, refused

from floodtide import cli, data
from floodtide.data import Volume
from floodtide.data.boxes import parse_boxes
from floodtide.data.look.labels import integers_of
from floodtide.plan import unets
from floodtide.train import read_log

pytestmark = pytest.mark.usefixtures("fast")


def masks(folder: Path) -> tuple[str, str]:
    """Sections as TIFF and masks as PNG, 0 and 255, of which some have 1 bit and some smooth edges."""
    imageio = pytest.importorskip("imageio.v3")
    image, labels = data.synth((12, 64, 96), seed=3)
    for number, (section, objects) in enumerate(zip(image, labels, strict=True)):
        mask = (objects % 3 == 1) & (objects > 0)
        shown = (255 * mask).astype(np.uint8)
        if number % 4 == 2:
            shown[9, 20:29] = 0, 17, 140, 201, 255, 230, 160, 80, 0
        imageio.imwrite(folder / f"im{number:02}.tif", section)
        imageio.imwrite(folder / f"mito{number:02}.png", mask if number % 4 == 1 else shown)
    return f"{folder}/im*.tif", f"{folder}/mito*.png"


def test_masks_of_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """init, train, predict and evaluate, from folders of TIFF and PNG as they are, without a voxel size."""
    monkeypatch.chdir(tmp_path)
    image, labels = masks(tmp_path)
    found = planned(
        image, "--labels", labels, "--task", "classes", "--out", "m.toml", capsys=capsys
    )
    document = found["config"]
    assert list(document["task"]["classes"]) == ["0-127", "128-255"]
    assert document["model"]["kernels"] == [[1, 3, 3]]
    assert document["data"]["patch"][0] == 1
    (held_out,) = parse_boxes(document["validation"]["box"])
    assert held_out[1][1:] == (64, 96)  # whole sections
    short = ["--set", "training.steps=12", "--set", "schedule.warmup_steps=1"]
    assert cli.run(["train", "m.toml", *short]) == 0
    box = ["--box", document["validation"]["box"]]
    assert cli.run(["predict", "runs/m", image, "p.h5:m", *box]) == 0
    capsys.readouterr()
    assert cli.run(["evaluate", "p.h5:m", labels, *box, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    record = read_log(Path("runs/m/log.jsonl"))[-1]
    validated = record["classes"][0]["dice_pooled"]
    predicted = next(row for row in scores["classes"] if row["class"] == 255)
    assert predicted["dice"] == pytest.approx(validated, abs=0.02)
    assert predicted["true_voxels"] > 100


def test_classes_or_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, labels = data.synth((24, 48, 48), seed=3)
    few = np.select([labels == 1, labels == 2], [1, 2], 0).astype(np.uint8)
    three = (labels % 3).astype(np.uint8)
    data.write_volume(tmp_path / "v.h5", {"raw": image, "few": few, "three": three})
    out = ["--voxel-nm", "40,40,40", "--out", f"{tmp_path}/v.toml"]
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:few", *out]
    text = refused("init", *line, capsys=capsys)
    assert "expected --task classes, or --task affinities for objects" in text
    assert planned(*line, "--task", "affinities", capsys=capsys)["config"]["task"]
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:three", *out]
    found = planned(*line, capsys=capsys)["config"]["task"]
    assert found["classes"] == {"0": "background", "1": "class 1", "2": "class 2"}


def test_a_class_that_is_too_rare_to_hold_out_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, _ = data.synth((24, 48, 48), seed=3)
    mask = np.ones(image.shape, np.uint8)
    mask[3, 20:24, 20:24] = 2
    data.write_volume(tmp_path / "v.h5", {"raw": image, "mask": mask})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:mask", "--task", "classes"]
    line += ["--voxel-nm", "40,40,40", "--out", f"{tmp_path}/v.toml"]
    said = refused("init", *line, capsys=capsys)
    assert "leaves all classes in both" in said
    assert "expected more labels" in said


@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("unlabelled", [False, True])
def test_resized_masks_get_ranges_of_values(
    classes: int, unlabelled: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from scipy import ndimage

    image, labels = data.synth((10, 96, 96), seed=3)
    small = np.select(
        [labels % 3 == n for n in range(classes)], [255 // n for n in range(1, classes + 1)], 0
    )
    mask = (
        ndimage.zoom(small[:, ::2, ::2].astype(np.float32), (1, 2, 2), order=1)
        .round()
        .astype(np.int16)
    )
    assert len(np.unique(mask)) > 60
    if unlabelled:
        mask[:, :8] = -1
    data.write_volume(tmp_path / "v.h5", {"raw": image, "mask": mask})
    line = [
        f"{tmp_path}/v.h5:raw",
        "--labels",
        f"{tmp_path}/v.h5:mask",
        "--out",
        f"{tmp_path}/v.toml",
    ]
    found = planned(*line, "--voxel-nm", "40,8,8", capsys=capsys)["config"]["task"]
    assert (
        list(found["classes"]) == [["0-127", "128-255"], ["0-63", "64-191", "192-255"]][classes - 1]
    )
    short = ["--set", "training.steps=1", "--set", "schedule.warmup_steps=0"]
    assert cli.run(["train", f"{tmp_path}/v.toml", *short, "--set", f"run.dir={tmp_path}/run"]) == 0


def test_masks_of_several_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Masks of 0 and 1 and of 0 and 255 are one class; other values differ, and the plan says so."""
    image, labels = data.synth((10, 64, 64), seed=3)
    mask = (labels % 3 == 1).astype(np.uint8)
    many = np.arange(labels.size).reshape(labels.shape) // 500
    arrays = {
        "raw": image,
        "a": mask,
        "b": 255 * mask,
        "c": 7 * mask,
        "many": many.astype(np.uint8),
    }
    data.write_volume(tmp_path / "v.h5", arrays)
    name = f"{tmp_path}/v.h5:"
    line = [
        f"{name}raw",
        f"{name}raw",
        "--labels",
        f"{name}a",
        "--task",
        "classes",
        "--voxel-nm",
        "40,8,8",
    ]
    line += ["--out", f"{tmp_path}/v.toml"]
    found = planned(*line, "--labels", f"{name}b", capsys=capsys)["config"]["task"]
    assert found["classes"] == {"0": "background", "1": "v", "255": "v"}
    found = planned(*line, "--labels", f"{name}c", capsys=capsys)
    assert found["config"]["task"]["classes"] == {"0": "background", "1": "class 1", "7": "class 7"}
    text = " ".join((tmp_path / "v.toml").read_text().replace("\n#", "").split())
    assert f"Volumes differ: {name}a has 0, 1; {name}c has 0, 7." in text
    (note,) = (note for note in found["notes"] if "no held-out voxel" in note)
    assert "has the class 'class " in note
    text = refused("init", *line, "--labels", f"{name}many", "--replace", capsys=capsys)
    assert "the labels have 81 value(s), expected 2 to 32 (classes)" in text


def test_a_class_in_one_section_is_learnt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, labels = data.synth((10, 64, 64), seed=3)
    mask = (labels % 3 == 1).astype(np.uint8)
    mask[3, 20:40, 20:40] = 2
    data.write_volume(tmp_path / "v.h5", {"raw": image, "mask": mask})
    line = [
        f"{tmp_path}/v.h5:raw",
        "--labels",
        f"{tmp_path}/v.h5:mask",
        "--task",
        "classes",
        "--voxel-nm",
        "40,8,8",
    ]
    found = planned(*line, "--out", f"{tmp_path}/v.toml", capsys=capsys)
    assert "no held-out voxel has the class 'class 2', which gets no score" in "".join(
        found["notes"]
    )
    ((start, size),) = parse_boxes(found["config"]["data"]["volumes"][0]["box"])
    assert start[0] <= 3 < start[0] + size[0]


@pytest.mark.parametrize("depth", [3, 9, 20, 30])
def test_held_out_parts_hold_the_offsets(
    depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pairs of all offsets of a plan lie in the training part and in the held-out part."""
    image, labels = data.synth((40, 40, 40), seed=4)
    labels[depth:] = 0
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": labels.astype(np.int32)})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels", "--voxel-nm", "20,20,20"]
    line += ["--task", "affinities", "--out", f"{tmp_path}/v.toml"]
    found = planned(*line, capsys=capsys)["config"]
    boxes = [
        parse_boxes(one) for one in (found["data"]["volumes"][0]["box"], found["validation"]["box"])
    ]
    offsets = found["task"]["offsets"]
    for offset in offsets:
        for own in boxes:
            assert any(all(-o < n for o, n in zip(offset, size, strict=True)) for _, size in own), (
                offset,
                boxes,
            )
    assert len(offsets) == (7 if depth == 3 else 9)
    assert ("are too thin" in (tmp_path / "v.toml").read_text()) == (depth == 3)


@pytest.mark.parametrize("task", ["lsd", "distance"])
@pytest.mark.parametrize("touching", [False, True])
def test_descriptors_and_distances(
    task: str, touching: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from scipy import ndimage

    image, labels = data.synth((40, 40, 40), seed=4)
    if touching:
        nearest = ndimage.distance_transform_edt(
            labels == 0, return_distances=False, return_indices=True
        )
        labels = labels[tuple(nearest)]
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": labels.astype(np.int32)})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels", "--voxel-nm", "20,20,20"]
    found = planned(*line, "--task", task, "--out", f"{tmp_path}/v.toml", capsys=capsys)["config"]
    assert found["task"]["kind"] == task
    if task == "lsd":
        assert all(2 < n <= 8 for n in found["task"]["window"])
        assert found["task"]["zero_is_boundary"] == (not touching)
    else:
        assert 2 < found["task"]["scale"] <= 8
        assert found["data"].get("unlabelled") == (0 if touching else None)
    assert (
        set(found["task"])
        == {
            "lsd": {"kind", "window", "offsets", "zero_is_boundary", "balance"},
            "distance": {"kind", "scale"},
        }[task]
    )
    short = ["--set", "training.steps=1", "--set", "schedule.warmup_steps=0"]
    assert cli.run(["train", f"{tmp_path}/v.toml", *short, "--set", f"run.dir={tmp_path}/run"]) == 0


@pytest.mark.parametrize("place", ["box", "two", "sections", "thin"])
def test_plans_use_labelled_parts_only(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, labels = data.synth((60, 64, 80), seed=4)
    kept = np.zeros(labels.shape, bool)
    if place == "box":
        kept[10:50, 8:56, 16:72] = True
    elif place == "two":
        kept[:28, :, :40] = kept[32:, :, 44:] = True
    elif place == "sections":
        kept[[5, 17, 29, 41, 53]] = True
    else:
        kept[30:33] = True
    from scipy import ndimage

    nearest = ndimage.distance_transform_edt(
        labels == 0, return_distances=False, return_indices=True
    )
    grown = np.where(kept, labels[tuple(nearest)], 0).astype(np.int32)  # touching objects
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": grown})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels", "--voxel-nm", "20,20,20"]
    line += ["--task", "affinities"]
    found = planned(*line, "--out", f"{tmp_path}/v.toml", capsys=capsys)
    document = found["config"]
    assert not document["task"]["zero_is_boundary"]
    training = parse_boxes(document["data"]["volumes"][0]["box"])
    held_out = document["validation"]
    validation = parse_boxes(held_out["box"]) + parse_boxes(held_out.get("test_box", ""))
    seen = np.zeros(labels.shape, int)
    for (z, y, x), (nz, ny, nx) in training + validation:
        seen[z : z + nz, y : y + ny, x : x + nx] += 1
    assert seen.max() == 1
    assert not seen[~kept].any()
    assert seen.sum() > (0.75 if "test_box" in held_out else 0.8) * kept.sum()
    assert 0.1 < sum(np.prod(size) for _, size in validation) / seen.sum() < 0.4
    flat = document["data"]["patch"][0] == 1
    assert flat == (place == "sections")
    assert [[-1, 0, 0] in document["task"]["offsets"]] == [not flat]


@pytest.mark.parametrize("unlabelled", [-1, 0, 9])
def test_classes_with_unlabelled_voxels(
    unlabelled: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Background is a class: what has one is trained on, whatever marks the rest."""
    image, labels = data.synth((20, 64, 64), seed=4)
    classes = 1 + (labels % 2) if unlabelled == 0 else labels % 2
    stored = np.full(labels.shape, unlabelled, np.int16)
    stored[5:15] = classes[5:15]
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": stored})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels", "--task", "classes"]
    line += [] if unlabelled == -1 else ["--unlabelled", str(unlabelled)]
    found = planned(*line, "--out", f"{tmp_path}/v.toml", capsys=capsys)["config"]
    least = int(unlabelled == 0)
    assert list(found["task"]["classes"]) == [str(least), str(least + 1)]
    boxes = parse_boxes(found["data"]["volumes"][0]["box"]) + parse_boxes(
        found["validation"]["box"]
    )
    assert min(start[0] for start, _ in boxes) == 5
    assert max(start[0] + size[0] for start, size in boxes) == 15
    short = ["--set", "training.steps=1", "--set", "schedule.warmup_steps=0"]
    assert cli.run(["train", f"{tmp_path}/v.toml", *short, "--set", f"run.dir={tmp_path}/run"]) == 0


def test_coverage_of_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """inspect CONFIG.toml tells how much of both parts each class has, sections and boxes included."""
    image, _ = data.synth((12, 40, 48), seed=3)
    labels = np.zeros(image.shape, np.uint8)
    labels[1, 5:9, 10:20] = labels[3:5, 30:, 40:] = 1
    labels[8:10, :10] = 2
    labels[2] = 7
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": labels})
    names = {"a": "0:4,0:40,0:30", "b": "4:6,20:40,30:48", "held": "8:12,0:40,0:48"}
    (tmp_path / "v.toml").write_text(
        f"""
[[data.volumes]]
image = "{tmp_path}/v.h5:raw"
labels = "{tmp_path}/v.h5:labels"
box = "{names["a"]}; {names["b"]}"
[data]
patch = [1, 16, 16]
unlabelled = 7
[task]
classes = {{ 0 = "background", 1 = "mito", 2 = "er" }}
kind = "classes"
[model]
kind = "unet"
kernels = [[1, 3, 3]]
pools = [[1, 2, 2]]
[training]
steps = 1
[validation]
box = "{names["held"]}"
"""
    )
    assert cli.run(["inspect", f"{tmp_path}/v.toml", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["classes"]
    found = {
        (row["part"], row["class"]): (row["voxels"], row["sections"], row["boxes"]) for row in rows
    }
    all_a, all_b = 3 * 40 * 30, 2 * 20 * 18
    assert found == {
        ("training", "background"): (all_a + all_b - 40 - 80, "5 of 5", "2 of 2"),
        ("training", "mito"): (40 + 80, "2 of 5", "2 of 2"),
        ("training", "er"): (0, "0 of 5", "0 of 2"),
        ("held out", "background"): (4 * 40 * 48 - 2 * 10 * 48, "4 of 4", "1 of 1"),
        ("held out", "mito"): (0, "0 of 4", "0 of 1"),
        ("held out", "er"): (2 * 10 * 48, "2 of 4", "1 of 1"),
    }
    assert sum(row["share"] for row in rows) == pytest.approx(2)
    outside = ["--set", "validation.box=10:14,0:40,0:48"]
    assert cli.run(["inspect", f"{tmp_path}/v.toml", "--json", *outside]) == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert "validation.box: volume 'volume': box 10:14,0:40,0:48 is not inside the labels" in error


def test_several_images_are_resampled_as_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(unets, "_LEFT", 32)
    line = ["--voxel-nm", "8,8,8", "--task", "affinities", "--out", f"{tmp_path}/v.toml"]
    for number, depth in ((1, 64), (2, 80)):
        image, labels = data.synth((depth, 64, 96), seed=number)
        arrays = {"raw": image, "labels": labels.astype(np.int32)}
        data.write_volume(tmp_path / f"{number}.h5", arrays)
        line += [f"{tmp_path}/{number}.h5:raw", "--labels", f"{tmp_path}/{number}.h5:labels"]
    volumes = planned(*line, capsys=capsys)["config"]["data"]["volumes"]
    assert [volume["voxel_size_nm"] for volume in volumes] == [[16, 16, 16]] * 2
    assert [Volume(volume["image"]).shape[0] for volume in volumes] == [32, 40]


def test_several_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        image, labels = data.synth((32, 40, 48 + 8 * number), seed=number)
        arrays = {"raw": image, "labels": labels.astype(np.int32)}
        data.write_volume(tmp_path / f"{number}.h5", arrays)
    line = [f"{tmp_path}/1.h5:raw", f"{tmp_path}/2.h5:raw", "--voxel-nm", "20,20,20"]
    line += ["--labels", f"{tmp_path}/1.h5:labels", "--out", f"{tmp_path}/v.toml"]
    said = refused("init", *line, capsys=capsys)
    assert f"2 image(s) ({line[0]}, {line[1]}) and 1 labels" in said
    found = planned(*line, "--labels", f"{tmp_path}/2.h5:labels", capsys=capsys)["config"]
    assert [volume["name"] for volume in found["data"]["volumes"]] == ["volume0", "volume1"]
    assert found["validation"]["volume"] in ("volume0", "volume1")
    assert cli.run(["inspect", f"{tmp_path}/v.toml", "--patches", f"{tmp_path}/p.png"]) == 0
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_zero_that_occurs_outside_of_annotated_boxes_only_is_unlabelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, labels = data.synth((24, 64, 64), seed=3)
    classes = (1 + (labels % 3 == 1)).astype(np.uint8)
    boxes = np.zeros_like(classes)  # a gap of two sections
    for where in (np.s_[2:12, 8:56, 8:56], np.s_[14:23, :, :]):
        boxes[where] = classes[where]
    sections = np.zeros_like(classes)
    sections[3::8] = classes[3::8]
    data.write_volume(tmp_path / "v.h5", {"raw": image, "boxes": boxes, "sections": sections})
    for name in ("boxes", "sections"):
        line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:{name}", "--task", "classes"]
        line += ["--voxel-nm", "40,40,40", "--out", f"{tmp_path}/{name}.toml"]
        document = planned(*line, capsys=capsys)["config"]
        assert document["data"]["unlabelled"] == 0
        assert [int(value) for value in document["task"]["classes"]] == [1, 2]
        parts = document["data"]["volumes"][0]["box"] + ";" + document["validation"]["box"]
        for start, size in parse_boxes(parts):
            assert (Volume(f"{tmp_path}/v.h5:{name}").read((start, size)) > 0).all()


def test_a_value_that_often_means_no_label_is_doubted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, labels = data.synth((24, 64, 64), seed=3)
    mask = (labels % 3 == 1).astype(np.uint8)
    mask[::3] = 255
    data.write_volume(tmp_path / "v.h5", {"raw": image, "mask": mask})
    line = ["init", f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:mask", "--replace"]
    line += ["--task", "classes", "--voxel-nm", "40,40,40", "--out", f"{tmp_path}/v.toml"]
    assert cli.run(line) == 0
    assert "give --unlabelled 255" in capsys.readouterr().err
    assert cli.run([*line, "--unlabelled", "255"]) == 0
    assert "--unlabelled" not in capsys.readouterr().err


def test_sparse_objects_are_doubted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, labels = data.synth((24, 64, 64), seed=3)
    few = np.where(labels % 9 == 1, labels, 0)
    data.write_volume(tmp_path / "v.h5", {"raw": image, "few": few})
    line = ["init", f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:few"]
    line += ["--task", "affinities", "--voxel-nm", "40,40,40", "--out", f"{tmp_path}/v.toml"]
    assert cli.run(line) == 0
    assert "whether 0 is background, or not labelled, cannot be told" in capsys.readouterr().err


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_classes_in_planes_along_any_axis(
    tmp_path: Path, axis: int, capsys: pytest.CaptureFixture[str]
) -> None:
    image, objects = data.synth((48, 48, 48), seed=4)
    planes = [slice(None)] * 3
    planes[axis] = [12, 24, 36]  # type: ignore[call-overload]
    labels = np.zeros(image.shape, np.uint8)
    labels[tuple(planes)] = (objects % 2)[tuple(planes)]
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": labels})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels", "--task", "classes"]
    found = planned(*line, "--voxel-nm", "40,40,40", "--out", f"{tmp_path}/v.toml", capsys=capsys)[
        "config"
    ]
    boxes = parse_boxes(found["data"]["volumes"][0]["box"]) + parse_boxes(
        found["validation"]["box"]
    )
    assert sorted(start[axis] for start, _ in boxes) == [12, 24, 36]
    assert all(size[axis] == 1 for _, size in boxes)


def test_a_volume_without_any_class_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, objects = data.synth((24, 48, 48), seed=3)
    none = np.full(image.shape, 255, np.uint8)
    empty = np.zeros(image.shape, np.int32)
    arrays = {"raw": image, "a": (objects % 2).astype(np.uint8), "none": none, "empty": empty}
    data.write_volume(tmp_path / "v.h5", arrays | {"objects": objects})
    out = ["--voxel-nm", "40,40,40", "--out", f"{tmp_path}/v.toml"]

    def said(first: str, second: str, *task: str) -> str:
        names = [f"{tmp_path}/v.h5:{name}" for name in ("raw", "raw", first, second)]
        line = [*names[:2], "--labels", names[2], "--labels", names[3]]
        return refused("init", *line, *task, *out, capsys=capsys)

    classes = ("--task", "classes", "--unlabelled", "255")
    assert "v.h5:none: no voxel has a class" in said("a", "none", *classes)
    assert "v.h5:empty: no voxel is labelled" in said("objects", "empty")


def test_whole_floats_are_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, objects = data.synth((64, 96, 96), seed=3)
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": objects.astype(np.float32)})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels", "--voxel-nm", "8,8,8"]
    assert cli.run(["inspect", *line, "--out", f"{tmp_path}/page.html"]) == 0
    capsys.readouterr()
    assert planned(*line, "--out", f"{tmp_path}/v.toml", capsys=capsys)["config"]
    data.convert(integers_of(Volume(f"{tmp_path}/v.h5:labels")), f"{tmp_path}/c.h5:c", labels=True)
    np.testing.assert_array_equal(Volume(f"{tmp_path}/c.h5:c").read(), objects)


def test_voxel_sizes_with_spaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels"]
    text = refused("init", *line, "--voxel-nm", "8", "8", "8", capsys=capsys)
    assert "voxel sizes as 8,8,8" in text
