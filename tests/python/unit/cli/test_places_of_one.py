# SPDX-License-Identifier: Apache-2.0
"""Commands that take two volumes say how they lay them on each other, if only one states a place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from floodtide import cli, data, errors, nn, segment
from floodtide.view.viewer import layers_of

LABELS = (np.indices((12, 12, 12)) // 4).sum(0).astype(np.uint32) + 1
PLACE = {"resolution": (40.0, 4.0, 4.0), "offset": (4000.0, 20.0, -28.0)}
AT = "(100, 5, -7) (attribute offset)"
GREY = np.random.default_rng(0).integers(60, 200, LABELS.shape).astype(np.uint8)


def stored(path: Path, array: Any, **attributes: Any) -> str:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array).attrs.update(attributes)
    return f"{path}:x"


@pytest.mark.parametrize("placed", ["segmentation", "truth"])
def test_a_comparison_notes_a_place_that_one_volume_alone_states(
    placed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, other = (
        ("segmentation", "truth") if placed == "segmentation" else ("truth", "segmentation")
    )
    stored(tmp_path / f"{mine}.h5", LABELS, **PLACE)
    stored(tmp_path / f"{other}.h5", LABELS)
    segmentation, truth = f"{tmp_path}/segmentation.h5:x", f"{tmp_path}/truth.h5:x"
    assert cli.run(["evaluate", segmentation, truth]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{mine}.h5:x begins at voxel {AT}, {tmp_path}/{other}.h5:x states no place: " in said
    assert f"the first voxel of {segmentation} is laid on voxel (0, 0, 0) of {truth}" in said


def test_a_place_that_both_state_or_none_is_no_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stated in ({}, PLACE):
        two = [stored(tmp_path / f"{name}.h5", LABELS, **stated) for name in "st"]
        assert cli.run(["evaluate", *two]) == 0
        assert not capsys.readouterr().err


@pytest.mark.parametrize("image_states", [False, True])
def test_masks_and_segmentations_note_how_they_lie_on_the_image(
    image_states: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nn.FFN(depth=1, features=2, fov=(5, 5, 5), deltas=(1, 1, 1)).save(tmp_path / "ffn.h5")
    image = stored(tmp_path / "i.h5", GREY, **(PLACE if image_states else {}))
    labels = stored(tmp_path / "l.h5", LABELS, **({} if image_states else PLACE))
    (tmp_path / "c.toml").write_text(
        f'[segment]\ncheckpoint = "{tmp_path}/ffn.h5"\nimage = "{image}"\nmean = 128\nstd = 33\n'
    )
    laid = f"states no place: the first voxel of {labels} is laid on voxel (0, 0, 0) of {image}"
    words = ["segment", f"{tmp_path}/c.toml", "--out", f"{tmp_path}/o.h5:x"]
    assert cli.run([*words, "--set", f"segment.initial={labels}"]) == 0
    assert f"segment: {image if image_states else labels} begins" in (
        said := capsys.readouterr().err
    )
    assert laid in said
    assert cli.run(["agglomerate", f"{tmp_path}/c.toml", labels, f"{tmp_path}/m.h5:x"]) == 0
    assert f"agglomerate: {image if image_states else labels} begins at voxel {AT}, " in (
        said := capsys.readouterr().err
    )
    assert laid in said


def test_channels_of_a_prediction_lie_on_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = stored(tmp_path / "i.h5", GREY, **PLACE)
    names = {
        "none": stored(tmp_path / "n.h5", GREY),
        "other": stored(
            tmp_path / "o.h5", GREY, resolution=(40.0, 4.0, 4.0), offset=(0.0, 0.0, 0.0)
        ),
    }
    options = nn.UNetOptions(depth=1, features=16)
    predictor = segment.Predictor(nn.UNet(options, classes=2, in_channels=2), mean=100.0, std=50.0)
    volumes = {name: data.Volume(one) for name, one in names.items()}
    next(iter(predictor.blocks([data.Volume(first), volumes["none"]])))
    assert f"predict: {first} begins at voxel {AT}, " in capsys.readouterr().err
    with pytest.raises(errors.ShapeError, match=r"o\.h5:x begins at voxel \(0, 0, 0\)"):
        next(iter(predictor.blocks([data.Volume(first), volumes["other"]])))


def test_a_view_notes_a_segmentation_without_the_place_of_its_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = stored(tmp_path / "i.h5", GREY, **PLACE)
    labels = stored(tmp_path / "l.h5", LABELS)
    layers_of(labels, image)
    said = capsys.readouterr().err
    assert "i.h5:x begins at voxel (100, 5, -7), " in said
    assert "l.h5:x states no place: it is shown from (0, 0, 0)" in said


def test_a_place_in_nm_needs_a_voxel_size_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[Any]
) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("x", data=GREY).attrs["offset"] = [4000.0, 20.0, -28.0]
    words = ["convert", f"{tmp_path}/v.h5:x", f"{tmp_path}/o.h5:x", "--voxel-nm", "40,4,4"]
    assert cli.run(words) == 0
    said = capsys.readouterr().err
    assert "the file states no voxel size: the position is not used, also with --voxel-nm" in said
    assert said.count("\n") == 1
    with h5py.File(tmp_path / "v.h5", "a") as file:
        file["x"].attrs.update({"voxel_size_nm": [8.0, 8.0, 8.0], "units": ["px", "nm", "nm"]})
    data.Volume(f"{tmp_path}/v.h5:x")
    assert "its units are px, nm, nm: the position is not used" in capsys.readouterr().err
