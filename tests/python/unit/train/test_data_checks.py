# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the data of a configuration: each is named, by `check` and by the commands that would make it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from training_patches import text, write_patches
from training_volume import document

from floodtide import cli, config, data, nn
from floodtide.base import notes
from floodtide.data import look
from floodtide.data.look.trained_on import to_text
from floodtide.train import data_checks

BOX, HELD_OUT = "0:40,0:64,0:64", "40:64,0:64,0:64"
Check = Callable[..., tuple[list[str], list[str]]]


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a synthetic volume, its partitions, and a configuration that trains on it without a mistake."""
    folder = tmp_path_factory.mktemp("volume")
    raw, labels = data.synth((64, 64, 64), seed=5)
    turned = np.ascontiguousarray(labels[:, :, ::-1])
    data.write_volume(
        folder / "volume.h5",
        {
            "raw": raw,
            "labels": labels,
            "unit": (raw / 255).astype(np.float32),
            "wide": raw.astype(np.uint16) * 200,
            "pale": (raw / 3 + 150).astype(np.uint8),
            "turned": turned,
            "order": np.ascontiguousarray(labels[:50].transpose(1, 2, 0)),
            "noise": np.random.default_rng(0).integers(60, 190, raw.shape, np.uint8),
            "black": np.where(np.arange(64)[:, None, None] < 52, raw, 0).astype(np.uint8),
            "floats": (labels / 2).astype(np.float32),
        },
    )
    for name, radius in (("labels", 5), ("turned", 5)):
        data.partition(
            f"{folder}/volume.h5:{name}",
            f"{folder}/partitions.h5:{name}",
            lom_radius=(radius,) * 3,
            min_size=300,
        )
    data.partition(
        f"{folder}/volume.h5:labels", f"{folder}/partitions.h5:wide", lom_radius=(15,) * 3, min_size=300
    )  # fmt: skip
    settings = document(
        folder, validation={"box": HELD_OUT, "centres": 2}, training={"steps": 2, "walkers": 1}
    )
    settings["data"]["volumes"][0] |= {
        "partitions": f"{folder}/partitions.h5:labels",
        "box": BOX,
        "mean": float(raw.mean()),
        "std": float(raw.std()),
    }
    settings["model"]["deltas"] = [2, 2, 2]
    (folder / "config.toml").write_text(str(config.from_dict(settings)))
    return folder


@pytest.fixture
def check(volume: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run `floodtide inspect CONFIG.toml` with keys of the first volume, or whole keys; return errors and warnings."""

    def run(*overrides: str, **of_volume: Any) -> tuple[list[str], list[str]]:
        words = ["inspect", str(volume / "config.toml"), "--json"]
        for key, value in of_volume.items():
            if key in ("image", "labels"):
                value = f"{volume}/volume.h5:{value}"
            if key == "partitions":
                value = f"{volume}/partitions.h5:{value}"
            words += ["--set", f"data.volumes.0.{key}={value}"]
        for override in overrides:
            words += ["--set", override]
        status = cli.run(words)
        report = json.loads(capsys.readouterr().out)
        assert status == (2 if report["errors"] else 0)
        return report["errors"], report["warnings"]

    return run


def test_a_right_configuration_has_no_mistake(check: Check) -> None:
    assert check() == ([], [])


@pytest.mark.parametrize(
    ("image", "words"),
    [("unit", "float32"), ("wide", "uint16")],
)
def test_an_image_of_other_numbers_is_an_error(check: Check, image: str, words: str) -> None:
    (error,), warnings = check(image=image, mean=128.0, std=33.0)
    assert words in error
    assert "expected about 0 +- 1: set mean and std of volume 'cube' (data.volumes.0) to" in error
    assert warnings == []


def test_another_mean_and_contrast_is_a_warning(check: Check) -> None:
    errors, (warning,) = check(mean=128.0, std=120.0)
    assert errors == []
    assert "std = 120 are set" in warning


def test_each_channel_has_its_own_mean_and_contrast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_patches(tmp_path)
    file = tmp_path / "two.toml"
    file.write_text(text(tmp_path, "two channels").replace("std = 30", "std = 0.5"))
    cli.run(["inspect", str(file), "--json"])
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert "volume.h5:second" in error
    assert "set mean and std of data.volumes.0.channels.0 to" in error


def test_what_check_proposes_is_right(check: Check, volume: Path) -> None:
    (error,), _ = check(image="wide")
    mean, std = error.rpartition(" to ")[2].split(" and ")
    assert check(image="wide", mean=mean, std=std) == ([], [])


def test_the_image_as_labels_is_an_error(check: Check) -> None:
    (error,), _ = check(labels="raw")
    assert "is given as image and as labels" in error
    (error, *_), _ = check(labels="pale")  # another file of grey levels
    assert "looks like an image, not like labels" in error


def test_labels_as_fractions_are_an_error(check: Check) -> None:
    (error,), _ = check(labels="floats")
    assert "expected whole numbers (classes or ids) up to 16777216" in error


def test_turned_labels_are_an_error(check: Check) -> None:
    (error,), _ = check(labels="turned", partitions="turned")
    assert "does not lie on the image" in error
    assert "in another orientation: store labels[:, :, ::-1] instead" in error


def test_labels_of_another_shape_name_the_order_of_axes(
    check: Check, volume: Path, tmp_path: Path
) -> None:
    with h5py.File(volume / "volume.h5") as file:
        data.write_volume(tmp_path / "part.h5", {"raw": file["raw"][:50]})
    key = f'data.volumes.0.image="{tmp_path}/part.h5:raw"'
    (error,), _ = check(key, labels="order")
    assert "the axes are in another order, store labels.transpose(2, 0, 1)" in error
    (error,), _ = check(key)
    assert "cut both to the same part" in error


def test_what_cannot_be_known_is_a_warning(check: Check) -> None:
    errors, warnings = check(image="noise", mean=125, std=37)
    assert errors == []
    assert any("lies on the image cannot be told" in text for text in warnings)


def test_black_held_out_voxels_are_a_warning(check: Check) -> None:
    errors, (warning,) = check(image="black")
    assert errors == []
    assert warning.startswith("validation.box: 50 % of the sampled voxels")


def test_validation_on_training_voxels_is_a_warning(check: Check) -> None:
    errors, (warning,) = check(f"validation.box={BOX}")
    assert errors == []
    assert "shares 100 % of its voxels with the training box" in warning
    _, (warning,) = check("validation.box=28:52,0:64,0:64")
    assert "shares 50 %" in warning


def test_validation_outside_of_the_labels_names_the_key_and_the_box(check: Check) -> None:
    words = "validation.box: volume 'cube': box 40:70,0:64,0:64 is not inside the labels"
    (error,), _ = check("validation.box=40:70,0:64,0:64")
    assert words in error


def test_partitions_of_another_radius_are_a_warning(check: Check) -> None:
    errors, warnings = check(partitions="wide")
    assert errors == []
    assert "--lom-radius 15,15,15, but patches of this network reach 5,5,5" in warnings[0]


def test_partitions_of_other_labels_are_an_error(check: Check) -> None:
    (error,), _ = check(partitions="turned")
    assert "was not made from" in error
    assert "make partitions of these labels" in error


def test_few_centres_are_a_warning(check: Check) -> None:
    errors, warnings = check("model.fov=[15,15,15]", "model.deltas=[4,4,4]", box="0:26,0:26,0:26")
    assert errors == []
    assert any("training has examples at" in text and "need room" in text for text in warnings)


def test_checkpoints_keep_statistics_and_the_checks_do_not_change_the_training(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(name: str) -> Path:
        words = ["train", str(volume / "config.toml"), "--set", f"run.dir={tmp_path}/{name}"]
        assert cli.run(words) == 0
        return tmp_path / name / "checkpoints" / "step-2.h5"

    checked = trained("checked")
    whole, kept = look.training_images(checked)
    assert (whole.name, kept.name) == ("cube", "cube (box)")
    assert whole.image_mean != kept.image_mean
    settings = config.load(volume / "config.toml")
    assert (kept.mean, kept.std) == (settings.data.volumes[0].mean, settings.data.volumes[0].std)
    assert kept.image_mean == pytest.approx(kept.mean, abs=0.2 * kept.std)
    assert None not in kept.length

    monkeypatch.setattr(data_checks, "look_at", lambda parts: [])
    unchecked = trained("unchecked")
    assert look.training_images(unchecked) == ()
    a, b = (nn.load(path).state_dict() for path in (checked, unchecked))
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_training_stops_at_an_error_and_names_warnings(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes._shown.clear()
    words = ["train", str(volume / "config.toml"), "--set", f"run.dir={tmp_path}/run"]
    assert cli.run([*words, "--set", f"data.volumes.0.image={volume}/volume.h5:unit"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected about 0 +- 1" in line
    assert not (tmp_path / "run").exists()
    assert cli.run([*words, "--set", f"validation.box={BOX}"]) == 0
    assert "floodtide: warning: validation.box 0:40,0:64,0:64 shares" in capsys.readouterr().err


def test_a_configuration_without_partitions_is_checked_and_then_trained(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(volume / "config.toml"), "--set", f"run.dir={tmp_path}/run"]
    words += ["--set", "data.volumes.0.partitions=", "--set", "data.min_object_size=300"]
    words += ["--set", f"segment.checkpoint={tmp_path}/run"]  # as `floodtide init` writes it
    assert cli.run(["inspect", *words]) == 0
    assert "errors: none" in capsys.readouterr().out
    (made,) = (tmp_path / "run").glob("partitions-*.h5")
    changed = made.stat().st_mtime_ns
    assert cli.run(["train", *words]) == 0
    assert made.stat().st_mtime_ns == changed


def test_no_partitions_are_made_of_wrong_labels(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(volume / "config.toml"), "--set", f"run.dir={tmp_path}/run"]
    words += ["--set", "data.volumes.0.partitions="]
    for name, said in (("raw", "is given as image and as labels"), ("floats", "are float32")):
        assert cli.run([*words, "--set", f"data.volumes.0.labels={volume}/volume.h5:{name}"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
        assert not (tmp_path / "run").exists()


def test_volumes_are_checked_once_and_after_the_rates(
    volume: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checked, check = [], data_checks.require_volumes_fit
    monkeypatch.setattr(
        data_checks, "require_volumes_fit", lambda given: checked.append(1) or check(given)
    )
    words = ["train", str(volume / "config.toml"), "--set", f"run.dir={tmp_path}/run"]
    words += ["--set", "data.volumes.0.partitions=", "--set", "data.min_object_size=300"]
    assert cli.run([*words, "--set", "schedule.warmup_steps=9"]) == 2
    assert "warmup_steps" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()  # no partitions were made for a wrong schedule
    assert checked == []
    assert cli.run(words) == 0
    assert checked == [1]


def test_resuming_with_another_field_of_view_is_refused(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(volume / "config.toml"), "--set", f"run.dir={tmp_path}/run"]
    assert cli.run(words) == 0
    capsys.readouterr()
    assert cli.run([*words, "--set", "model.fov=[9,9,9]", "--set", "training.steps=4"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    said = "expected (1, 13, 13, 13): another network, optimizer or number of walkers needs another run.dir"
    assert said in error


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A network that was trained on FIB-25, as far as its file says."""
    model = nn.FFN(depth=1, features=2, fov=(7, 7, 7), deltas=(2, 2, 2))
    model.save(tmp_path / "network.h5", statistics=to_text([look.FIB25]))
    return tmp_path / "network.h5"


@pytest.mark.parametrize(
    ("image", "keys", "words"),
    [
        ("pale", {"mean": 128, "std": 33}, "has another mean and contrast than the network was"),
        ("unit", {"mean": 128, "std": 33}, "expected about 0 +- 1"),
        ("raw", {"voxel_size_nm": [40, 4, 4]}, "trained on voxels of 10 x 10 x 10 nm (FIB-25)"),
    ],
)
def test_an_image_unlike_the_training_images_is_noticed(
    check: Check, network: Path, image: str, keys: dict[str, Any], words: str
) -> None:
    errors, warnings = check(f"segment.checkpoint={network}", "segment.image=cube", image=image, **keys)  # fmt: skip
    assert any(text.startswith("segment: ") and words in text for text in errors + warnings)


def test_convert_keeps_the_statistics(network: Path, tmp_path: Path) -> None:
    assert cli.run(["convert", str(network), str(tmp_path / "copy.h5")]) == 0
    assert look.training_images(tmp_path / "copy.h5") == (look.FIB25,)


def test_segment_warns_and_goes_on_or_stops(
    volume: Path, network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes._shown.clear()
    words = ["segment", str(volume / "config.toml"), "--out", f"{tmp_path}/out.h5:s"]
    words += ["--set", f"segment.checkpoint={network}", "--box", "0:16,0:16,0:16"]
    pale = ["--set", f"data.volumes.0.image={volume}/volume.h5:pale"]
    assert cli.run([*words, *pale, "--set", "data.volumes.0.mean=170"]) == 0
    assert "floodtide: warning: segment: " in capsys.readouterr().err
    unit = ["--set", f"data.volumes.0.image={volume}/volume.h5:unit"]
    assert cli.run([*words, *unit]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "set segment.mean and segment.std to" in line
