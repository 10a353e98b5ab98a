# SPDX-License-Identifier: Apache-2.0
"""Pages and examples of lab are up to date: forecasts, sweeps and configurations."""

from __future__ import annotations

import csv
import runpy
import statistics
from pathlib import Path

import pytest

from floodtide import config
from floodtide.lab import sweep

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = ROOT / "examples/lab"
SWEEPS = [path for path in sorted(EXAMPLES.glob("study/*.toml")) if path.stem != "base"]


@pytest.mark.extra
def test_the_forecasts_are_what_the_model_says() -> None:
    """One table stands for all: the others take a minute (docs/lab/generate_scaling.py --check)."""
    made = runpy.run_path(str(ROOT / "docs/lab/generate_scaling.py"))
    page = (ROOT / "docs/lab/scaling.md").read_text("utf-8")
    assert made["efficiencies"](made["COMPUTE_S"]) in page


@pytest.mark.extra
@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_example_sweeps_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODTIDE_DATA", "/data")
    monkeypatch.chdir(ROOT)
    plan = sweep.load(path)
    assert plan.directory == Path("runs/study") / path.stem
    expected = "training_sample2" if path.stem in ("real", "large", "policies") else "synthetic"
    assert {cell.config.data.volumes[0].name for cell in plan.cells} == {expected}


def test_the_example_configuration_is_valid() -> None:
    loaded = config.load(EXAMPLES / "study/base.toml")
    assert [volume.name for volume in loaded.data.volumes] == ["synthetic"]


def test_the_study_of_workers_trains_on_halved_slices() -> None:
    loaded = config.load(EXAMPLES / "liver_walkers.toml")
    assert [volume.groups for volume in loaded.data.volumes] == ["train.h5:patient"]


def test_the_dices_of_32_walkers_are_those_of_the_trainings() -> None:
    with (EXAMPLES / "liver_walkers.csv").open() as file:
        rows = list(csv.DictReader(file))
    dices: dict[str, list[float]] = {}
    for row in rows:
        assert row["walkers"] == "32"
        if row["optimizer"] == "adam":
            dices.setdefault(row["rule"], []).append(float(row["dice"]))
    page = (ROOT / "docs/lab/many_walkers.md").read_text("utf-8")
    momentum = sorted(float(row["dice"]) for row in rows if row["optimizer"] == "momentum")
    cells = "**{:.3f}**, {:.3f}, {:.3f}".format(*momentum)  # the linear rule, in the second table
    assert page.splitlines().count(f"| linear | 0.916 | 0.923 | {cells} |") == 1
    for rule, values in dices.items():
        name = rule.replace("sqrt", "square root").replace("warmup", "warm-up").replace("_", ", ")
        (line,) = (
            line
            for line in page.splitlines()
            if line.startswith(f"| {name} | 0.92") and "(" in line
        )
        low, high = min(values), max(values)
        expected = f"| {statistics.fmean(values):.3f} ({low:.3f} to {high:.3f}) |"
        assert line.endswith(expected)
    best = dices.pop("sqrt_warmup_cosine")
    assert min(best) > max(max(values) for values in dices.values())


def test_the_times_to_an_f1_are_those_of_the_trainings() -> None:
    with (ROOT / "examples/fib25/time_to_f1.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (int(row["walkers"]), row["seed"]))
    page = (ROOT / "docs/real_em_training.md").read_text("utf-8")
    for walkers in (2, 8, 32):
        times = [float(row["time_s"]) for row in rows if row["walkers"] == str(walkers)]
        assert len(times) == 3
        alone = statistics.fmean(times) / walkers
        text = f"{alone:.0f}" if walkers == 2 else f"{alone:.1f}"
        assert f"| {walkers} | {', '.join(f'{one:.0f}' for one in times)} | {text} |" in page


def test_the_scores_of_the_folds_are_those_of_the_trainings() -> None:
    with (ROOT / "examples/fib25/folds.csv").open() as file:
        rows = {(row["answer"], row["part"]): row for row in csv.DictReader(file)}
    page = (ROOT / "docs/real_em_training.md").read_text("utf-8")

    def score(name: str, row: dict[str, str]) -> float:
        voi = (row["all_voi_split"], row["all_voi_merge"])
        names = {
            "error": (row["all_adapted_rand_error"],),
            "VOI": voi,
            "NERL": (row["run_length"],),
        }
        return sum(map(float, names[name]))

    of_runs = [("error", 3), ("VOI", 2), ("NERL", 3)]
    wanted = [(name, digits, "ffn_evening.toml", ["ffn-0", "ffn-1"]) for name, digits in of_runs]
    wanted += [(n, d, "best grey level", ["best grey level"]) for n, d in of_runs[:2]]
    wanted += [("error", 3, "everything one object", ["everything one object"])]
    for name, digits, title, answers in wanted:
        parts = ("z", "y", "zy", "gala_fib", "gala_fib, filled")
        cells = [[score(name, rows[one, part]) for one in answers] for part in parts]
        cells.insert(3, [statistics.median(fold) for fold in zip(*cells[:3], strict=True)])
        texts = (", ".join(f"{value:.{digits}f}" for value in cell) for cell in cells)
        assert f"| {name}, {title} | {' | '.join(texts)} |" in page
    inside = [
        statistics.median(score("error", rows[one, f"{part}, inside"]) for part in parts[:3])
        for one in ("ffn-0", "ffn-1", "best grey level")
    ]
    text = "median errors are {:.3f} and {:.3f} (best grey level {:.3f})".format(*inside)
    assert text in page
