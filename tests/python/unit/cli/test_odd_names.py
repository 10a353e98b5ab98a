# SPDX-License-Identifier: Apache-2.0
"""File names that are not UTF-8: networks are read, and other files are refused in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from floodtide import cli, nn

NAME = os.fsdecode(b"\xff\xfe")


def test_a_network_is_saved_and_read(tmp_path: Path) -> None:
    model = nn.FFN(depth=1, fov=(5, 5, 5), deltas=(1, 1, 1), features=2)
    model.save(tmp_path / NAME)
    loaded = nn.load(tmp_path / NAME)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert cli.run(["convert", str(tmp_path / NAME), str(tmp_path / "out.h5")]) == 0


@pytest.mark.parametrize(
    "line",
    [
        ["partition", f"{NAME}:labels", "out.h5:af"],
        ["evaluate", f"{NAME}:labels", "truth.h5:labels"],
        ["job", "slurm", "a.toml", "--nodes", "1", "--time", "01:00:00", "--out", NAME],
    ],
    ids=lambda line: line[0],
)
def test_other_files_are_refused(
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text("[model]\ndepth = 2\n")
    assert cli.run(line) == 2
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 1
    assert "is not valid UTF-8" in printed[0]
    assert os.listdir() == ["a.toml"]
