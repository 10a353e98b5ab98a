# SPDX-License-Identifier: Apache-2.0
"""The report: complete, tolerant of absent parts, strict about malformed ones, self-contained."""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import math
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import report_runs
import training_volume
from hypothesis import given, settings
from hypothesis import strategies as st
from report_page import Page
from report_runs import make_run, training_record
from unet_runs import validation_record

from floodtide import cli, config, data, report
from floodtide.base import style
from floodtide.errors import InvalidFileError, OutOfRangeError, StorageError
from floodtide.evaluate import trivial
from floodtide.evaluate.voxels import Pair
from floodtide.report import curves, drawing, growth, planes, segmented
from floodtide.report import page as report_page
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.train import Run, Trainer, read_run
from floodtide.train.run_directory import matthews


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("report") / "first")


@pytest.fixture(scope="module")
def page(run_folder: Path) -> Iterator[Page]:
    """The page of a run with a segmentation, as if its newest checkpoint grew a ball."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented, "_growing", lambda _: (report_runs.growing_ball(), []))
        yield Page(report.write([run_folder]))


def test_a_complete_run_shows_every_figure(page: Page) -> None:
    expected = {
        "Image, truth and segmentation in three planes",
        "The worst splits and mergers",
        "The largest segments in three dimensions",
        "Training curves",
        "Validation curves beside the trivial predictors",
    }
    assert expected <= page.images.keys()
    assert len(page.images) == len(expected) + 8  # and one a snapshot
    assert "What this report cannot show" not in page.text


def test_every_curve_has_its_place_on_the_page() -> None:
    template = (Path(report.__file__).parent / "templates" / "run.html").read_text("utf-8")
    for name in drawing.CURVES:
        assert f'{{{{ curve("{name}", ' in template


def test_the_page_opens_with_a_verdict_and_facts(page: Page) -> None:
    texts = html.unescape(page.text)
    assert 'class="verdict unsure"' in texts
    assert "Perhaps better than trivial by 0.013: over all voxels, the segmentation has" in texts
    head = texts[: texts.index("Scores of the segmentation")]
    for fact in (
        "Duration of the training",
        "40 s",
        "2 ranks with 1 thread; one, 1 core for rank 0",
    ):
        assert fact in head


def test_the_worst_mistakes_have_their_places(page: Page) -> None:
    row = page.row("1")
    assert row[1] == "split"
    assert re.fullmatch(
        r"segment \d+ \([\d,]+\) at \d+, \d+, \d+; segment 99 \(1,386\) at 17, 52, 61", row[4]
    )


def test_a_verdict_compares_with_the_best_trivial_answer() -> None:
    answers = {"everything one object": {"all_adapted_rand_error": 0.7, "coverage": 1.0}}
    own = {"all_adapted_rand_error": 0.75, "coverage": 0.5}
    found = trivial.verdict(own, answers)
    assert found is not None
    assert not found.better
    assert found.text == (
        "Not yet better than trivial (worse by 0.050): over all voxels, the segmentation has an adapted Rand error of"
        " 0.750 at coverage 0.50, the best trivial answer (everything one object) 0.700."
    )
    answers["best grey level"] = {"all_adapted_rand_error": 0.8}
    better = trivial.verdict({"all_adapted_rand_error": 0.25}, answers)
    assert better is not None
    assert better.better
    assert better.text.startswith("Better than trivial by 0.450: ")
    assert trivial.verdict({"all_adapted_rand_error": None}, answers) is None


@pytest.mark.parametrize(
    ("high", "words"),
    [
        (0.69, "Better than trivial by 0.450: "),
        (0.71, "Perhaps better than trivial by 0.450: "),
    ],
)
def test_a_verdict_is_only_sure_if_the_interval_is_below_the_trivial_answer(
    high: float, words: str
) -> None:
    answers = {"everything one object": {"all_adapted_rand_error": 0.7}}
    found = trivial.verdict({"all_adapted_rand_error": 0.25}, answers, (0.2, high))
    assert found is not None
    assert found.text.startswith(words)
    assert (found.better, found.sure) == (True, high < 0.7)
    assert ("too few objects" in found.text) == (high > 0.7)


@pytest.mark.parametrize(
    ("task", "record", "words"),
    [
        (
            "classes",
            {"classes": [{"dice_pooled": 0.25, "dice_everything": 0.5}]},
            "Not yet better than trivial (worse by 0.250)",
        ),
        (
            "affinities",
            {"channels": {"z": {"boundary_average_precision": 0.5, "share_of_ones": 0.75}}},
            "Better than trivial by 0.250",
        ),
        (
            "distance",
            {"channels": {"distance": {"mean_squared_error": 0.05, "variance": 0.2}}},
            "Better than trivial by 0.750",
        ),
    ],
)
def test_other_tasks_are_judged_by_their_validation(
    task: str, record: dict[str, Any], words: str
) -> None:
    config = {"task": {"kind": task}}
    run = Run(folder=Path(), name="run", config=config, validation=[{"step": 5, **record}])
    found = report_page.verdict_of(run, None)
    assert found is not None
    assert words in found.text
    assert report_page.verdict_of(Run(folder=Path(), name="run"), None) is None


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_mistakes_of_voxels_are_those_of_a_slow_twin(seed: int, ids: int) -> None:
    rng = np.random.default_rng(seed)
    segments, objects = rng.integers(0, ids + 1, (2, 3, 4, 5))
    # Distinct counts, so that the largest part of an id is unique.
    pairs = [(s, o) for s in range(ids + 1) for o in range(ids + 1)]
    sizes = dict(zip(pairs, rng.permutation(len(pairs)).tolist(), strict=True))
    table = np.array([(s, o, n + 1) for (s, o), n in sizes.items()])
    found = drawing.kinds(segments, objects, table)
    inner = range(1, ids + 1)
    for s, o, kind in zip(segments.ravel(), objects.ravel(), found.ravel(), strict=True):
        if o == 0:
            expected = drawing.CORRECT
        elif s == 0:
            expected = drawing.UNSEGMENTED
        elif max(inner, key=lambda other, s=s: sizes[s, other]) != o:
            expected = drawing.MERGED
        elif max(inner, key=lambda other, o=o: sizes[other, o]) != s:
            expected = drawing.SPLIT
        else:
            expected = drawing.CORRECT
        assert kind == expected


def test_mistakes_differ_in_grey_print() -> None:
    grey = np.full((8, 8, 3), 0.5)
    kinds = [drawing.CORRECT, drawing.SPLIT, drawing.MERGED]
    weights = [0.299, 0.587, 0.114]
    lightness = [
        float((drawing.painted(grey, np.full((8, 8), k, np.uint8)) @ weights).mean()) for k in kinds
    ]
    assert np.abs(np.diff(sorted(lightness))).min() > 0.1
    striped = drawing.painted(grey, np.full((8, 8), drawing.UNSEGMENTED, np.uint8))
    assert (striped @ weights).std() > 0.1


def test_the_time_axis_follows_the_steps() -> None:
    records = [
        {"step": step, "time_s": 60.0 * step + (600.0 if step > 20 else 0.0)}
        for step in range(0, 50, 10)
    ]
    run = Run(folder=Path(), name="run", train=records)
    with style.figure(3.0, 2.0) as drawn:
        axis = drawn.subplots()
        axis.plot([0, 40], [0, 1])
        curves.add_time_axis(axis, [run])
        (above,) = axis.child_axes
        drawn.canvas.draw()
        texts = {tick.get_text() for tick in above.get_xticklabels()}
        assert above.get_xlabel() == "time (min)"
        assert {"0", "10", "20", "40", "50"} <= texts  # of the steps 0, 10, 20, 30, 40
        curves.add_time_axis(axis, [run, run])
        assert len(axis.child_axes) == 1


def test_the_held_out_part_is_small_and_in_the_middle() -> None:
    assert segmented.small_part(((200, 0, 0), (56, 20, 160)), (17, 17, 17)) == (
        (200, 0, 0),
        (56, 20, 160),
    )
    start, size = segmented.small_part(((10, 0, 0), (400, 300, 500)), (33, 33, 33))
    assert np.prod(size) <= 1 << 20
    assert start == ((400 - size[0]) // 2 + 10, (300 - size[1]) // 2, (500 - size[2]) // 2)
    with pytest.raises(OutOfRangeError, match="more than the field of view"):
        segmented.small_part(((0, 0, 0), (17, 40, 40)), (17, 17, 17))


def test_a_run_with_reflected_faces_is_segmented_for_the_report(tmp_path: Path) -> None:
    training_volume.write_volume(tmp_path)
    low = {"reflect": True, "move_threshold": 0.01, "segment_threshold": 0.01, "pad_value": 0.5}
    document = training_volume.document(
        tmp_path, training={"steps": 1}, segment={**low, "min_segment_size": 1}
    )
    Trainer.from_config(config.from_dict(document)).run()
    found, missing = segmented.of_run(read_run(tmp_path / "run"), alone=True)
    assert missing == []
    assert found is not None
    assert found.segmentation.read().max() > 0
    assert found.grown is not None
    assert found.grown.moves[-1] > 1

    stored = np.ones((4, 4, 4), np.uint32)
    data.write_volume(tmp_path / "run" / "segmentation.h5", {"segmentation": stored})
    again, missing = segmented.of_run(read_run(tmp_path / "run"), alone=True)
    assert missing == []
    assert again is not None
    assert again.segmentation.shape == (4, 4, 4)
    assert again.grown is not None


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
    assert page.row("segmentation")[:3] == ["segmentation", "0.567", "0.7471"]
    assert page.row(trivial.ONE_OBJECT)[:3] == [trivial.ONE_OBJECT, "0.9207", "1"]
    objects = page.row("segmentation")[8]
    assert [page.row(name)[8] for name in (trivial.ONE_OBJECT, trivial.GREY_LEVEL)] == [objects] * 2
    assert page.row("Depth")[1] == "4"
    assert page.row("Ranks")[1] == "2"
    assert page.row("F1 at probability 0.5")[2:4] == ["0.62", "0"]
    assert page.row("Cross-entropy")[2:4] == ["-", "0.66"]


def test_writing_twice_gives_the_same_file(run_folder: Path, page: Page) -> None:
    assert Page(report.write([run_folder])).text == page.text


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    names = ["one/first", "other/first"]
    for name in names:
        report_runs.make_trained(tmp_path / name)
    both = Page(report.write([tmp_path / name for name in names], tmp_path / "both.html"))
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
    assert (
        "run: settings and curves: config.toml or log.jsonl of the training is missing" in made.text
    )
    assert f"run: pictures of a segmentation: {folder}/config.toml: cannot be read" in made.text


def test_names_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<"
    folder.mkdir()
    (folder / "config.toml").write_text('[[data.volumes]]\nname = "<script>alert"\n')
    assert "<script>alert" not in report.write([folder]).read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.toml", "a = ", "config.toml: is not TOML"),
        ("log.jsonl", '{"kind": "start"}\nnonsense\n', "log.jsonl, line 2: is not JSON"),
        ("segmentation.h5", "no HDF5", "segmentation.h5: cannot be opened"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    (tmp_path / "log.jsonl").write_text("")
    (tmp_path / file).write_text(content)
    with pytest.raises(InvalidFileError, match=message):
        report.write([tmp_path])
    assert not list(tmp_path.glob("report.html*"))


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="expected a run directory"):
        report.write([tmp_path])
    with pytest.raises(InvalidFileError, match="no run directory"):
        report.write([tmp_path / "nowhere"])


def test_a_target_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(StorageError, match="has no folder, expected a folder that exists"):
        report.write([tmp_path], tmp_path / "no" / "such" / "folder.html")


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ("", {}, "counts patches, expected a config.toml with a task.kind that is learnt from"),
        ('kind = "lsd"', {}, "step 40 has no channels, expected the scores of task 'lsd'"),
        ('kind = "classes"', {"groups": ["one"]}, "step 40 has 1 classes, expected a Dice of each"),
        (
            'kind = "classes"',
            {"confusion": [[1]]},
            "step 40 has 1 classes, expected a Dice of each",
        ),
        ('kind = "classes"', {"confusion": [[1, 2], [3, -4]]}, "line 2: confusion.1.1 is -4"),
        ('kind = "boxes"', {}, "task.kind is 'boxes'"),
    ],
)
def test_a_validation_that_is_not_that_of_the_task_is_refused(
    tmp_path: Path, config: str, change: dict[str, Any], message: str
) -> None:
    (tmp_path / "config.toml").write_text(f"[task]\n{config}\n")
    start = {"kind": "start", "step": 0, "time_s": 0.0, "unit": "patches"}
    records = (start, {**validation_record("classes", 40, 7.0, 0.5), **change})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(InvalidFileError, match=re.escape(message)):
        read_run(tmp_path)


def test_labels_of_a_part_are_compared_where_they_lie(tmp_path: Path) -> None:
    """And voxels with the value that means no label are no object."""
    labels = np.full((4, 6, 8), 9, np.uint32)
    labels[:, :, :3], labels[:, :, 3:5] = 5, 6
    data.write_volume(tmp_path / "labels.h5", {"labels": labels})
    with h5py.File(tmp_path / "segmentation.h5", "w") as file:
        file["segmentation"] = labels[1:3] * (labels[1:3] != 9)
        file["segmentation"].attrs["box_start"] = (11, 20, 30)
    (tmp_path / "config.toml").write_text(
        f'[data]\nunlabelled = 9\n[[data.volumes]]\nimage = ""\nlabels = "{tmp_path}/labels.h5:labels"\n'
        "labels_start = [10, 20, 30]\n"
    )
    found, _ = segmented.of_run(read_run(tmp_path), alone=True)
    assert found is not None
    assert isinstance(found.truth, data.Volume)
    assert np.unique(found.truth.read()).tolist() == [0, 5, 6]
    assert found.answers["segmentation"]["adapted_rand_error"] == 0
    planes_shown = found.planes(None)
    assert [plane.title for plane in planes_shown] == ["z = 12", "y = 23", "x = 34"]
    assert all((plane.truth == plane.segmentation).all() for plane in planes_shown)


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


@pytest.mark.parametrize(("count", "lines"), [(curves.UNSMOOTHED, 1), (curves.UNSMOOTHED + 1, 2)])
def test_faint_lines_are_drawn_and_named_where_they_differ(
    tmp_path: Path, count: int, lines: int
) -> None:
    with style.figure(2.0, 2.0) as drawn:
        axis = drawn.subplots()
        curves.plot_smoothed(axis, np.arange(float(count)), np.ones(count), style.SERIES[0])
        assert len(axis.lines) == lines
    records = [training_record(step, 0.5) for step in range(count)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ("Faint lines" in Page(report.write([tmp_path])).text) == (lines == 2)


@pytest.mark.parametrize("ranks", [1, 2])
def test_averaging_of_gradients_is_drawn_for_several_ranks(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    titles: list[str] = []
    monkeypatch.setattr(
        style, "data_uri", lambda drawn, _: titles.extend(a.get_title("left") for a in drawn.axes)
    )
    run = read_run(run_folder)
    curves.training_figure([dataclasses.replace(run, start={**run.start, "ranks": ranks})])
    assert ("Averaging gradients" in titles) == (ranks > 1)


def test_smoothing_follows_the_definition() -> None:
    values = np.zeros(300)
    values[0] = 1.0
    factor = 0.9
    expected = [factor**n * (1 - factor) / (1 - factor ** (n + 1)) for n in range(300)]
    tolerance = 4 * 300 * np.finfo(float).eps  # one product and sum an element
    np.testing.assert_allclose(curves.smoothed(values), expected, rtol=tolerance)


def test_a_share_is_relative_to_the_time_since_the_record_before() -> None:
    records = [
        {"step": 1, "time_s": 10.0, "wait_data_s": 1.0},
        {"step": 2, "time_s": 14.0, "wait_data_s": 3.0},
        {"step": 3, "time_s": 14.0, "wait_data_s": 0.0},
    ]
    found = curves.derived(Run(folder=Path(), name="run", train=records))
    assert [record.get("wait_data_s") for record in found] == [10.0, 75.0, None]


def _planes(folder: Path) -> list[planes.Plane]:
    """The planes of the segmentation of a run directory."""
    run = read_run(folder)
    segmentation = data.Volume(folder / "segmentation.h5", "segmentation")
    image, labels = (run.source.get(name, "") for name in ("image", "labels"))
    return planes.read_segmentation(segmentation, image, labels, run.voxel_size_nm)


def test_planes_are_cut_where_the_segmentation_lies(run_folder: Path) -> None:
    for plane, position in zip(_planes(run_folder), ("z = 22", "y = 39", "x = 53"), strict=True):
        assert plane.title == position
        assert plane.truth is not None
        same = plane.segmentation == plane.truth + 100
        assert same.mean() > 0.5  # membranes and two objects differ


def test_what_is_gone_stays_out_of_the_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volumes of a run, and the package that makes surfaces."""
    folder = make_run(tmp_path / "run")
    (folder / "volume.h5").unlink()
    monkeypatch.setitem(sys.modules, "zmesh", None)
    read = _planes(folder)
    assert [(plane.image, plane.truth) for plane in read] == [(None, None)] * 3
    page = Page(report.write([folder]))
    assert "Image, truth and segmentation" in page.text
    assert "The largest segments in three dimensions" not in page.images
    assert "pip install '.[view]'" in html.unescape(page.text)


def test_evaluate_draws_the_planes_of_the_report(run_folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "planes.png"
    file, raw = run_folder / "segmentation.h5", f"{run_folder / 'volume.h5'}:raw"
    truth = f"{run_folder / 'volume.h5'}:labels"
    command = ["evaluate", f"{file}:segmentation", truth, "--image", raw, "--picture", str(picture)]
    assert cli.run(command) == 0
    table = Pair(data.Volume(file, "segmentation"), data.Volume(truth)).table()
    pairs = table.rows().astype(np.int64)
    read = planes.read_segmentation(
        data.Volume(file, "segmentation"), raw, truth, None, pairs=pairs
    )
    drawn = base64.b64decode(planes.planes_figure(read).partition(",")[2])
    assert picture.read_bytes() == drawn
    assert cli.run([*command[:-1], str(tmp_path / "absent" / "planes.png")]) != 0
    assert cli.run([*command[:4], f"{tmp_path}/absent.h5:raw", *command[5:]]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["planes.png"]


@pytest.mark.parametrize("stating", ["segmentation", "image"])
def test_the_scale_bar_of_evaluate_has_the_size_that_a_file_states(
    run_folder: Path, tmp_path: Path, stating: str
) -> None:
    shutil.copy(run_folder / "segmentation.h5", tmp_path / "segmentation.h5")
    shutil.copy(run_folder / "volume.h5", tmp_path / "image.h5")
    dataset = "segmentation" if stating == "segmentation" else "raw"
    with h5py.File(tmp_path / f"{stating}.h5", "a") as file:
        file[dataset].attrs["resolution"] = [40.0, 8.0, 8.0]
    image, truth = f"{tmp_path / 'image.h5'}:raw", f"{run_folder / 'volume.h5'}:labels"
    command = ["evaluate", f"{tmp_path / 'segmentation.h5'}:segmentation", truth, "--image", image]
    drawn = []
    for size in ([], ["--voxel-nm", "40,8,8"]):
        picture = tmp_path / f"{len(size)}.png"
        assert cli.run([*command, *size, "--picture", str(picture)]) == 0
        drawn.append(picture.read_bytes())
    assert drawn[0] == drawn[1]


class Ball:
    """A stand-in for a network: everything within 12 voxels of the image's centre is object."""

    fov = (9, 9, 9)
    deltas = (3, 3, 3)

    def forward(
        self, image: np.ndarray[Any, Any], logits: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        return (12.0 - image).astype(np.float32)


def test_an_object_grows_to_its_final_mask() -> None:
    grid = np.meshgrid(*[np.arange(41, dtype=np.float32) - 20] * 3, indexing="ij")
    distance = np.sqrt(sum(axis**2 for axis in grid))
    segmenter = Segmenter(Ball(), SegmentOptions(mean=0.0, std=1.0))
    recorded = growth.grow(segmenter, distance, (20, 20, 20))
    assert recorded.moves[0] == 1
    assert recorded.image[recorded.seed] == 0.0
    sizes = [int((np.nan_to_num(canvas) >= 0.5).sum()) for canvas in recorded.probability]
    assert sizes == sorted(sizes)
    assert sizes[0] == 9**3  # all of the first field of view is object
    final = recorded.probability[-1]
    seen = ~np.isnan(final)
    assert ((final[seen] >= 0.5) == (recorded.image[seen] <= 12.0)).all()


def test_the_score_of_the_training_comes_from_pooled_counts() -> None:
    counts = {"tp": 6, "fp": 2, "fn": 4, "tn": 8}
    assert matthews(counts) == pytest.approx((6 * 8 - 2 * 4) / math.sqrt(8 * 10 * 10 * 12))
    assert matthews({"tp": 6, "fp": 4, "fn": 0, "tn": 0}) is None  # everything is object
    assert matthews({"loss": 1.0}) is None


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
