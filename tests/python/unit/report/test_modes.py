# SPDX-License-Identifier: Apache-2.0
"""The report's figure of runs whose ranks do not wait for each other."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from report_runs import CONFIG, write_log

from floodtide.cli import run as command_line
from floodtide.report import modes
from floodtide.train import read_run

pytestmark = pytest.mark.extra


def make_run(folder: Path, more: str = "") -> Path:
    """A run directory with a configuration, `more` at its end, and a log."""
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG.replace("FOLDER", str(folder)) + more)
    write_log(folder)
    return folder


@pytest.fixture
def synchronous(tmp_path: Path) -> Path:
    return make_run(tmp_path / "together")


@pytest.fixture
def asynchronous(tmp_path: Path) -> Path:
    folder = make_run(tmp_path / "apart", '[comm]\nmode = "asynchronous"\n')
    path = folder / "log.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**r, "staleness": 3.0}) + "\n" for r in records))
    return folder


def test_synchronous_runs_have_no_such_figure(synchronous: Path) -> None:
    assert modes.modes_figure([read_run(synchronous)]) is None


def test_figure_names_runs_and_modes(synchronous: Path, asynchronous: Path) -> None:
    figure = modes.modes_figure([read_run(synchronous), read_run(asynchronous)])
    assert figure is not None
    assert b"<svg" in base64.b64decode(figure.partition(",")[2])[:400]
    assert [modes.mode(read_run(run)) for run in (synchronous, asynchronous)] == [
        "synchronous",
        "asynchronous",
    ]


def test_the_curves_come_as_files_too(
    synchronous: Path, asynchronous: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "figures" / "here"
    arguments = ["report", str(synchronous), str(asynchronous), "--figures", str(folder)]
    assert command_line(arguments) == 0
    assert {path.name for path in folder.iterdir()} == {
        "training.svg",
        "validation.svg",
        "modes.svg",
        "loss_by_time.svg",
        "validation_by_time.svg",
    }
    assert b"<svg" in (folder / "modes.svg").read_bytes()[:400]
    assert "Loss against updates and time, and staleness" in (
        synchronous / "report.html"
    ).read_text("utf-8")


@pytest.mark.parametrize("key", ["step", "time_s"])
def test_curves_are_those_of_the_log(asynchronous: Path, key: str) -> None:
    run = read_run(asynchronous)
    x, loss = modes.training(run, key)
    np.testing.assert_array_equal(x, [record[key] for record in run.train])
    assert loss[0] == run.train[0]["loss"]
    x, loss = modes.held_out(run, key)
    assert len(x) == len(loss) == len([record for record in run.validation if key in record])
    assert list(loss) == [
        record["first_pass"]["cross_entropy"] for record in run.validation if key in record
    ]
