# SPDX-License-Identifier: Apache-2.0
"""Several runs in one report: throughput, time to a loss, outcomes, emulated walkers; and validation of U-Nets."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from report_page import Page
from report_runs import write_log
from unet_runs import make_unet_run, validation_record

from floodtide import report
from floodtide.base import style
from floodtide.report import comparison, curves, tables
from floodtide.train import Run, read_run


def run_of(losses: list[float], **changes: Any) -> Run:
    """A run with one record a second."""
    train = [{"step": i, "time_s": float(i), "loss": loss} for i, loss in enumerate(losses)]
    return Run(folder=Path("run"), name="run", **{"train": train, **changes})


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("study")
    return [
        make_unet_run(folder / "one"),
        make_unet_run(folder / "two", workers=2),
        make_unet_run(folder / "four-a", workers=4, seed=1),
        make_unet_run(folder / "four-b", workers=4, seed=2),
        make_unet_run(folder / "eight", workers=8, ranks=2),
        make_unet_run(folder / "sixteen", workers=16, ranks=1, diverges=True),
    ]


@pytest.fixture(scope="module")
def page(study: list[Path]) -> Page:
    return Page(report.write(study, study[0].parent / "study.html"))


def test_runs_of_several_workers_show_the_figures_of_the_comparison(page: Page) -> None:
    expected = {
        "Training loss and validation against time",
        "Training curves",
        "Dice of what was held out",
    }
    assert page.images.keys() == expected


def test_the_table_has_speed_times_and_outcomes(page: Page, study: list[Path]) -> None:
    head = page.row_before("one")
    assert head[:4] == ["", "walkers", "ranks", "patches / s"]
    assert re.fullmatch(r"to loss 0\.\d+ \(min\)", head[4])
    # 4 patches of each worker in a step of 0.4 s x (1 + 0.02 for each further rank).
    assert page.row("two")[1:4] == ["2", "2", "19.61"]
    assert page.row("eight")[1:4] == ["8", "2", "19.61"]
    assert float(page.row("one")[4]) > 0
    assert page.row("one")[-1] == "all steps"
    lowest, last = head.index("lowest loss"), head.index("last loss")  # the loss of this run rose
    assert float(page.row("sixteen")[last]) > 2 * float(page.row("sixteen")[lowest])


def test_emulated_workers_are_named_as_such(page: Page, study: list[Path]) -> None:
    assert "several walkers one after another" in page.text
    real = Page(report.write(study[:2], study[0].parent / "real.html"))
    assert "one after another" not in real.text


def test_the_time_to_a_loss_is_that_of_the_first_record_at_or_below_it() -> None:
    falling = run_of([1.0, 0.5, 0.25, 0.125])  # so few values are not smoothed
    assert comparison.time_to(falling, 0.5) == 1.0
    assert comparison.time_to(falling, 0.3) == 2.0
    assert comparison.time_to(falling, 0.1) is None


@pytest.mark.parametrize(
    "reason",
    [
        "train: the averaged gradient of 'head/weights' is not finite at step 203",
        "train: the loss is nan at step 203, walkers 0 to 1",
    ],
)
def test_a_run_that_ended_with_what_is_no_number_failed(tmp_path: Path, reason: str) -> None:
    folder = make_unet_run(tmp_path / "run")
    for rank in (10, 2):
        (folder / f"failure-rank-{rank}.json").write_text(
            json.dumps({"rank": rank, "reason": reason if rank == 2 else "lost a rank"})
        )
    assert comparison.outcome(read_run(folder)) == f"failed: {reason}"
    page = report.write([folder]).read_text()
    assert f"Failed: {html.escape(reason)}".replace("&#x27;", "&#39;") in page


def test_outcomes_name_failures_and_early_ends() -> None:
    short = run_of([1.0, 0.5], config={"training": {"steps": 2000}})
    assert comparison.outcome(short) == "ended at step 1 of 2,000"
    training = {"steps": 2, "corrections": [[1, 2000]]}
    short = run_of([1.0, 0.5], config={"training": training})
    short.train[-1]["lr_share"] = 0.7
    assert comparison.outcome(short).startswith(
        "ended at step 1 of 2,000, its learning rate still at 70 % of the highest"
    )
    assert comparison.outcome(run_of([1.0, 0.5], failure="disk full")) == "failed: disk full"
    assert comparison.outcome(run_of([1.0, 0.5])) == "all steps"


def test_the_time_is_to_the_lowest_loss_that_all_runs_reached() -> None:
    runs = [run_of([1.0, low, low]) for low in (0.5, 0.25, 0.12345)]
    assert comparison.lowest_common([*runs, run_of([1.0, 0.01, 3.0])]) == 0.5
    assert comparison.lowest_common([run_of([math.nan, 1.0])]) is None
    table = comparison.comparison_table(runs)
    column = table.head.index("to loss 0.5 (s)")
    assert [row[column] for row in table.rows] == ["1"] * 3


def flooding_run(folder: Path, rate: float = 1.0) -> Path:
    """A log without pictures."""
    folder.mkdir()
    write_log(folder, rate=rate)
    return folder


def test_runs_of_different_kinds_are_not_compared(tmp_path: Path) -> None:
    folders = [flooding_run(tmp_path / "flooding"), make_unet_run(tmp_path / "unet")]
    mixed = Page(report.write(folders, tmp_path / "mixed.html"))
    assert "Training loss and validation against time" not in mixed.images
    assert "no comparison of the runs" in mixed.text
    assert {"Dice of what was held out", "Training curves"} <= mixed.images.keys()


def test_flooding_runs_are_compared_too(tmp_path: Path) -> None:
    folders = [flooding_run(tmp_path / "flood-a"), flooding_run(tmp_path / "flood-b", rate=2.0)]
    made = Page(report.write(folders, tmp_path / "both.html"))
    assert "Training loss and validation against time" in made.images
    assert made.row_before("flood-a")[3] == "fields of view / s"


def validated(task: str, **keys: Any) -> Run:
    """A run with one validation."""
    config = {"task": {"kind": task, **keys}}
    return run_of([], config=config, validation=[validation_record(task, 40, 7.0, 0.5)])


def test_the_dice_table_has_the_spread_over_groups_and_the_trivial_predictor() -> None:
    made = tables.validation_tables(validated("classes"))[0]
    row = dict(zip(made.head, made.rows[0], strict=True))
    assert row["step 40"] == "liver"
    assert row["Dice, voxels pooled"] == "0.505"
    assert row["everything this class"] == "0.31"
    assert row["Dice, mean of groups"] == "0.46"
    assert (row["lowest"], row["median"], row["highest"]) == ("0.42", "0.46", "0.5")
    assert row["groups"] == "9"  # one has neither the class nor a prediction of it


def test_the_confusion_has_a_row_for_each_true_class() -> None:
    made = tables.validation_tables(validated("classes", classes={"0": "other", "1": "liver"}))[1]
    assert made.head == ("true class", "predicted other", "predicted liver", "voxels")
    assert made.rows == (
        ("other", "95.0 %", "5.0 %", "1,000"),
        ("liver", "10.0 %", "90.0 %", "200"),
    )


def test_the_table_of_affinities_has_base_rates_beside_the_scores() -> None:
    (made,) = tables.validation_tables(validated("affinities"))
    assert [row[0] for row in made.rows] == [f"affinity along {axis}" for axis in "zyx"]
    assert made.rows[0][1:5] == ("0.945", "0.88", "0.47", "0.12")
    assert len(made.head) == 7


def test_outputs_that_are_no_probabilities_have_an_explained_variance() -> None:
    (made,) = tables.validation_tables(validated("distance"))
    assert made.head[1:] == ("explained variance", "mean squared error")
    assert made.rows == (("distance", "0.5", "0.1"),)
    (made,) = tables.validation_tables(validated("lsd"))
    assert made.rows[3] == ("offset z", *["-"] * 6, "0.5", "0.1")


@pytest.mark.parametrize(
    ("task", "figures"),
    [
        ("classes", {"Dice of what was held out"}),
        ("affinities", {"Main score of the outputs"}),
        ("lsd", {"Main score of the outputs"}),
        ("distance", {"Main score of the outputs"}),
    ],
)
def test_every_task_shows_its_scores_and_settings(
    tmp_path: Path, task: str, figures: set[str]
) -> None:
    made = Page(report.write([make_unet_run(tmp_path / "run", task=task)]))
    assert made.images.keys() == {*figures, "Training curves"}
    assert made.row("Kernels (z, y, x)")[1] == "1, 3, 3; 3, 3, 3"
    assert made.row("Trained on")[1] == "sample2"
    assert made.row("Task")[1] == task


def test_the_throughput_of_every_run_is_inside_the_figure(
    study: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {}

    def keep(drawn: Any, file_format: str, dpi: int = 110) -> str:
        limits.update({axis.get_title(loc="left"): axis.get_ylim() for axis in drawn.axes})
        return ""

    monkeypatch.setattr(style, "data_uri", keep)
    curves.training_figure([read_run(folder) for folder in study[:3]])
    low, high = limits["Throughput"]
    assert low == 0.0
    assert high > 37.0  # the fastest run's patches a second
