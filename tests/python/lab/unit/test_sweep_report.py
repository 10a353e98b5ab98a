# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep: best rates and exponents of made-up trainings with known answers, and what is drawn."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_runs
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from floodtide.base.tasks import FloodTask
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.lab.study import cells, numbers, optimum, page, scores, targets
from floodtide.report import curves
from floodtide.report import page as report_page

pytestmark = pytest.mark.extra

RATES = [2.0**k for k in range(-12, -3)]
WALKERS = [1, 2, 4, 8, 16]
STEPS = range(50, 1001, 50)


def quality(step: int, walkers: int, rate: float, exponent: float, noise: float) -> float:
    """A score that is best at rate 2^-9 walkers^exponent and rises with the updates."""
    off = math.log2(rate) + 9 - exponent * math.log2(walkers)
    rise = 1.0 - math.exp(-step * (1.0 + math.log2(walkers)) / 400)
    return 0.4 + 0.4 * rise - 0.02 * off**2 + noise


def write_training(
    folder: Path,
    *,
    walkers: int,
    rate: float,
    seed: int,
    exponent: float = 0.5,
    spread: float = 0.003,
    optimizer: str = "adam",
    ranks: int = 1,
    steps: Any = STEPS,
    failure: str = "",
    **keys: Any,
) -> Path:
    """Write a run directory of a made-up training."""
    path = folder / f"{optimizer},lr={rate:g},walkers={walkers},ranks={ranks},seed={seed}"
    path.mkdir(parents=True)
    document = {
        "run": {"seed": seed, "dir": str(path)},
        "data": {"volumes": [{"name": "synthetic", "image": "a.h5:raw", "labels": "a.h5:labels"}]},
        "model": {"kind": "ffn", "depth": 3, "features": 8},
        "training": {"walkers": walkers, "accumulate": 1},
        "optimizer": {"name": optimizer, "lr": rate},
        "comm": {"bucket_mib": 0.25},
        **keys,
    }
    (path / "config.toml").write_text(tomli_w.dumps(document))
    draw = np.random.default_rng([seed, walkers, round(-1000 * math.log2(rate))])
    start = {"kind": "start", "step": 0, "ranks": ranks, "walkers": walkers, "threads": 1}
    records: list[dict[str, Any]] = [{**start, "unit": "fovs", "parameters": 9129, "time_s": 0.0}]
    for step in steps:
        score = quality(step, walkers, rate, exponent, float(draw.normal(0, spread)))
        trained = report_runs.training_record(step, 0.5) | {
            "fovs": 50 * walkers,
            "examples": 20 * walkers,
            "compute_s": 0.3 * walkers / ranks,
            "update_s": 0.001,
            "fovs_per_s": 160.0 * ranks,
        }
        validated = report_runs.validation_record(step, score)
        validated["first_pass"] |= {
            "average_precision": score,
            "accuracy_50": score,
            "precision_50": score,
            "recall_50": score,
        }
        records += [trained, validated]
    (path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if failure:
        (path / "failure-rank-0.json").write_text(json.dumps({"reason": failure}))
    return path


def write_sweep(folder: Path, **options: Any) -> Path:
    for walkers in WALKERS:
        for rate in RATES:
            for seed in range(3):
                write_training(folder, walkers=walkers, rate=rate, seed=seed, **options)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Adam with exponent 1/2, momentum with 1, and two real ranks."""
    path = tmp_path_factory.mktemp("study") / "sweep"
    write_sweep(path)
    write_sweep(path, optimizer="momentum", exponent=1.0)
    write_training(path, walkers=2, rate=RATES[3], seed=0, ranks=2)
    return path


@pytest.fixture(scope="module")
def results(folder: Path) -> page.Results:
    return page.evaluate(cells.read_study([folder]))


def test_lines_are_what_differs_beside_walkers_rate_and_seed(results: page.Results) -> None:
    assert [line.label for line in results.study.lines] == ["adam", "momentum"]
    assert results.study.lines[0].walkers == tuple(WALKERS)
    assert results.study.lines[0].rates == tuple(RATES)
    cell = results.study.lines[0].cell(2, RATES[3])
    assert [one.seed for one in cell] == [0, 1, 2]
    assert [one.run.ranks for one in cell] == [2, 1, 1]  # real ranks instead of emulated ones


@pytest.mark.parametrize(
    ("index", "exponent", "name"), [(0, 0.5, "square root"), (1, 1.0, "linear")]
)
def test_the_exponent_is_found(
    results: page.Results, index: int, exponent: float, name: str
) -> None:
    found = results.found[index]
    for best in found.best:
        assert best.seeds == 3
        assert best.low <= best.rate <= best.high
        assert abs(math.log2(best.rate) + 9 - exponent * math.log2(best.walkers)) < 0.3
    whole = found.growth[0]
    for fit in (whole.weighted, whole.equal):
        assert fit
        assert fit.alpha == pytest.approx(exponent, abs=0.1)
        assert fit.low <= exponent <= fit.high
    assert whole.verdict == name
    assert found.crossover
    assert found.crossover.residuals > 1  # one exponent fits better than a law with a knee
    assert found.crossover.power_law > 0.5


@pytest.mark.parametrize("failing", [0.0, 0.5])
@pytest.mark.parametrize("spread", [0.003, 0.01])
def test_intervals_hold_the_truth_as_often_as_they_say(spread: float, failing: float) -> None:
    """`failing`: how often a seed fails at a rate that is more than 1.4 times the best one. Its cell has no mean."""
    draw = np.random.default_rng(1)
    logs, x = np.log2(np.array(RATES)), np.log2(np.array(WALKERS))
    rate_hits = weighted_hits = equal_hits = 0
    for _ in range(100):
        best = draw.uniform(-9.5, -8.5) + 0.5 * x
        seeds = draw.normal(0, 0.03, 3)  # some initial weights are better than others, at all rates
        table = [
            [
                np.zeros(0)
                if rate > one + 0.5 and (draw.random(3) < failing).any()
                else 0.8 - 0.02 * (rate - one) ** 2 + seeds + draw.normal(0, spread, 3)
                for one in best
            ]
            for rate in logs
        ]
        samples = optimum.bootstrap_means(table)
        found = np.stack(
            [optimum.vertex(logs, samples[:, :, c], draw) for c in range(len(x))], axis=1
        )
        low, high = np.percentile(found[:, 2], (2.5, 97.5))
        rate_hits += low <= best[2] <= high
        for weights in (1 / (found.var(axis=0) + 0.01), np.ones(len(x))):
            low, high = np.percentile(optimum.slopes(x, found, weights), (2.5, 97.5))
            if weights[0] == 1:
                equal_hits += low <= 0.5 <= high
            else:
                weighted_hits += low <= 0.5 <= high
    assert min(rate_hits, weighted_hits, equal_hits) >= 85


def test_a_failed_neighbour_does_not_move_the_best_rate() -> None:
    """It says that the optimum is below, and no more: neither how far, nor how low its own score would be."""
    logs = np.arange(5.0)
    values = np.array([[0.5, 0.7, 0.8, np.nan, np.nan]])
    assert optimum.vertex(logs, values)[0] == 2.0
    drawn = optimum.vertex(logs, np.repeat(values, 2000, axis=0), np.random.default_rng(0))
    assert 1.5 <= drawn.min() < 1.51
    assert 2.49 < drawn.max() <= 2.5
    assert drawn.mean() == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.4, 0.6, "square root"),
        (0.9, 1.2, "linear"),
        (-0.1, 0.2, "no growth"),
        (-0.2, 0.41, "cannot tell: less than square root"),
        (0.3, 1.1, "cannot tell: more than no growth"),
        (-0.7, 0.8, "cannot tell: less than linear"),
        (-1.0, 2.0, "cannot tell: anything"),
        (0.1, 0.4, "between no growth and square root"),
        (-0.4, -0.1, "less than no growth"),
    ],
)
def test_what_an_interval_says(low: float, high: float, says: str) -> None:
    assert optimum.verdict_of(low, high) == says


def test_a_best_cell_at_the_edge_is_no_optimum(tmp_path: Path) -> None:
    for walkers in WALKERS:
        for rate in RATES[:4]:  # the optimum of one walker is RATES[3]
            for seed in range(3):
                write_training(tmp_path, walkers=walkers, rate=rate, seed=seed, exponent=1.0)
    found = page.evaluate(cells.read_study([tmp_path])).found[0]
    assert [best.at_edge for best in found.best] == ["highest"] * len(WALKERS)
    assert found.growth[0].weighted is None
    assert "cannot tell" in found.growth[0].verdict
    assert found.crossover is None


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    for walkers in WALKERS:
        for rate in RATES:
            write_training(tmp_path, walkers=walkers, rate=rate, seed=0)
    found = page.evaluate(cells.read_study([tmp_path])).found[0]
    assert math.isnan(found.best[0].low)
    assert found.growth[0].equal
    assert found.growth[0].equal.alpha == pytest.approx(0.5, abs=0.1)
    assert math.isnan(found.growth[0].equal.low)
    assert found.growth[0].verdict == "cannot tell: one seed"
    assert found.crossover is None


def test_the_knee_of_the_noise_scale_is_found(tmp_path: Path) -> None:
    for walkers in [1, 2, 4, 8, 16, 32, 64]:
        factor = (1 + 8) / (1 + 8 / walkers)  # a knee at 8 walkers
        exponent = math.log2(factor) / math.log2(walkers) if walkers > 1 else 0.0
        for rate in RATES:
            for seed in range(3):
                write_training(
                    tmp_path, walkers=walkers, rate=rate, seed=seed, exponent=exponent, spread=1e-3
                )
    found = page.evaluate(cells.read_study([tmp_path])).found[0]
    assert found.crossover
    assert found.crossover.low <= 8 <= found.crossover.high
    assert found.crossover.knee == pytest.approx(8, rel=0.5)
    assert found.crossover.residuals < 0.5
    assert found.crossover.power_law < 0.1


def test_seeds_of_one_rate_only_do_not_count(tmp_path: Path) -> None:
    """They may be better or worse than those of the other rates, as initial weights are."""
    for seed in range(3):
        for rate in RATES[:4]:
            write_training(tmp_path, walkers=1, rate=rate, seed=seed)
    write_training(tmp_path, walkers=1, rate=RATES[1], seed=100)
    line = cells.read_study([tmp_path]).lines[0]
    assert [[one.seed for one in line.cell(1, rate)] for rate in RATES[:4]] == [[0, 1, 2]] * 4


def test_runs_of_older_versions_are_no_line_of_their_own(tmp_path: Path) -> None:
    """Their configuration lacks newer keys, which have their defaults."""
    write_training(tmp_path, walkers=1, rate=RATES[0], seed=0)
    write_training(tmp_path, walkers=1, rate=RATES[1], seed=0, validation={"give_up_after": 0})
    write_training(tmp_path, walkers=1, rate=RATES[2], seed=0, validation={"give_up_after": 100})
    study = cells.read_study([tmp_path])
    assert sorted(len(line.trainings) for line in study.lines) == [1, 2]


def test_cells_with_a_lost_training_have_no_score(tmp_path: Path) -> None:
    for seed in range(3):
        for rate in RATES[:3]:
            write_training(tmp_path, walkers=1, rate=rate, seed=seed)
    write_training(tmp_path, walkers=1, rate=RATES[3], seed=0)
    write_training(
        tmp_path, walkers=1, rate=RATES[3], seed=1, steps=[50], failure="train: the loss is nan"
    )
    write_training(tmp_path, walkers=1, rate=RATES[4], seed=0, steps=[50, 100])
    line = cells.read_study([tmp_path]).lines[0]
    score = scores.scores_of(FloodTask)[0]
    values = line.values(score, line.step)
    assert [row[0].size for row in values] == [3, 3, 3, 0, 0]
    assert line.cell(1, RATES[3])[1].diverged
    assert [line.ended(1, rate) for rate in RATES[:6]] == [True, True, True, True, False, False]
    best = page.evaluate(cells.read_study([tmp_path])).found[0].best[0]
    assert (best.cell, best.at_edge) == (RATES[2], "")  # the cell above it diverged
    figures = tmp_path / "figures"
    page.write([tmp_path], page.Options(figures=figures))
    rows = list(csv.DictReader((figures / "trainings.csv").read_text().splitlines()))
    assert sorted({row["state"] for row in rows}) == ["diverged", "finished", "unfinished"]


def test_updates_to_a_target(results: page.Results) -> None:
    line = results.study.lines[0]
    assert len(results.targets) == 2
    low = [row for row in results.reached[line] if row.target == results.targets[0]]
    assert [row.walkers for row in low] == WALKERS
    assert low[0].mean > low[-1].mean
    assert (low[0].ratio, low[0].low, low[0].high) == (1, 1, 1)
    assert all(row.low <= row.ratio <= row.high < 1 for row in low[1:])
    one = line.cell(1, low[0].rate)[0]
    steps, values = scores.series(results.score, one.run.validation)
    reached = targets.updates_to(one, results.score, low[0].target)
    assert reached == low[0].updates[0]
    index = int(np.argmax(targets.rising(values) >= low[0].target))
    assert (steps[index - 1] if index else 0) <= reached <= steps[index]
    assert reached < 0.9 * steps[-1]  # the target lies below the end of one walker's curve
    assert targets.updates_to(one, results.score, 2.0) == math.inf


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=30))
def test_the_rising_fit_is_that_of_isotonic_regression(values: list[float]) -> None:
    found = targets.rising(np.array(values))
    np.testing.assert_allclose(found, isotonic_regression(values).x, atol=1e-9)


def test_a_lucky_validation_is_no_arrival() -> None:
    values = np.array([0.5, 0.9, 0.5, 0.6, 0.7, 0.8, 0.8])
    assert targets.rising(values)[1] == pytest.approx(2.0 / 3)


def test_ratios_of_updates_hold_the_truth_as_often_as_they_say() -> None:
    draw, hits = np.random.default_rng(2), 0
    for _ in range(100):
        # Eight walkers need a fifth of one walker's updates at the best of five rates.
        logs = {
            n: [
                math.log(1000) - share + 0.1 * off**2 + draw.normal(0, 0.2, 3)
                for off in range(-2, 3)
            ]
            for n, share in ((1, 0.0), (8, math.log(5)))
        }
        drawn = targets.drawn_least(logs)
        low, high = np.percentile(drawn[8] - drawn[1], (2.5, 97.5))
        hits += low <= -math.log(5) <= high
    assert hits >= 85


def test_a_table_of_scores_gives_the_same_study(results: page.Results, tmp_path: Path) -> None:
    table = tmp_path / "curves.csv"
    table.write_bytes(numbers.curves_csv(results.study, results.scores))
    again = page.evaluate(cells.read_study([table]))
    assert numbers.best_table(again.found) == numbers.best_table(results.found)
    assert numbers.growth_table(again.found) == numbers.growth_table(results.found)
    for line, same in zip(results.reached, again.reached, strict=True):
        for one, other in zip(results.reached[line], again.reached[same], strict=True):
            assert (one.walkers, one.rate) == (other.walkers, other.rate)
            assert one.updates == pytest.approx(other.updates, rel=1e-3)
    page.write([table], page.Options(out=tmp_path / "report.html"))
    table.write_text(table.read_text().replace("trivial", "rival", 1))
    with pytest.raises(InvalidFileError, match=r"KeyError 'trivial'; expected curves.csv"):
        cells.read_study([table])


def test_modes_count_the_examples_of_an_update(tmp_path: Path) -> None:
    """Mode partial: an update has the gradients of three quarters of the walkers."""
    for walkers in (4, 16):
        for mode, contributors in (("synchronous", 0), ("partial", 3 * walkers // 4)):
            comm = {"bucket_mib": 0.25, "mode": mode, "contributors": contributors}
            for rate in RATES[2:6]:
                folder = tmp_path / f"{mode}{walkers}"
                write_training(folder, walkers=walkers, rate=rate, seed=0, ranks=walkers, comm=comm)
    write_training(tmp_path / "one", walkers=1, rate=RATES[3], seed=0, comm={"bucket_mib": 0.25})
    study = cells.read_study(sorted(tmp_path.iterdir()))
    by_mode = {line.label.split()[2].strip(","): line for line in study.lines if line.is_grid}
    partial = by_mode["partial"]
    assert partial.walkers == (4, 16)
    assert partial.share == 0.75
    assert partial.label == "adam, mode partial, contributors 0.75 of the ranks"
    assert by_mode["synchronous"].label == "adam, mode synchronous"
    assert [by_mode[mode].examples(16) for mode in ("synchronous", "partial")] == [16, 12]


@settings(max_examples=200, deadline=None)
@given(
    centre=st.floats(-8.0, 8.0),
    curvature=st.floats(0.01, 10.0),
    first=st.integers(-10, 0),
    count=st.integers(3, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_vertex_of_a_parabola(
    centre: float, curvature: float, first: int, count: int, seed: int
) -> None:
    gaps = np.random.default_rng(seed).uniform(0.5, 2.0, count)
    logs = first + np.cumsum(gaps)
    values = -curvature * (logs - centre) ** 2
    found = float(optimum.vertex(logs, values[None])[0])
    best = int(values.argmax())
    if best in (0, count - 1):
        assert found == logs[best]
        return
    low, high = (logs[best - 1] + logs[best]) / 2, (logs[best] + logs[best + 1]) / 2
    assert found == pytest.approx(min(max(centre, low), high), abs=1e-6)


def test_smoothing_is_that_of_tensorboard() -> None:
    values = np.array([0.0, 1.0, 2.0])
    expected = [0.0, 1.0 * 0.1 / 0.19, (0.1 * 0.9 * 1.0 + 0.1 * 2.0) / 0.271]
    np.testing.assert_allclose(curves.smoothed(values, scores.SMOOTHING), expected)


def test_the_command_draws_everything(folder: Path, tmp_path: Path) -> None:
    figures, out = tmp_path / "figures", tmp_path / "report.html"
    command = [sys.executable, "-m", "floodtide", "lab", "study", str(folder), "--out", str(out)]
    started = time.monotonic()
    result = subprocess.run(
        [*command, "--figures", str(figures)], capture_output=True, text=True, check=True
    )
    assert time.monotonic() - started < 60
    assert result.stdout.strip() == str(out)
    names = {path.name for path in figures.iterdir()}
    for name in ("rate_by_walkers", "updates_to_score"):
        assert {f"{name}.svg", f"{name}.png"} <= names
    for name in (
        "trainings",
        "best_rates",
        "exponents",
        "crossover",
        "curves",
        "updates_to_score",
        "settings",
    ):
        assert f"{name}.csv" in names
    text = out.read_text()
    assert text.count("data:image/svg+xml") == 2
    assert "square root" in text
    (figures / "trainings.csv").write_text("my own table")
    again = subprocess.run(
        [*command, "--figures", str(figures)], capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert "trainings.csv" in again.stderr


def test_a_table_of_an_older_report_is_replaced(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    for content in (b"line,walkers\nadam,1\n", b"line,walkers\nadam,2\n"):
        report_page.write_all({table: content})
    assert table.read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score", "beauty"], "score 'beauty', expected one of average_precision, accuracy"),
        (["--target", "high"], "'high', expected N[,N...], each 0 to 1"),
        (["--target", "0.9,0.8"], "LOW or LOW,HIGH"),
        (["--target", "0.7,0.8,0.9"], "LOW or LOW,HIGH"),
    ],
)
def test_bad_options_are_refused(folder: Path, arguments: list[str], message: str) -> None:
    command = [sys.executable, "-m", "floodtide", "lab", "study", str(folder), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 4
    assert not (folder / "report.html").exists()


def test_sweeps_without_scores_are_refused(tmp_path: Path) -> None:
    write_training(tmp_path, walkers=1, rate=0.1, seed=0, steps=[])
    with pytest.raises(InvalidFileError, match="no training was validated"):
        cells.read_study([tmp_path])
    write_training(tmp_path, walkers=1, rate=0.1, seed=1)
    study = cells.read_study([tmp_path])
    with pytest.raises(InvalidArgumentError, match="expected one of"):
        page.evaluate(study, "beauty")
