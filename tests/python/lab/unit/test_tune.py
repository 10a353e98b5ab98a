# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab tune`: the settings, the search with known throughputs, and the command on a tiny network."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import training_volume
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import _core, cli, config
from floodtide.lab.tune import search
from floodtide.lab.tune.search import EQUAL
from floodtide.lab.tune.settings import (
    OVERSUBSCRIPTION,
    Setting,
    candidates,
    default_setting,
)

pytestmark = pytest.mark.extra


@given(cores=st.integers(1, 48), batch=st.integers(1, 64))
def test_candidates_have_the_batch_and_fit_the_cores(cores: int, batch: int) -> None:
    found = candidates(cores, batch)
    assert len(set(found)) == len(found)
    assert default_setting(cores, batch) in found
    for one in found:
        assert one.batch == batch
        used = one.ranks * one.threads
        assert used == OVERSUBSCRIPTION * cores or cores % used == 0


@settings(max_examples=100, deadline=None)
@given(
    cores=st.integers(2, 16),
    seed=st.integers(0, 2**32 - 1),
    exhaustive=st.booleans(),
    rounds=st.integers(1, 4),
)
def test_the_search_finds_the_fastest(cores: int, seed: int, exhaustive: bool, rounds: int) -> None:
    draw = np.random.default_rng(seed)
    found = candidates(cores, cores)
    pairs = sorted({(one.ranks, one.threads) for one in found})
    of_pair = dict(zip(pairs, draw.permutation(len(pairs)) + 1.0, strict=True))
    truth = {
        one: 100.0 * of_pair[one.ranks, one.threads] * (1.0 + 0.04 * draw.uniform())
        for one in found
    }
    default = default_setting(cores, cores)
    seen: list[tuple[int, int]] = []
    measured: list[Setting] = []

    def measure(setting: Setting, rate: float) -> float:
        measured.append(setting)
        return truth[setting]

    choice = search.search(
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
    found = candidates(4, 4)
    default = default_setting(4, 4)
    choice = search.search(found, default, lambda setting, rate: 10.0, rounds=2)
    assert choice.setting == default
    assert "no other" in choice.reason


def test_the_command_trains_under_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Setting(ranks=2, threads=1, walkers=1, wait="active")
    words = shlex.split(one.command("my base.toml"))
    place = words.index("floodtide")
    assert words[:place] == [
        *("OMP_WAIT_POLICY=active", "KMP_BLOCKTIME=infinite"),
        *("mpiexec", "-n", "2"),
    ]
    assert words[place:][:3] == ["floodtide", "train", "my base.toml"]
    assert "mpiexec" not in dataclasses.replace(one, ranks=1).command("base.toml")
    base = tmp_path / "base.toml"
    base.write_text("")
    settings = config.load(base, words[place + 4 :: 2])
    assert (settings.run.threads, settings.run.parallel) == (1, "fovs")


def test_the_command_measures_and_says_how_to_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    default = default_setting(_core.available_cores(), 2)
    waiting = dataclasses.replace(default, wait="active")
    several = Setting(ranks=2, threads=1, walkers=1)
    monkeypatch.setattr(search, "candidates", lambda cores, batch: [default, waiting, several])
    monkeypatch.setattr(search, "_FACTORS", (2,))
    monkeypatch.chdir(tmp_path)
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 3, "walkers": 2})
    (tmp_path / "base.toml").write_text(tomli_w.dumps(document))
    command = ["lab", "tune", "base.toml", "--seconds", "0.02", "--rounds", "1", "--exhaustive"]
    assert cli.run([*command, "--json"]) == 0
    *measured, larger = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["fovs_per_s"] > 0 for row in (*measured, larger))
    assert len(measured) == 3
    assert {row["ranks"] * row["walkers"] for row in measured} == {2}
    assert larger["walkers"] in (2, 4)
    assert cli.run(command) == 0
    *_, why, how = capsys.readouterr().out.splitlines()
    assert "wait" in why
    assert "floodtide train base.toml --set run.threads=" in how


def test_other_networks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "unet.toml").write_text('[task]\nkind = "classes"\n[model]\nkind = "unet"\n')
    command = [sys.executable, "-m", "floodtide", "lab", "tune", "unet.toml"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "model.kind is 'unet', tune expects 'ffn'" in result.stderr
