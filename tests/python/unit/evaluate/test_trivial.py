# SPDX-License-Identifier: Apache-2.0
"""Trivial answers against their definitions, and what `floodtide evaluate` prints of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from training_patches import text as configuration
from training_patches import write_patches

from floodtide import cli, config, data, errors, evaluate
from floodtide.cli import evaluate as evaluate_cli
from floodtide.evaluate import trivial
from floodtide.train import Trainer


def table_of(a: Any, b: Any) -> Any:
    table = evaluate.ContingencyTable()
    table.add(np.ascontiguousarray(a), np.ascontiguousarray(b))
    return table


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_everything_one_object_has_the_scores_of_an_array_of_ones(seed: int, ids: int) -> None:
    a, b = np.random.default_rng(seed).integers(0, ids + 1, (2, 3, 4, 5))
    found = trivial.one_object(table_of(a, b))
    np.testing.assert_equal(found, evaluate.scores(np.ones_like(b), b))


def scene(*, dark_objects: bool) -> tuple[Any, Any]:
    """Two objects with a membrane between them, and an image of them."""
    truth = np.zeros((24, 24, 40), np.int64)
    truth[..., :19], truth[..., 21:] = 1, 2
    image = np.where(truth > 0, 160, 60).astype(np.uint8)
    return (255 - image if dark_objects else image), truth


@pytest.mark.parametrize("dark_objects", [False, True])
def test_the_best_grey_level_finds_the_objects_on_either_side(*, dark_objects: bool) -> None:
    image, truth = scene(dark_objects=dark_objects)
    level, of_level, _ = trivial.of_grey_level(image, truth)
    assert level.above is not dark_objects
    scores = evaluate.scores(trivial.pieces(trivial.smoothed(image), level), truth)
    assert scores == of_level
    assert scores[trivial.ERROR] < 0.1
    with pytest.raises(errors.ShapeError, match="has shape"):
        trivial.of_grey_level(image[1:], truth)


def test_an_image_without_object_has_a_level_too() -> None:
    nothing = np.zeros((3, 4, 5), np.uint8)
    assert trivial.of_grey_level(nothing, nothing)[0].level == 0


@pytest.fixture
def volumes(tmp_path: Path) -> str:
    image, truth = scene(dark_objects=False)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["raw"], file["truth"] = image, truth
        file["whole"] = np.where(truth > 0, 1, 0)
        file["right"] = truth
    return f"{tmp_path}/in.h5"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(evaluate_cli.command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_evaluate_begins_with_the_verdict_and_the_error_over_all_voxels(volumes: str) -> None:
    lines = run(f"{volumes}:whole", f"{volumes}:truth", "--image", f"{volumes}:raw").splitlines()
    assert lines[0].startswith("Not yet better than trivial")
    assert lines[2].split() == [
        "all",
        "voxels",
        "Rand",
        "error",
        "coverage",
        "VOI",
        "split",
        "VOI",
        "merge",
    ]
    names = [line[:24].strip() for line in lines[3:6]]
    assert names == ["segmentation", "everything one object", "best grey level"]
    assert lines[3].split()[1] == lines[4].split()[3]  # both are one object
    assert lines[6].startswith("best grey level: pieces above ")


def test_evaluate_without_the_image_says_so(volumes: str) -> None:
    text = run(f"{volumes}:whole", f"{volumes}:truth")
    assert "best grey level: unknown without the image (--image VOLUME)" in text


def test_json_says_what_is_missing(volumes: str) -> None:
    found = json.loads(run(f"{volumes}:whole", f"{volumes}:truth", "--json"))
    assert found["notes"] == [
        "best grey level: unknown without the image (--image VOLUME)",
        "95 % intervals: left out, expected at least 10 objects, and at most 262144 pairs of segment and object",
    ]
    assert found["intervals"] is None


def test_a_segmentation_of_unknown_place_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = np.repeat(np.arange(1, 5), 54).reshape(4, 6, 9)
    data.write_volume(tmp_path / "v.h5", {"truth": truth, "part": truth[:3]})
    assert cli.run(["evaluate", f"{tmp_path}/v.h5:part", f"{tmp_path}/v.h5:truth"]) == 0
    said = capsys.readouterr().err
    assert "part has 3 x 6 x 9 voxels and does not say where it lies in" in said
    assert "(4 x 6 x 9): the first voxel of " in said
    assert "v.h5:part is laid on voxel (0, 0, 0) of " in said
    assert cli.run(["evaluate", f"{tmp_path}/v.h5:truth", f"{tmp_path}/v.h5:truth"]) == 0
    assert "where it lies" not in capsys.readouterr().err


def test_json_keeps_its_names_and_adds_the_trivial_answers(volumes: str) -> None:
    arguments = (f"{volumes}:right", f"{volumes}:truth", "--image", f"{volumes}:raw", "--json")
    found = json.loads(run(*arguments))
    assert found["adapted_rand_error"] == found["voi_split"] == found["voi_merge"] == 0
    assert found["all_adapted_rand_error"] == 0
    assert found["trivial"]["everything one object"]["coverage"] == 1
    assert found["trivial"]["best grey level"]["above"] is True


def test_a_picture_is_drawn(volumes: str, tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    common = (f"{volumes}:right", f"{volumes}:truth", "--image", f"{volumes}:raw")
    run(*common, "--picture", str(picture), "--voxel-nm", "8,4,4")
    assert picture.read_bytes().startswith(b"\x89PNG")


TEST_PART = "held out is 16:20,0:32,0:32"


@pytest.mark.parametrize(
    ("kind", "labels", "test_box", "notes"),
    [
        (
            "affinities in sections",
            "objects",
            "16:20,0:32,0:32",
            {
                "": (
                    "note: 60 % of these voxels were trained on, and 20 % are in the validation box,"
                    f" on which thresholds were chosen: this score is too good; {TEST_PART}"
                ),
                "9:14,0:32,0:32": (
                    "note: 60 % of these voxels were trained on, and 40 % are in the validation box,"
                    f" on which thresholds were chosen: this score is too good; {TEST_PART}"
                ),
                "16:20,0:32,0:32": "",
            },
        ),
        (
            "classes in space",
            "classes",
            "",
            {
                "": (
                    "note: 60 % of these voxels were trained on: this score is too good; held out is"
                    " 12:20,0:32,0:32"
                ),
                "12:20,0:32,0:32": "",
            },
        ),
    ],
)
def test_a_score_of_trained_voxels_is_called_too_good(
    kind: str, labels: str, test_box: str, notes: dict[str, str], tmp_path: Path
) -> None:
    write_patches(tmp_path)
    toml = tmp_path / "run.toml"
    toml.write_text(configuration(tmp_path, kind, "run"))
    more = ["training.steps=1", "run.threads=1"]
    if test_box:
        more += ["validation.box=12:16,0:32,0:32", f"validation.test_box={test_box}"]
    Trainer.from_config(config.load(toml, more)).run()
    if test_box:  # as `floodtide segment` leaves it
        (tmp_path / "run/decoding.json").touch()
    truth = f"{tmp_path}/volume.h5:{labels}"
    with h5py.File(tmp_path / "out.h5", "w") as file:
        file["s"] = data.Volume(truth).read()
        file["s"].attrs["image"] = f"{tmp_path}/volume.h5:raw"
        file["s"].attrs["checkpoint"] = str(tmp_path / "run/checkpoints/step-1.h5")
    classes = ["--classes"] if labels == "classes" else []
    for box, note in notes.items():
        given = [f"{tmp_path}/out.h5:s", truth, *classes, *(["--box", box] if box else [])]
        said = run(*given)
        assert said.splitlines()[0] == note if note else "too good" not in said
        assert ("Better than trivial" in said) == (not note and not classes)
        assert (note in json.loads(run(*given, "--json"))["notes"]) == bool(note)
    with h5py.File(tmp_path / "out.h5", "a") as file:
        file["s"].attrs["checkpoint"] = str(tmp_path / "moved.h5")
    assert "too good" not in run(f"{tmp_path}/out.h5:s", truth, *classes)


def test_boxes_of_a_resampled_training_volume_are_found_in_the_original(tmp_path: Path) -> None:
    write_patches(tmp_path)
    with h5py.File(tmp_path / "volume.h5", "a") as file:  # as `floodtide init` makes it
        original = np.repeat(file["raw"][()], 2, axis=0)
        file["raw"].attrs["resolution"] = np.array([8.0, 8.0, 8.0])
        file["raw"].attrs["resampled_from"] = f"{tmp_path}/original.h5:raw"
        file["raw"].attrs["resampled_from_voxel_nm"] = "[4.0, 8.0, 8.0]"
    truth = 1 + np.arange(original.size).reshape(original.shape) // 5000
    sizes = {"voxel_size_nm": (4.0, 8.0, 8.0)}
    data.write_volume(tmp_path / "original.h5", {"raw": original, "truth": truth}, **sizes)
    toml = tmp_path / "run.toml"
    toml.write_text(configuration(tmp_path, "classes in space", "run"))
    Trainer.from_config(config.load(toml, ["training.steps=1", "run.threads=1"])).run()
    with h5py.File(tmp_path / "out.h5", "w") as file:
        file["s"] = truth
        file["s"].attrs["image"] = f"{tmp_path}/original.h5:raw"
        file["s"].attrs["checkpoint"] = str(tmp_path / "run/checkpoints/step-1.h5")
    found = evaluate.report(
        data.Volume(f"{tmp_path}/out.h5:s"), data.Volume(f"{tmp_path}/original.h5:truth")
    )
    assert found is not None
    assert found.first == [
        "note: 60 % of these voxels were trained on: this score is too good; held out is 24:40,0:32,0:32"
    ]
    assert found.too_good
