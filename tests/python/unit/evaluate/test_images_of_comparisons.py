# SPDX-License-Identifier: Apache-2.0
"""`floodtide evaluate` with volumes that cover other voxels, and an image: each is read where its file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from floodtide import cli
from floodtide.evaluate import trivial

NM = [40.0, 4.0, 4.0]
LABELS = np.kron(np.arange(1, 9).reshape(2, 2, 2), np.ones((20, 20, 20), int)).astype(np.uint32)
IMAGE = (LABELS * 25).astype(np.uint8)
CROP = (slice(8, 30), slice(10, 36), slice(5, 33))
PLACE = [320.0, 40.0, 20.0]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def volume(name: str, array: Any, **attributes: Any) -> str:
    with h5py.File(f"{name}.h5", "w") as file:
        file.create_dataset("d", data=array).attrs.update(attributes)
    return f"{name}.h5:d"


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    assert cli.run(["evaluate", *words, "--json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert cli.run(["evaluate", *words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("placed", [True, False])
def test_the_grey_level_is_that_of_the_compared_box(
    placed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"resolution": NM, "offset": PLACE}
    truth = volume("truth", LABELS[CROP], **place)
    image = volume("image", IMAGE, resolution=NM, offset=[0.0, 0, 0])
    whole = volume("whole", LABELS, resolution=NM, offset=[0.0, 0, 0])
    crop = volume("crop", LABELS[CROP], **(place if placed else {}))
    small = volume("small", IMAGE[CROP], **place)
    wanted, _ = compared(capsys, volume("both", LABELS[CROP], **place), truth, "--image", small)
    for segmentation in (whole, crop):
        found, _ = compared(capsys, segmentation, truth, "--image", image)
        assert found["trivial"][trivial.GREY_LEVEL] == wanted["trivial"][trivial.GREY_LEVEL]
        assert found["all_adapted_rand_error"] == 0


def test_an_image_elsewhere_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    whole = volume("whole", LABELS, resolution=NM, offset=[0.0, 0, 0])
    truth = volume("truth", LABELS[:20], resolution=NM, offset=[0.0, 0, 0])
    image = volume("image", IMAGE[20:], resolution=NM, offset=[800.0, 0, 0])
    assert "covers 20:40,0:40,0:40, expected the compared box 0:20" in refused(
        capsys, whole, truth, "--image", image
    )
    other = volume("other", IMAGE, resolution=[8.0] * 3)
    assert "expected the same" in refused(capsys, whole, truth, "--image", other)


def test_an_image_that_the_segmentation_states_never_stops_the_scores(
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = volume("image", IMAGE[20:], resolution=NM, offset=[800.0, 0, 0])
    whole = volume("whole", LABELS, resolution=NM, box_start=[-20, 0, 0], image=image)
    truth = volume("truth", LABELS[:20], resolution=NM, offset=[0.0, 0, 0])
    found, _ = compared(capsys, whole, truth)
    assert found["all_adapted_rand_error"] == 0
    assert any("expected the compared box" in note for note in found["notes"])


def test_another_voxel_size_and_a_missing_place_are_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, truth = volume("one", LABELS), volume("truth", LABELS, resolution=[8.0] * 3)
    _, said = compared(capsys, one, truth, "--border-nm", "9", "--voxel-nm", "40,4,4")
    assert "states voxels of 8 x 8 x 8 nm, and voxel_nm (--voxel-nm) states 40 x 4 x 4 nm" in said
    crop, same = volume("crop", LABELS[CROP]), volume("same", LABELS[CROP])
    _, said = compared(capsys, crop, same, "--image", volume("image", IMAGE))
    assert "image.h5:d states no place: it is taken to begin at 0, 0, 0" in said


def test_segments_of_affinities_without_a_place_have_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Segments of 0, 0, 0 would be compared with a truth elsewhere as if their place were known."""
    affinities = np.zeros((3, *LABELS.shape), np.float32)
    for axis in range(3):
        later = tuple(slice(1 if axis == i else 0, None) for i in range(3))
        earlier = tuple(slice(None, -1 if axis == i else None) for i in range(3))
        affinities[axis][later] = LABELS[later] == LABELS[earlier]
    offsets = json.dumps((-np.eye(3, dtype=int)).tolist())
    stored = volume("affinities", affinities, resolution=NM, offsets=offsets)
    assert cli.run(["agglomerate", stored, "segments.h5:s", "--min-size", "1"]) == 0
    truth = volume("truth", LABELS, resolution=NM, offset=[400.0, 16, 20])
    found, said = compared(capsys, "segments.h5:s", truth)
    assert found["all_adapted_rand_error"] == 0
    assert "states no place" in said


def test_every_spelling_of_no_label_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    spelled = LABELS.astype(np.int64)
    spelled[LABELS == 1], spelled[LABELS == 2], spelled[LABELS == 3] = -1, 2**32 - 1, -5
    _, said = compared(capsys, volume("labels", LABELS), volume("spelled", spelled))
    for value in (-5, -1, 2**32 - 1):
        assert f"spelled.h5:d: {value} stands for no label" in said
