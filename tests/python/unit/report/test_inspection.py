# SPDX-License-Identifier: Apache-2.0
"""The page about an image and its labels, and what `floodtide inspect` prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from floodtide import cli, data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a synthetic volume, a copy with two bad sections, and labels in several orientations."""
    folder = tmp_path_factory.mktemp("inspected")
    raw, labels = data.synth((40, 48, 56), seed=7)
    bad = raw.copy()
    bad[9] = 0
    bad[21] = bad[21, ::-1, ::-1]
    data.write_volume(
        folder / "volume.h5",
        {
            "raw": raw,
            "bad": bad,
            "labels": labels,
            "reversed": np.ascontiguousarray(labels[:, ::-1]),
            "order": np.ascontiguousarray(labels.transpose(2, 0, 1)),
            "part": labels[:30].copy(),
            "floats": (labels / 2).astype(np.float32),
            "flat": np.zeros((3, 4, 5), np.uint8),
            "black": np.where(np.arange(56) < 30, 0, raw).astype(np.uint8),
            "noise": np.random.default_rng(0).integers(60, 180, raw.shape, np.uint8),
            "box": np.pad(labels[8:32, 8:40, 8:48], 8),
            "mask": np.where(labels % 3 == 1, 255, 0).astype(np.uint8),
        },
    )
    return folder


def inspect(folder: Path, image: str, *words: str) -> int:
    return cli.run(
        ["inspect", f"{folder}/volume.h5:{image}", "--out", f"{folder}/{image}.html", *words]
    )


def test_a_good_volume_gets_a_page_and_a_few_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--labels", f"{folder}/volume.h5:labels", "--voxel-nm", "8,8,8"]
    assert inspect(folder, "raw", *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "image: axes z, y, x (as stored); voxels of 8 x 8 x 8 nm (--voxel-nm)"
    assert lines[1] == "labels: axes z, y, x (as stored); voxels of 8 x 8 x 8 nm (--voxel-nm)"
    assert lines[2].startswith("mean: ")
    assert "verdict: Nothing looks wrong." in lines
    assert lines[-1] == f"page: {folder}/raw.html"
    page = (folder / "raw.html").read_text()
    assert lines[0].removeprefix("image: ") in page
    for heading in ("Three planes", "Grey levels", "Sections", "Sharpness", "Labels"):
        assert heading in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("<img") == 3
    assert "the labels lie on the image." in page
    assert "Borders between labels are dark." in page


def test_an_unknown_voxel_size_is_a_doubt(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(folder, "raw", "--labels", f"{folder}/volume.h5:labels") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "verdict: 1 doubt: see below what to change." in lines
    (doubt,) = [line for line in lines if line.startswith("doubt: ")]
    assert (
        "states no voxel size, which `floodtide init` needs for objects: give it --voxel-nm"
        in doubt
    )


@pytest.mark.parametrize(
    ("image", "labels", "words", "doubt"),
    [
        (
            "raw",
            "box",
            "in 1 box (8:32,8:40,8:48), 29 % of the volume",
            "train on these parts only",
        ),
        ("raw", "mask", "classes (1 value besides 0", None),
        ("noise", "labels", "objects (", "lies on the image cannot be told"),
        ("black", "labels", "objects (", "54 % of the sampled voxels"),
    ],
)
def test_what_labels_are_and_what_cannot_be_known(
    folder: Path,
    image: str,
    labels: str,
    words: str,
    doubt: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert inspect(folder, image, "--labels", f"{folder}/volume.h5:{labels}") == 0
    lines = capsys.readouterr().out
    (line,) = [line for line in lines.splitlines() if line.startswith("labelled: ")]
    assert words in line
    assert doubt is None or doubt in lines
    assert ("Nothing looks wrong" in lines) == (doubt is None)
    assert words.split(" (")[0] in (folder / f"{image}.html").read_text()


def test_mistakes_are_listed_with_what_to_change(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(folder, "bad", "--labels", f"{folder}/volume.h5:reversed", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert "in another orientation: store labels[:, ::-1, :] instead" in report["mistake"][0]
    assert any("bad sections (z): 9 (missing), 21 (foreign)" in text for text in report["doubt"])
    page = (folder / "bad.html").read_text()
    assert "1 mistake and" in page
    assert "store labels[:, ::-1, :]" in page


def test_labels_of_another_order_are_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(folder, "raw", "--labels", f"{folder}/volume.h5:order", "--json") == 0
    (mistake,) = json.loads(capsys.readouterr().out)["mistake"]
    assert "labels.transpose(1, 2, 0)" in mistake


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (
            "part",
            "expected the same shape (z, y, x): cut both to the same part with `floodtide convert --box`",
        ),
        ("floats", "expected whole numbers (classes or ids) up to 16777216"),
        ("raw", "is given as image and as labels"),
    ],
)
def test_wrong_input_gets_one_line(
    folder: Path, labels: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "raw.html").unlink(missing_ok=True)
    assert inspect(folder, "raw", "--labels", f"{folder}/volume.h5:{labels}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not (folder / "raw.html").exists()


def test_a_file_without_dataset_lists_its_datasets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["inspect", f"{folder}/volume.h5", "--out", f"{folder}/x.html"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"for example {folder}/volume.h5:bad; its datasets are: bad, black, box, flat" in line


def test_an_image_of_one_value_has_a_page(folder: Path) -> None:
    assert inspect(folder, "flat", "--labels", f"{folder}/volume.h5:flat") == 2
    assert inspect(folder, "flat") == 0
    assert "missing" in (folder / "flat.html").read_text()


def test_another_file_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.html").write_text("<p>mine</p>")
    words = ["inspect", f"{folder}/volume.h5:raw", "--out", f"{folder}/mine.html"]
    assert cli.run(words) == 2
    assert "is not a report of floodtide" in capsys.readouterr().err
    assert (folder / "mine.html").read_text() == "<p>mine</p>"
