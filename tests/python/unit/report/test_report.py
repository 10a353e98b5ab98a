# SPDX-License-Identifier: Apache-2.0
"""The report: complete, tolerant of absent parts, strict about malformed ones, self-contained."""

from __future__ import annotations

import base64
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_runs
from hypothesis import given, settings
from hypothesis import strategies as st
from report_page import Page
from report_runs import make_run, training_record

from floodtide import cli, data, evaluate, report
from floodtide.base import style
from floodtide.errors import InvalidFileError, StorageError
from floodtide.report import curves, growth, planes
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.train import read_run


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("report") / "first")


@pytest.fixture(scope="module")
def page(run_folder: Path) -> Page:
    return Page(report.write([run_folder]))


def test_a_complete_run_shows_every_figure(page: Page) -> None:
    expected = {
        "Image, truth and segmentation in three planes",
        "The largest segments in three dimensions",
        "The growing mask at several moves",
        "Training curves",
        "Validation curves beside the trivial predictors",
    }
    assert expected <= page.images.keys()
    assert len(page.images) == len(expected) + 8  # and one a snapshot
    assert "Not in this report" not in page.text


def test_without_zmesh_the_page_says_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zmesh", None)
    page = Page(report.write([make_run(tmp_path / "run")]))
    assert "The largest segments in three dimensions" not in page.images
    assert "pip install 'floodtide[view]'" in html.unescape(page.text)


def test_figures_are_embedded_and_not_empty(page: Page) -> None:
    for source in page.images.values():
        kind, content = source.split(",", 1)
        raw = base64.b64decode(content)
        assert (
            raw.startswith(b"\x89PNG") if kind == "data:image/png;base64" else b"<svg" in raw[:400]
        )
        assert len(raw) > 5000


def test_the_page_asks_for_nothing_from_elsewhere(page: Page) -> None:
    outside = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:)([^"'>)\s]+)""", page.text)
    assert outside == []
    assert "@import" not in page.text


def test_tables_show_the_scores_and_the_settings(page: Page) -> None:
    assert page.row("trained network") == ["trained network", "0.123", "0.91", "29"]
    assert page.row("everything is one object") == ["everything is one object", "0.8", "1", "-"]
    assert page.row("Depth")[1] == "4"
    assert page.row("Ranks")[1] == "2"
    assert page.row("F1 at probability 0.5")[2:4] == ["0.62", "0"]
    assert page.row("Cross-entropy")[2:4] == ["-", "0.66"]


def test_writing_twice_gives_the_same_file(run_folder: Path) -> None:
    first = report.write([run_folder]).read_bytes()
    assert report.write([run_folder]).read_bytes() == first


def test_several_runs_stand_side_by_side(run_folder: Path, tmp_path: Path) -> None:
    second = make_run(tmp_path / "other" / "first", rate=2.0)
    both = Page(report.write([run_folder, second], tmp_path / "both.html"))
    names = [f"{run_folder.parent.name}/first", "other/first"]
    assert both.row("other/first: trained network")[1] == "0.123"
    assert both.row("Depth") == ["Depth", "4", "4"]
    assert names in [row[1:] for row in both.rows]


def test_absent_parts_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    report_runs.write_log(folder)
    made = Page(report.write([folder]))
    assert set(made.images) == {
        "Training curves",
        "Validation curves beside the trivial predictors",
    }
    for part in ("config.toml", "scores.json", "segmentation.h5", "flood.npz"):
        assert f"run: {part} is not there" in made.text


def test_names_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<"
    folder.mkdir()
    (folder / "scores.json").write_text('[{"name": "<b>", "coverage": 1}]')
    assert "<script>alert" not in report.write([folder]).read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.toml", "a = ", "config.toml: is not TOML"),
        ("scores.json", "[1]", "scores.json: expected a list of objects"),
        ("log.jsonl", '{"kind": "start"}\nnonsense\n', "log.jsonl, line 2: is not JSON"),
        ("segmentation.h5", "no HDF5", "segmentation.h5: cannot be opened"),
        ("flood.npz", "no zip", "flood.npz"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    (tmp_path / "scores.json").write_text("[]")
    (tmp_path / file).write_text(content)
    with pytest.raises(InvalidFileError, match=message):
        report.write([tmp_path])
    assert not list(tmp_path.glob("report.html*"))


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="expected a run directory"):
        report.write([tmp_path])
    with pytest.raises(InvalidFileError, match="no run directory"):
        report.write([tmp_path / "nowhere"])


def test_a_target_that_cannot_be_written_is_a_storage_error(
    run_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="cannot be written: folder"):
        report.write([run_folder], tmp_path / "no" / "such" / "folder.html")


def test_an_unfinished_last_line_is_left_out(tmp_path: Path) -> None:
    complete = json.dumps(training_record(0, 0.5)) + "\n"
    (tmp_path / "log.jsonl").write_text(complete + '{"kind": "train", "st')
    assert [record["step"] for record in read_run(tmp_path).train] == [0]


def test_steps_repeated_by_a_resumed_run_count_once(tmp_path: Path) -> None:
    records = [training_record(step, 0.5) for step in (0, 10, 20, 30)] + [
        training_record(step, 0.25) for step in (20, 25)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    train = read_run(tmp_path).train
    assert [(record["step"], record["loss"]) for record in train] == [
        (0, 0.5),
        (10, 0.5),
        (20, 0.25),
        (25, 0.25),
    ]


def test_smoothing_keeps_a_constant_and_few_values() -> None:
    constant = np.full(50, 3.25)
    np.testing.assert_allclose(curves.smoothed(constant), constant, rtol=8 * np.finfo(float).eps)
    few = np.arange(10.0)
    assert curves.smoothed(few).tolist() == few.tolist()


def test_smoothing_follows_the_definition() -> None:
    values = np.zeros(100)
    values[0] = 1.0
    factor = 0.9
    expected = [factor**n * (1 - factor) / (1 - factor ** (n + 1)) for n in range(100)]
    tolerance = 4 * 100 * np.finfo(float).eps  # one product and sum an element
    np.testing.assert_allclose(curves.smoothed(values), expected, rtol=tolerance)


def test_a_share_is_relative_to_the_time_since_the_record_before() -> None:
    records = [
        {"step": 1, "time_s": 10.0, "wait_data_s": 1.0},
        {"step": 2, "time_s": 14.0, "wait_data_s": 3.0},
        {"step": 3, "time_s": 14.0, "wait_data_s": 0.0},
    ]
    shares = [record["wait_data_s"] for record in curves.time_share(records, "wait_data_s")]
    assert shares == [10.0, 75.0]


def test_planes_are_cut_where_the_segmentation_lies(run_folder: Path) -> None:
    for plane, position in zip(
        planes.read_planes(read_run(run_folder)), ("z = 22", "y = 39", "x = 53"), strict=True
    ):
        assert plane.title == position
        assert plane.truth is not None
        same = plane.segmentation == plane.truth + 100
        assert same.mean() > 0.5  # membranes and two objects differ


def test_volumes_that_are_gone_stay_out_of_the_pictures(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "volume.h5").unlink()
    read = planes.read_planes(read_run(folder))
    assert [(plane.image, plane.truth) for plane in read] == [(None, None)] * 3
    assert "Image, truth and segmentation" in report.write([folder]).read_text("utf-8")


def test_evaluate_draws_the_planes_of_the_report(run_folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "planes.png"
    file, raw = run_folder / "segmentation.h5", f"{run_folder / 'volume.h5'}:raw"
    truth = f"{run_folder / 'volume.h5'}:labels"
    command = ["evaluate", f"{file}:segmentation", truth, "--image", raw, "--picture", str(picture)]
    assert cli.run(command) == 0
    table = evaluate.count_volumes(data.Volume(file, "segmentation"), data.Volume(truth))
    pairs = table.rows().astype(np.int64)
    read = planes.read_segmentation(
        data.Volume(file, "segmentation"), raw, truth, None, pairs=pairs
    )
    drawn = base64.b64decode(planes.planes_figure(read, None).partition(",")[2])
    assert picture.read_bytes() == drawn
    assert cli.run([*command[:-1], str(tmp_path / "absent" / "planes.png")]) != 0
    assert cli.run([*command[:4], f"{tmp_path}/absent.h5:raw", *command[5:]]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["planes.png"]


def test_the_output_of_evaluate_serves_as_scores(tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text('{"coverage": 0.5}')
    assert read_run(tmp_path).scores == [{"name": "segmentation", "coverage": 0.5}]


class Ball:
    """A stand-in for a network: everything within 12 voxels of the image's centre is object."""

    fov = (9, 9, 9)
    deltas = (3, 3, 3)

    def forward(
        self, image: np.ndarray[Any, Any], logits: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        return (12.0 - image).astype(np.float32)


def test_a_recorded_object_grows_to_its_final_mask(tmp_path: Path) -> None:
    grid = np.meshgrid(*[np.arange(41, dtype=np.float32) - 20] * 3, indexing="ij")
    distance = np.sqrt(sum(axis**2 for axis in grid))
    segmenter = Segmenter(Ball(), SegmentOptions(mean=0.0, std=1.0))
    report.record_growth(tmp_path, segmenter, distance, (20, 20, 20))
    recorded = growth.read_growth(tmp_path)
    assert recorded is not None
    assert recorded.moves[0] == 1
    sizes = [int((np.nan_to_num(canvas) >= 0.5).sum()) for canvas in recorded.probability]
    assert sizes == sorted(sizes)
    assert sizes[0] == 9**3  # all of the first field of view is object
    final = recorded.probability[-1]
    seen = ~np.isnan(final)
    assert ((final[seen] >= 0.5) == (recorded.image[seen] <= 12.0)).all()
    assert recorded.image[seen].min() == 0.0


def test_training_f1_comes_from_pooled_counts() -> None:
    assert curves.training_f1({"tp": 6, "fp": 2, "fn": 4}) == 12 / 18
    assert curves.training_f1({"tp": 0, "fp": 0, "fn": 0}) is None
    assert curves.training_f1({"loss": 1.0}) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=40))
def test_label_colours_are_colours_and_depend_on_the_label_only(labels: list[int]) -> None:
    colours = style.label_colours(np.array(labels))
    assert colours.shape == (len(labels), 3)
    assert (colours >= 0).all()
    assert (colours <= 1).all()
    assert (
        colours == np.concatenate([style.label_colours(np.array([label])) for label in labels])
    ).all()


def test_a_segment_matches_the_object_it_covers_best(tmp_path: Path) -> None:
    truth = np.array([[1, 1, 1, 2, 2, 0]])
    segmentation = np.array([[9, 9, 8, 8, 0, 7]])
    matches = planes.matching([(segmentation, truth)])
    assert matches == {9: 1, 8: 2}
    assert planes.matched(segmentation, matches).tolist() == [[1, 1, 2, 2, 0, 10]]
