# SPDX-License-Identifier: Apache-2.0
"""The figure of runs whose ranks do not wait for each other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from report_runs import CONFIG, write_log

from floodtide.cli import run as command_line
from floodtide.lab import modes
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


def test_synchronous_runs_have_no_such_figure(
    synchronous: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "modes.svg"
    assert command_line(["lab", "modes", str(synchronous), "--out", str(picture)]) == 2
    assert "all runs are synchronous" in capsys.readouterr().err
    assert not picture.exists()


@pytest.mark.parametrize(("name", "start"), [("m.svg", b"<?xml"), ("m.png", b"\x89PNG")])
def test_the_picture_is_written(
    synchronous: Path, asynchronous: Path, tmp_path: Path, name: str, start: bytes
) -> None:
    runs = [str(synchronous), str(asynchronous)]
    assert command_line(["lab", "modes", *runs, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [modes.mode(read_run(Path(run))) for run in runs] == ["synchronous", "asynchronous"]


def test_a_name_of_another_kind_is_refused(
    asynchronous: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "modes.jpg")
    assert command_line(["lab", "modes", str(asynchronous), "--out", out]) == 2
    assert "ends in '.jpg', expected one of .png" in capsys.readouterr().err


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
