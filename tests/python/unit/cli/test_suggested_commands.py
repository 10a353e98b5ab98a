# SPDX-License-Identifier: Apache-2.0
"""Commands that floodtide suggests can be pasted into a shell, whatever the names of files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import tomli_w
import training_volume

from floodtide import cli, errors
from floodtide.plan import segmenting
from floodtide.view import viewer

NAME = "it's  my volume; $HOME"


def suggested(text: str) -> list[str]:
    found = re.search(r"(floodtide .*?)(`|$)", text.strip().splitlines()[-1])
    assert found is not None
    return shlex.split(found[1])


def test_the_report_of_a_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training_volume.write_volume(tmp_path)
    run = {"dir": str(tmp_path / NAME)}
    document = training_volume.document(tmp_path, run=run, training={"steps": 1})
    (tmp_path / "train.toml").write_text(tomli_w.dumps(document))

    assert cli.run(["train", str(tmp_path / "train.toml")]) == 0

    said = capsys.readouterr().err.partition("Next: ")[2]
    # `run.dir` expands variables, so that the name is the one on the disk.
    assert suggested(said)[:2] == ["floodtide", "report"]
    assert Path(suggested(said)[2]).is_dir()


def test_the_training_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["lab", "synth", "v.h5", "--shape", "48,48,48"]) == 0
    volumes = ["v.h5:raw", "--labels", "v.h5:labels", "--voxel-nm", "8,8,8"]
    assert cli.run(["init", *volumes, "--minutes", "1", "--out", f"{NAME}.toml"]) == 0

    said = capsys.readouterr().out.partition("Next: ")[2]
    assert suggested(said) == ["floodtide", "train", f"{NAME}.toml"]


def test_the_command_that_resamples(capsys: pytest.CaptureFixture[str]) -> None:
    network = SimpleNamespace(name="fib25")
    image = SimpleNamespace(name=f"{NAME}.tif")
    setting = SimpleNamespace(
        voxel_size_nm=(40, 4, 4), wanted_nm=(8, 8, 8), network=network, image=image
    )
    with pytest.raises(errors.InvalidArgumentError) as caught:
        segmenting.require_same_voxels(setting)

    words = suggested(cli._one_line(str(caught.value)).partition("with `")[2])
    assert words[:4] == ["floodtide", "convert", f"{NAME}.tif", "resampled.zarr"]


def test_no_message_has_a_name_without_quotes() -> None:
    package = Path(cli.__file__).parents[1]
    command = re.compile(r"[`:] ?floodtide (train|report|convert|view) [^`\"]*\{(?!shlex)")
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for line in path.read_text().splitlines()
        if (match := command.search(line)) and "{sizes" not in match[0]
    ]
    assert found == []
    assert "shlex.quote(name)" in Path(viewer.__file__).read_text()
