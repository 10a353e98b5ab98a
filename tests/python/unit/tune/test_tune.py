# SPDX-License-Identifier: Apache-2.0
"""`floodtide tune`: the settings, the search with known throughputs, the file, and the command on a tiny network."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import training_volume
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import _core, cli, config, tune
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.tune.search import EQUAL
from floodtide.tune.settings import OVERSUBSCRIPTION, Setting

pytestmark = pytest.mark.extra


@given(cores=st.integers(1, 48), batch=st.integers(1, 64))
def test_candidates_have_the_batch_and_fit_the_cores(cores: int, batch: int) -> None:
    found = tune.candidates(cores, batch)
    assert len(set(found)) == len(found)
    assert tune.default_setting(cores, batch) in found
    for one in found:
        assert one.batch == batch
        used = one.ranks * one.threads
        assert used == OVERSUBSCRIPTION * cores or cores % used == 0
        assert one.bind == "launcher" or used <= cores


@settings(max_examples=100, deadline=None)
@given(
    cores=st.integers(2, 16),
    seed=st.integers(0, 2**32 - 1),
    exhaustive=st.booleans(),
    rounds=st.integers(1, 4),
)
def test_the_search_finds_the_fastest(cores: int, seed: int, exhaustive: bool, rounds: int) -> None:
    draw = np.random.default_rng(seed)
    found = tune.candidates(cores, cores)
    pairs = sorted({(one.ranks, one.threads) for one in found})
    of_pair = dict(zip(pairs, draw.permutation(len(pairs)) + 1.0, strict=True))
    truth = {
        one: 100.0 * of_pair[one.ranks, one.threads] * (1.0 + 0.04 * draw.uniform())
        for one in found
    }
    default = tune.default_setting(cores, cores)
    seen: list[tuple[int, int]] = []
    measured: list[Setting] = []

    def measure(setting: Setting, rate: float) -> float:
        measured.append(setting)
        return truth[setting]

    choice = tune.search(
        found,
        default,
        measure,
        rounds=rounds,
        exhaustive=exhaustive,
        progress=lambda done, total: seen.append((done, total)),
    )
    best = max(truth.values())
    assert choice.fovs_per_s >= (1.0 - EQUAL) * best
    assert choice.fovs_per_s == truth[choice.setting]
    assert all(0 < done <= total for done, total in seen)
    assert seen[-1][0] == seen[-1][1] == len(measured) - 1
    if exhaustive:
        assert all(len(one.fovs_per_s) == rounds for one in choice.measurements)
        assert len(choice.measurements) == len(found)
    assert choice.default.setting == default


def test_equal_settings_give_the_default() -> None:
    found = tune.candidates(4, 4)
    default = tune.default_setting(4, 4)
    choice = tune.search(found, default, lambda setting, rate: 10.0, rounds=2)
    assert choice.setting == default
    assert "no other" in choice.reason


@pytest.fixture
def choice() -> tune.Choice:
    one = Setting(ranks=2, threads=1, walkers=1, bind="ranks", wait="active")
    default = tune.Measurement(tune.default_setting(2, 2), [100.0, 110.0])
    fast = tune.Measurement(one, [130.0, 120.0])
    return tune.Choice(setting=one, fovs_per_s=125.0, default=default, measurements=(fast, default))


def test_the_file_holds_the_choice(tmp_path: Path, choice: tune.Choice) -> None:
    path = tmp_path / "tuned.toml"
    tune.write_tuned(path, choice)
    found = tune.read_tuned(path)
    assert found.setting == choice.setting
    assert found.difference() == ""
    assert "1.14 times as fast" in found.reason
    assert found.environment["OMP_WAIT_POLICY"] == "active"
    base = tmp_path / "base.toml"
    base.write_text("")
    settings = config.load(base, found.overrides)
    assert (settings.run.threads, settings.run.bind, settings.run.parallel) == (1, "ranks", "fovs")
    tune.write_tuned(path, choice)  # an older choice is replaced
    path.write_text("[mine]\n")
    with pytest.raises(InvalidArgumentError, match=r"tuned\.toml"):
        tune.write_tuned(path, choice)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("ranks", 0, r"tuned\.ranks is 0"),
        ("threads", "two", r"tuned\.threads is 'two'"),
        ("walkers", 1.5, r"tuned\.walkers is 1\.5"),
        ("bind", "glue", r"tuned\.bind is 'glue'"),
        ("wait", "forever", r"tuned\.wait is 'forever'"),
        ("cores", None, r"tuned\.cores is missing"),
    ],
)
def test_a_wrong_file_is_refused(
    tmp_path: Path, choice: tune.Choice, key: str, value: object, message: str
) -> None:
    path = tmp_path / "tuned.toml"
    tune.write_tuned(path, choice)
    table = {
        **{"ranks": 2, "threads": 1, "walkers": 1, "bind": "ranks", "wait": "active"},
        **{"processor": "P", "cores": 2, "reason": "R"},
    }
    changed = {
        name: content for name, content in (table | {key: value}).items() if content is not None
    }
    path.write_text(tomli_w.dumps({"tuned": changed}))
    with pytest.raises(InvalidFileError, match=message):
        tune.read_tuned(path)


def program(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "floodtide", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_the_command_measures_writes_and_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    default = tune.default_setting(_core.available_cores(), 2)
    waiting = dataclasses.replace(default, wait="active")
    bound = Setting(
        ranks=2, threads=1, walkers=1, bind="ranks" if default.threads > 1 else "launcher"
    )
    monkeypatch.setattr(tune, "candidates", lambda cores, batch: [default, waiting, bound])
    monkeypatch.setattr("floodtide.cli.tune._FACTORS", (2,))
    monkeypatch.chdir(tmp_path)
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 3, "walkers": 2})
    (tmp_path / "base.toml").write_text(tomli_w.dumps(document))
    options = ("--seconds", "0.02", "--rounds", "1", "--exhaustive", "--json")
    assert cli.run(["tune", "base.toml", *options]) == 0
    *measured, larger = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["fovs_per_s"] > 0 for row in (*measured, larger))
    assert len(measured) == 3
    assert {row["ranks"] * row["walkers"] for row in measured} == {2}
    found = tune.read_tuned(tmp_path / "tuned.toml")
    assert larger["walkers"] == 2 * found.setting.walkers
    text = (tmp_path / "tuned.toml").read_text()
    one = text.replace(f"ranks = {found.setting.ranks}\n", "ranks = 1\n")
    (tmp_path / "one.toml").write_text(one.replace('wait = "active"', 'wait = "passive"'))
    shown = program(
        "train", "base.toml", "--tuned", "one.toml", folder=tmp_path, OMP_DISPLAY_ENV="true"
    )
    assert shown.returncode == 0, shown.stderr
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in shown.stderr
    trained = config.load(tmp_path / "run" / "config.toml")
    assert trained.run.threads == found.setting.threads
    with pytest.raises(InvalidFileError, match=r"no\.toml"):
        tune.read_tuned(tmp_path / "no.toml")


def test_other_networks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "unet.toml").write_text('[model]\nkind = "unet2d"\n')
    result = program("tune", "unet.toml", folder=tmp_path)
    assert result.returncode == 2
    assert "model.kind is 'unet2d', tune expects 'ffn'" in result.stderr
    assert not (tmp_path / "tuned.toml").exists()
