# SPDX-License-Identifier: Apache-2.0
"""Threshold, linkage, sizes and mirroring: chosen on the validation box, kept, and said."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import affinity_network
import h5py
import numpy as np
import pytest
from plans import refused

from floodtide import cli
from floodtide.base.tasks.affinities import NEAREST
from floodtide.config import SegmentOptions
from floodtide.data import Box, Volume
from floodtide.data.boxes import slices
from floodtide.errors import StorageError
from floodtide.report import segmented
from floodtide.segment import decoding
from floodtide.segment.linking import AffinityOptions, linked, segments_of
from floodtide.segment.predict import Predictor
from floodtide.segment.trained import newest_checkpoint
from floodtide.train import read_run

pytest.importorskip("waterz")
Array = np.ndarray[Any, Any]
BOX = "32:64,0:64,0:64"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return affinity_network.train(tmp_path_factory.mktemp("trained")).parent


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run directory without a choice, and its configuration beside it."""
    monkeypatch.setattr(decoding, "_FEW_OBJECTS", 10)
    shutil.copytree(
        trained / "run", tmp_path / "run", ignore=shutil.ignore_patterns("decoding.json")
    )
    text = (trained / "spots.toml").read_text()
    (tmp_path / "spots.toml").write_text(text.replace(f"{trained}/run", f"{tmp_path}/run"))
    return tmp_path / "run"


def faint(labels: Array) -> Array:
    """Return affinities of 0.2 to 0.45 in objects, and 0 elsewhere."""
    random = np.random.default_rng(1)
    found = np.zeros((3, *labels.shape), np.float32)
    for axis in range(3):
        same = (np.roll(labels, 1, axis) == labels) & (labels > 0)
        found[axis][same] = 0.2 + 0.25 * random.random(int(same.sum()), np.float32)
    return found


@pytest.fixture
def predicts_faint(trained: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Let networks predict faint affinities. Return the mirrored axes of each prediction."""
    calls: list[tuple[int, ...]] = []
    truth = Volume(f"{trained}/labels.h5:labels").read()

    def predicted(self: Predictor, _: Any, box: Box, *__: Any) -> Array:
        calls.append(self.mirror)
        return faint(truth)[(slice(None), *slices(box))]

    monkeypatch.setattr(Predictor, "predicted", predicted)
    return calls


def chosen(run: Path, **keys: Any) -> decoding.Decoding:
    return decoding.decoding_of(newest_checkpoint(run), SegmentOptions(**keys))


def test_thresholds_of_one_pass_are_those_of_single_ones() -> None:
    affinities = np.random.default_rng(0).random((3, 12, 20, 20), np.float32)
    for method in ("mean", "median", "quantile75"):
        for threshold, labels in linked(affinities, NEAREST, method, [0.3, 0.6, 0.5]):
            options = AffinityOptions(method=method, threshold=threshold, min_size=1)
            one = segments_of(affinities, NEAREST, options)
            pairs = np.unique(np.stack([labels.ravel(), one.ravel()]), axis=1)
            assert pairs.shape[1] == len(np.unique(one)) == len(np.unique(labels))


def test_noise_within_a_level_makes_no_pieces() -> None:
    """Affinities in levels: without them, each local maximum of the noise is a piece."""
    affinities = 0.993 + 0.006 * np.random.default_rng(0).random((3, 20, 20, 20), np.float32)
    affinities[2, :, :, 10] = 0.5
    for method in ("mean", "median", "quantile75"):
        ((_, labels),) = linked(affinities, NEAREST, method, [0.9995])
        assert len(np.unique(labels)) == 2
        assert (labels[..., :10] == labels[0, 0, 0]).all()


def test_voxels_without_an_affinity_stay_without_a_segment() -> None:
    affinities = np.full((3, 6, 6, 12), 0.9, np.float32)
    affinities[:, :, :, 5:7] = 0.0  # voxels 5 to 6, and those whose predecessors they are
    affinities[2, :, :, 7] = 0.0
    ((_, labels),) = linked(affinities, NEAREST, "mean", [0.5])
    assert (labels[..., 5:7] == 0).all()
    assert len(np.unique(labels)) == 3


def test_small_segments_merge_below_the_threshold() -> None:
    """A large, a small and a large segment in a row: affinities 0.55 and 0.45 between them."""
    affinities = np.ones((3, 4, 4, 24), np.float32)
    affinities[2, :, :, 10], affinities[2, :, :, 13] = 0.55, 0.45
    for threshold, small, expected in (
        (0.7, 0, [1, 2, 3]),
        (
            0.7,
            100,
            [1, 1, 2],
        ),  # the small one joins at the higher affinity, then nothing small is left
        (0.7, 40, [1, 2, 3]),  # 48 voxels are not small
        (0.7, 1000, [1, 1, 1]),
        (0.5, 100, [1, 1, 2]),
    ):
        options = AffinityOptions(threshold=threshold, small_size=small, min_size=1)
        found = segments_of(affinities, NEAREST, options)
        assert [found[0, 0, x] for x in (0, 11, 23)] == expected, (threshold, small)
        assert len(np.unique(found)) == max(expected)


def test_the_choice_finds_the_threshold(
    run: Path, predicts_faint: list[tuple[int, ...]], capfd: pytest.CaptureFixture[str]
) -> None:
    found = chosen(run)
    assert 0.15 < found.options.threshold < 0.4
    assert found.mirror == ()  # the copies are no better
    assert f"chosen on the validation box {BOX} (VOI " in found.source
    assert predicts_faint == [(), (0, 1, 2)]
    table = json.loads((run / "decoding.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    usual = {
        "mirror": False,
        "method": "mean",
        "threshold": 0.8,
        "small_size": 4000,
        "min_size": 100,
    }
    (plain,) = [row for row in rows if usual.items() <= row.items()]
    assert plain["voi"] > 2 * min(row["voi"] for row in rows)
    assert len(rows) == 2 * 3 * 17 * 4 * 2
    assert chosen(run) == found  # kept
    assert "adapted Rand error" in chosen(run, choose_by="rand").source
    given = chosen(run, threshold=0.7, method="median")
    assert (given.options.threshold, given.options.method) == (0.7, "median")
    assert "method, threshold as given" in given.source
    other = chosen(run, threshold=0.7)  # the other settings stay
    assert other.options == dataclasses.replace(found.options, threshold=0.7)
    assert chosen(run, mirror="on").mirror == (0, 1, 2)
    assert len(predicts_faint) == 2
    printed = capfd.readouterr()
    assert printed.out == ""  # waterz is silent
    assert printed.err.count("chooses threshold") == 1


@pytest.mark.parametrize(("share", "mirrored"), [(0.981, False), (0.979, True), (1.1, False)])
def test_mirroring_must_be_better_by_a_margin(share: float, mirrored: bool) -> None:
    plain = {
        "mirror": False,
        "method": "mean",
        "threshold": 0.5,
        "small_size": 0,
        "min_size": 100,
        "voi": 0.8,
    }
    other = plain | {"threshold": 0.6, "voi": 0.9}
    copies = plain | {"mirror": True, "threshold": 0.3, "voi": 0.8 * share}
    assert decoding._best([plain, other, copies], "voi") == (copies if mirrored else plain)
    assert decoding._best([plain, other, copies], "voi", True) == copies


def test_of_thresholds_that_score_alike_the_highest_wins() -> None:
    usual = {
        "mirror": False,
        "method": "mean",
        "threshold": 0.3,
        "small_size": 0,
        "min_size": 100,
        "voi": 1.0,
    }
    rows = [usual, usual | {"threshold": 0.6, "voi": 1.09}, usual | {"threshold": 0.7, "voi": 1.11}]
    rows += [usual | {"threshold": 0.8, "method": "median", "voi": 1.01}]
    assert decoding._best(rows, "voi") == rows[1]


def test_to_remove_everything_is_never_chosen(
    run: Path, predicts_faint: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(self: Predictor, _: Any, box: Box, *__: Any) -> Array:
        return np.zeros((3, *box[1]), np.float32)

    monkeypatch.setattr(Predictor, "predicted", nothing)
    found = chosen(run)
    assert "defaults, because no choice leaves a segment in the validation box" in found.source
    assert found.options.threshold == decoding._DEFAULTS["threshold"]


def test_segments_may_meet_outside_of_the_validation_box(
    run: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = Volume(f"{trained}/labels.h5:labels").read()
    same = np.stack([(np.roll(truth, 1, axis) == truth) & (truth > 0) for axis in range(3)])
    affinities = np.where(same, np.float32(0.95), np.float32(0))
    affinities[:, :30] = np.maximum(affinities[:, :30], 0.62)  # all objects meet here

    def predicted(_: Any, __: Any, box: Box) -> Array:
        return affinities[(slice(None), *slices(box))]

    monkeypatch.setattr(Predictor, "predicted", predicted)
    assert chosen(run).options.threshold > 0.62
    table = json.loads((run / "decoding.json").read_text())
    voi = {tuple(row[:5]): row[5] for row in table["rows"]}
    assert (
        voi[(False, "mean", 0.5, 0, 1)] > voi[(False, "mean", 0.8, 0, 1)] == 0
    )  # balls cross the face


def test_the_report_decodes_as_the_run_says(
    run: Path, predicts_faint: list[tuple[int, ...]], tmp_path: Path
) -> None:
    def made() -> segmented.Segmented:
        return segmented._made(read_run(run, "run"))

    before = made()
    assert "threshold 0.8, small_size 4000, min_size 100: defaults, because" in before.note
    found = chosen(run)
    after = made()
    assert f"Decoding: {found.source}." in after.note
    assert after.segmentation.read().max() > 3
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('mirror = "chosen"', 'mirror = "on"'))
    made()
    assert predicts_faint[-1] == (0, 1, 2)


def test_few_objects_say_too_little(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_FEW_OBJECTS", 11)
    found = chosen(run)
    assert "the validation box has 10 objects of at least 100 voxels, expected 11" in found.source
    assert (found.options.threshold, found.options.small_size) == (0.8, 4000)
    assert not (run / "decoding.json").exists()


def test_everything_may_be_given(run: Path, predicts_faint: list[tuple[int, ...]]) -> None:
    found = chosen(run, threshold=0.7, method="median", min_size=3, small_size=0, mirror="off")
    assert found.options == AffinityOptions(method="median", threshold=0.7, min_size=3)
    assert predicts_faint == []
    assert not (run / "decoding.json").exists()


def test_only_labels_of_the_validation_box_count(run: Path, trained: Path) -> None:
    chosen(run)
    kept = (run / "decoding.json").read_bytes()
    (run / "decoding.json").unlink()
    with h5py.File(trained / "labels.h5", "r+") as file:
        right = file["labels"][:32]
        file["labels"][:32] = np.random.default_rng(0).integers(1, 9, right.shape)
        file.flush()
    chosen(run)
    assert (run / "decoding.json").read_bytes() == kept
    with h5py.File(trained / "labels.h5", "r+") as file:
        file["labels"][:32] = right


def test_a_choice_for_another_checkpoint_is_stale(
    run: Path, predicts_faint: list[tuple[int, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    right = chosen(run)
    file = run / "decoding.json"
    text = file.read_text()
    own = json.loads(text)
    file.write_text(text.replace(own["network"], "0" * 16).replace(own["checkpoint"], "older.h5"))
    capsys.readouterr()
    known = decoding.decoding_of_file(str(newest_checkpoint(run)), False, {})
    assert "keeps a choice of older.h5" in known.source
    assert known.options == AffinityOptions(threshold=0.8, small_size=4000)
    assert chosen(run) == right
    assert file.read_text() == text
    known = decoding.decoding_of_file(str(newest_checkpoint(run)), False, {"min_size": 7})
    assert (known.options.threshold, known.options.min_size) == (right.options.threshold, 7)
    assert decoding.decoding_of_file("", False, {"method": "median"}).options.method == "median"
    assert "no checkpoint" in decoding.decoding_of_file("gone.h5", False, {}).source


def test_a_kept_choice_counts_where_nothing_can_be_written(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = chosen(run)

    def refuse(*_: Any, **__: Any) -> None:
        raise StorageError("the folder is write-protected")

    monkeypatch.setattr(decoding, "reserved", refuse)
    assert chosen(run) == right


def test_commands_say_where_settings_come_from(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out = str(tmp_path / "spots.toml"), f"{tmp_path}/out.h5:s"

    def printed(*line: str) -> str:
        assert cli.run(list(line)) == 0
        (found,) = [
            row for row in capsys.readouterr().out.splitlines() if row.startswith("decoding: ")
        ]
        return found

    text = printed("segment", plan, "--out", out)
    assert f"chosen on the validation box {BOX}" in text
    line = ["agglomerate", f"{tmp_path}/out.predicted.h5:predicted", f"{tmp_path}/again.h5:s"]
    assert f"chosen on the validation box {BOX}" in printed(*line)
    np.testing.assert_array_equal(Volume(line[-1]).read(), Volume(out).read())
    test = ["--set", 'validation.test_box="0:16,0:64,0:64"']
    printed("segment", plan, "--out", f"{tmp_path}/test.h5:s", *test)
    assert Volume(f"{tmp_path}/test.h5:s").shape == (16, 64, 64)
    line = ["segment", plan, "--out", out, "--set"]
    assert "segment.choose_by is 'iou'" in refused(*line, 'segment.choose_by="iou"', capsys=capsys)
    (run / "decoding.json").write_text('{"floodtide decoding": 1,')
    text = refused("segment", plan, "--out", out, capsys=capsys)
    assert "remove the file for a new one" in text


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ("0:10,0:64,0:64", "0:10,0:64,0:64 are trained or validated on"),
        ("60:64,0:64,0:64", "60:64,0:64,0:64 are trained or validated on"),
        ("60:99,0:64,0:64", "not inside the labels"),
        ("middle", "box 'middle'"),
    ],
)
def test_a_test_box_that_is_none_is_refused(
    run: Path, box: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--set", f"validation.test_box={box}", "--set", f"run.dir={run.parent}/other"]
    assert cli.run(["train", str(run.parent / "spots.toml"), *settings]) == 2
    error = capsys.readouterr().err
    assert "validation.test_box: " in error
    assert message in error


def test_an_image_needs_a_network_and_names_itself(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["segment", f"{trained}/volume.h5:raw", "--out", f"{tmp_path}/s.h5:s"]
    assert cli.run(line) == 2
    assert "--model is missing" in capsys.readouterr().err
    assert cli.run([*line, "--model", f"{trained}/run", "--set", "segment.image=x.h5:raw"]) == 2
    assert "--set segment.image is given" in capsys.readouterr().err


def test_outputs_without_a_folder_are_refused_before_the_work(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Predictor, "predicted", None)
    monkeypatch.setattr(segmented, "of_run", None)
    absent = f"{run.parent}/absent"
    for line in (
        ["segment", str(run.parent / "spots.toml"), "--out", f"{absent}/s.h5:s"],
        ["report", str(run), "--out", f"{absent}/r.html"],
    ):
        assert cli.run(line) == 2
        assert "has no folder, expected a folder that exists" in capsys.readouterr().err
