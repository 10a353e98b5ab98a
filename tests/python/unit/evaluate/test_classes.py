# SPDX-License-Identifier: Apache-2.0
"""Scores of classes and of their objects against NumPy and SciPy, and what `floodtide evaluate` says of class masks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import imageio.v3
import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from floodtide import cli, errors, evaluate
from floodtide.data import Volume
from floodtide.evaluate import classes

VALUES = np.array([0, 3, 255, 7])


def report_of(
    predicted: Any, true: Any, *, sections: bool = False, **options: Any
) -> evaluate.classes.ClassReport:
    volume = Volume(predicted)
    if sections:  # as a network that sees one section at a time predicts it
        texts = {"context": "[0, 4, 4]"}
        volume.text = lambda name: texts.get(name, "")  # type: ignore[method-assign]
    found = evaluate.class_report(volume, Volume(true), **options)
    assert found is not None
    return found


def drawn(seed: int, shape: tuple[int, ...], number: int) -> tuple[Any, Any]:
    """Return predicted and true classes of coarse blocks, of which a tenth of the predicted voxels are wrong."""
    random = np.random.default_rng(seed)
    true = VALUES[random.integers(0, number, shape)].repeat(2, 1).repeat(2, 2)
    wrong = random.random(true.shape) < 0.1
    return np.where(wrong, VALUES[random.integers(0, number, true.shape)], true), true


def share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else float("nan")


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.tuples(*[st.integers(1, 5)] * 3), st.integers(1, 4), st.booleans()
)
def test_scores_of_voxels(seed: int, shape: tuple[int, int, int], number: int, some: bool) -> None:
    predicted, true = drawn(seed, shape, number)
    known = np.random.default_rng(seed).random(true.shape) < (0.7 if some else 1)
    known.flat[0] = True
    found = report_of(predicted.astype(np.uint16), np.where(known, true, -1))
    p, t = predicted[known], true[known]
    present = np.union1d(p, t).tolist()
    assert list(found.classes) == present
    assert found.unlabelled == np.count_nonzero(~known)
    twin = [[np.count_nonzero((t == i) & (p == j)) for j in present] for i in present]
    np.testing.assert_array_equal(found.confusion, twin)
    rows = found.classes
    for k in present:
        a, b = p == k, t == k
        expected = {
            "dice": share(2 * (a & b).sum(), a.sum() + b.sum()),
            "iou": share((a & b).sum(), (a | b).sum()),
            "precision": share((a & b).sum(), a.sum()),
            "recall": share((a & b).sum(), b.sum()),
            "true_voxels": b.sum(),
            "predicted_voxels": a.sum(),
        }
        everything = rows[k].pop("everything")
        np.testing.assert_equal(rows[k], {"name": "", **expected})
        assert everything["dice"] == 2 * b.sum() / (b.sum() + b.size)
        assert everything["precision"] == everything["iou"] == b.mean()
    for name, mean in found.mean().items():
        values = [rows[k][name] for k in present if k and not np.isnan(rows[k][name])]
        np.testing.assert_equal(mean, np.mean(values) if values else np.nan)
    wrong = ((predicted != true) & known).sum(axis=(1, 2))
    assert found.worst_voxels == wrong.max() == wrong[found.worst[0][0]]


def objects_twin(predicted: Any, true: Any, sections: bool) -> dict[str, float]:
    """Detection scores of two masks, from the IoU of every pair of components (SciPy)."""
    counts = np.zeros(12, int)
    faces = ndimage.generate_binary_structure(3, 1)
    for part in np.split(np.array([predicted, true]), predicted.shape[0] if sections else 1, 1):
        masks = []
        for volume in part:
            labels, number = ndimage.label(volume, faces)
            masks.append([labels == i for i in range(1, number + 1)])
        ious = [(a & b).sum() / (a | b).sum() for a in masks[0] for b in masks[1]]
        matched = [sum(iou > (0.5 + 0.05 * k) + 1e-12 for iou in ious) for k in range(10)]
        counts += [len(masks[0]), len(masks[1]), *matched]
    p, t, *matched = counts.tolist()
    return {
        "true": t,
        "predicted": p,
        "matched": matched[0],
        "precision": share(matched[0], p),
        "recall": share(matched[0], t),
        "f1": share(2 * matched[0], p + t),
        "average_precision_50": share(matched[0], p + t - matched[0]),
        "average_precision": float(np.mean([share(m, p + t - m) for m in matched])),
    }


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.tuples(*[st.integers(1, 5)] * 3),
    st.booleans(),
)
def test_scores_of_objects(seed: int, shape: tuple[int, int, int], sections: bool) -> None:
    predicted, true = drawn(seed, shape, 3)
    predicted[0, 0, 0], true[0, 0, 0] = VALUES[:2]
    predicted[0, 0, 1] = true[0, 0, 1] = VALUES[1]  # without a common class, volumes are refused
    true[:, -1] = -1
    found = report_of(predicted, true, objects=True, sections=sections)
    objects = {k: row["objects"] for k, row in found.classes.items() if "objects" in row}
    assert objects.keys() == found.classes.keys() - {0}
    for k, row in objects.items():
        masks = [(a == k) & (true >= 0) for a in (predicted, true)]
        expected = objects_twin(*masks, sections)
        np.testing.assert_allclose(list(row.values()), list(expected.values()), rtol=1e-12)
        assert row.keys() == expected.keys()


def test_sections_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    predicted, true = drawn(5, (9, 7, 6), 3)
    whole = report_of(predicted, true, objects=True, sections=True).as_dict()
    monkeypatch.setattr(classes, "BLOCK_VOXELS", 400)
    monkeypatch.setattr("floodtide.evaluate.voxels.BLOCK_VOXELS", 100)
    assert report_of(predicted, true, objects=True, sections=True).as_dict() == whole
    monkeypatch.setattr("floodtide._core.available_bytes", lambda: 20_000)
    report_of(predicted, true, objects=True, sections=True)
    with pytest.raises(errors.InvalidArgumentError, match=r"9 x 14 x 12 voxels need about .*--box"):
        report_of(predicted, true, objects=True, sections=False)


def test_places_may_be_negative(tmp_path: Path) -> None:
    predicted, true = drawn(3, (5, 4, 6), 3)
    place = {"box_start": np.int64([-3, 0, -1])}
    pair = [
        Volume(stored(tmp_path / f"{name}.h5", array, **place))
        for name, array in (("p", predicted), ("t", true))
    ]
    placed, plain = evaluate.class_report(*pair), report_of(predicted, true)
    assert placed is not None
    np.testing.assert_array_equal(placed.confusion, plain.confusion)
    assert placed.worst == (tuple(np.add(plain.worst[0], (-3, 0, -1))), plain.worst[1])


# Values of other programs


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float32, np.float64, bool]
)
def test_every_type_of_mask(dtype: Any) -> None:
    mask = np.indices((2, 3, 4)).sum(0) % 2
    assert report_of(mask.astype(np.uint8), mask.astype(dtype)).mean()["dice"] == 1


@pytest.mark.parametrize("none", [np.int64(-1), np.uint64(2**64 - 2), np.uint32(2**32 - 1)])
def test_voxels_without_a_label_count_nowhere(none: Any) -> None:
    mask = (np.indices((2, 3, 4)).sum(0) % 2).astype(none.dtype)
    hidden = mask.copy()
    hidden[1] = none
    for pair in ((hidden, mask), (mask, hidden)):
        found = report_of(*pair)
        assert found.unlabelled == 12
        assert int(found.confusion.sum()) == 12
    with pytest.raises(errors.InvalidArgumentError, match="no voxel has a label in both"):
        report_of(mask[1:], hidden[1:])


def test_a_value_for_no_label() -> None:
    predicted, true = drawn(2, (3, 4, 5), 2)
    true[1] = 9
    found = report_of(predicted, true, unlabelled=9, objects=True)
    assert list(found.classes) == [0, 3]
    assert found.unlabelled == true[1].size


def test_two_values_are_matched_with_a_note() -> None:
    mask = np.indices((2, 3, 4)).sum(0) % 2
    found = report_of(mask.astype(np.uint8) * 255, mask)
    assert found.mean()["dice"] == 1
    assert found.notes == ["the value 1 of the array is compared with the class 255 of the array"]
    assert report_of(mask, mask).notes == []


def test_values_that_may_be_matched_in_several_ways_are_refused() -> None:
    mask = np.indices((2, 3, 4)).sum(0) % 3
    with pytest.raises(
        errors.InvalidArgumentError, match=r"holds 10, 20, .* 0, 1, 2; .* --unlabelled VALUE"
    ):
        report_of(mask, mask * 10)
    found = report_of(mask, np.where(mask == 2, 9, mask))
    voxels = [(row["true_voxels"], row["predicted_voxels"]) for row in found.classes.values()]
    assert voxels[2:] == [(0, 8), (8, 0)]


def test_what_is_no_mask_is_refused() -> None:
    ids = np.arange(24).reshape(2, 3, 4)
    with pytest.raises(errors.InvalidFileError, match=r"holds 0\.5, expected classes, which are"):
        report_of(ids // 23, ids / 2)
    many = np.arange(512).reshape(2, 16, 16)
    with pytest.raises(errors.InvalidFileError, match=r"0, 1, .* \(512 values\).* at most 256"):
        report_of(many % 2, many)


# The command


def stored(path: Path, array: Any, **attributes: Any) -> str:
    with h5py.File(path, "a") as file:
        file.create_dataset("x", data=array).attrs.update(attributes)
    return f"{path}:x"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert cli.run(["evaluate", *arguments]) == status
    out = capsys.readouterr()
    if status:
        assert out.err.count("\n") == 1
    return out.err if status else out.out


NAMED = json.dumps({"0": "background", "255": "mitochondria"})
PLAIN = json.dumps({"0": "background", "1": "liver"})


def test_a_prediction_needs_no_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mask = (np.indices((3, 6, 8)).sum(0) % 2).astype(np.uint8)
    new = stored(tmp_path / "new.h5", mask * 255, classes=NAMED)
    old = stored(tmp_path / "old.h5", mask, classes=PLAIN)
    for bits, name in ((mask * 255, "8"), (mask.astype(bool), "1")):
        for z, plane in enumerate(bits):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.fromarray(plane).save(tmp_path / name / f"{z}.png")
    tifffile.imwrite(tmp_path / "stack.tif", mask * 255, photometric="minisblack")
    for truth in ("8/*.png", "1/*.png", "stack.tif"):
        for prediction in (new, old):
            text = said(capsys, prediction, f"{tmp_path}/{truth}")
            assert ("255 mitochondria  1.0000" in text) == (prediction == new)
            own, stated = 255 if prediction == new else 1, 1 if truth[0] == "1" else 255
            assert (f"is compared with the class {own}" in text) == (own != stated)
            assert "Rand" not in text
    found = json.loads(said(capsys, new, f"{tmp_path}/stack.tif", "--json"))
    assert [row["name"] for row in found["classes"]] == ["background", "mitochondria"]
    assert found["confusion"] == [[72, 0], [0, 72]]
    assert found["class_of_truth"] == {"0": 0, "255": 255}
    assert found["objects_of_sections"] is None
    many = stored(tmp_path / "many.h5", np.where(mask > 0, 7 + mask, 6))
    text = said(capsys, new, many, status=2)
    assert f"holds 6, 8, expected only classes of {new}: 0 (background), 255 (mitochondria)" in text


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mask = np.zeros((2, 6, 8), np.uint8)
    mask[:, 1:3, 1:5], mask[:, 4:, :2] = 1, 2
    wrong = np.where(mask == 2, 0, mask)
    wrong[1, :3, :5] = 1
    pair = stored(tmp_path / "p.h5", wrong), stored(tmp_path / "t.h5", mask)
    lines = said(capsys, *pair, "--classes", "--objects").splitlines()
    assert lines[0].split()[:5] == ["class", "Dice", "IoU", "precision", "recall"]
    assert lines[2].split() == ["1", "0.8205", "0.6957", "0.6957", "1.0000", "16", "23", "0.2857"]
    assert lines[3].split() == ["2", "0.0000", "0.0000", "-", "0.0000", "8", "0", "0.1538"]
    assert lines[4].split() == ["mean", "without", "0", "0.4103", "0.3478", "0.6957", "0.5000"]
    assert "connected by their faces, in 3-D" in lines[8]
    assert lines[10].split() == [
        "1",
        "1",
        "1",
        "1",
        "1.0000",
        "1.0000",
        "1.0000",
        "1.0000",
        "0.4000",
    ]
    assert "most wrong ones: 11 in section z = 1" in lines[-1]


def test_probabilities_give_the_average_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    true = random.integers(0, 2, (4, 20, 30))
    likely = 1 / (1 + np.exp(-(2.0 * true - 1 + random.standard_normal(true.shape))))
    name = stored(tmp_path / "p.h5", (likely > 0.5).astype(np.uint8) * 255, classes=NAMED)
    with h5py.File(tmp_path / "p.h5", "a") as file:
        file["x_probabilities"] = np.stack([1 - likely, likely]).astype(np.float32)
    truth = true.copy()
    truth[1] = -1
    found = json.loads(said(capsys, name, stored(tmp_path / "t.h5", truth), "--json"))
    known = truth >= 0
    for row, scores in zip(found["classes"], (1 - likely, likely), strict=True):
        right = (true == (row["class"] > 0))[known][np.argsort(-scores[known], kind="stable")]
        precision = np.cumsum(right) / np.arange(1, right.size + 1)
        assert row["average_precision"] == pytest.approx(precision[right].mean(), abs=0.002)
    assert found["mean"]["average_precision"] == found["classes"][1]["average_precision"]
    with h5py.File(tmp_path / "p.h5", "a") as file:
        del file["x_probabilities"]
        file["x_probabilities"] = np.zeros((2, 4, 20, 31), np.float32)
    text = said(capsys, name, f"{tmp_path}/t.h5:x", status=2)
    assert "has shape (4, 20, 31), expected that of the classes" in text


def test_sections_of_a_network_that_sees_one_are_independent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = np.zeros((3, 6, 8), np.uint8)
    mask[:, 2:4, 2:4] = 255
    for context, number in (("[0, 44, 44]", 3), ("[20, 44, 44]", 1)):
        path = tmp_path / f"{number}.h5"
        name = stored(path, mask, classes=NAMED, context=context)
        found = json.loads(said(capsys, name, name, "--objects", "--json"))
        assert found["classes"][1]["objects"]["true"] == number


def test_the_section_with_most_mistakes_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from floodtide.report import drawing

    true = np.zeros((4, 20, 30), np.int64)
    true[:, 5:15, 5:15] = 255
    predicted = true.astype(np.uint8)
    predicted[2, 3:6] = 255
    true[:, :2] = -1
    grey = np.random.default_rng(0).integers(0, 255, (6, 20, 30), np.uint8)
    image = stored(tmp_path / "i.h5", grey)
    place = {"box_start": np.int64([2, 0, 0])}
    name = stored(tmp_path / "p.h5", predicted, classes=NAMED, image=image, **place)
    truth = stored(tmp_path / "t.h5", true)
    shown: list[Any] = []
    outline, pictures = drawing.outlined, drawing.columns
    monkeypatch.setattr(drawing, "outlined", lambda *a: shown.append(a) or outline(*a))
    counts: list[int] = []
    monkeypatch.setattr(
        drawing, "columns", lambda a, *b, **c: counts.append(len(a)) or pictures(a, *b, **c)
    )
    text = said(capsys, name, truth, "--picture", f"{tmp_path}/out.png", "--voxel-nm", "40,8,4")
    assert "in section z = 4" in text
    ((_, background, t, p, aspect),) = shown
    assert (counts, aspect) == ([2], 2.0)
    np.testing.assert_array_equal(background, drawing.grey(grey[4]))
    np.testing.assert_array_equal(t[2:] > 0, true[2, 2:] > 0)
    np.testing.assert_array_equal(p[2:] > 0, predicted[2, 2:] > 0)
    assert (t[:2] == -1).all()
    assert imageio.v3.imread(tmp_path / "out.png").ndim == 3
    (tmp_path / "i.h5").unlink()
    text = said(capsys, name, truth, "--picture", f"{tmp_path}/out.png")
    assert "picture: the image is unknown (--image VOLUME)" in text
    assert counts == [2, 1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--classes", "--worst", "3"], "--worst is about objects, and SEGMENTATION holds classes"),
        (["--objects"], "--objects is about classes, expected --classes with it"),
        (["--classes", "--unlabelled", "-1"], "--unlabelled"),
    ],
)
def test_wrong_options(
    tmp_path: Path, options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = stored(tmp_path / "a.h5", np.indices((2, 3, 4)).sum(0) % 2)
    assert expected in said(capsys, name, name, *options, status=2)


def test_volumes_of_one_value_may_be_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = stored(tmp_path / "a.h5", np.indices((2, 3, 4)).sum(0) % 2)
    assert "one value besides 0: --classes compares them as classes" in said(capsys, name, name)


@pytest.mark.parametrize(
    "noted", ["", "many", "1", "256", "[2]", "[" * 100_000, '{"a": "b"}', '{"0": 1}', "true", "{}"]
)
def test_a_text_of_another_program_notes_no_classes(tmp_path: Path, noted: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros((2, 3, 4), np.uint8)
        if len(noted) < 60_000:
            file["x"].attrs["classes"] = noted
    assert classes.noted_classes(Volume(f"{path}:x")) is None


def test_a_prediction_with_other_values_than_it_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = (np.indices((2, 3, 4)).sum(0) % 3).astype(np.uint8)
    name = stored(tmp_path / "a.h5", mask, classes=PLAIN)
    assert "holds 2, and its attribute classes has 0, 1" in said(capsys, name, name, status=2)
