# SPDX-License-Identifier: Apache-2.0
"""The sentences of docs/lab/study.md about how best rates grow follow from the tables of that page."""

from __future__ import annotations

import csv
import re
import statistics
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from floodtide.lab.study import optimum

PAGE = Path(__file__).parents[4] / "docs" / "lab" / "study.md"


def best_rates(column: int, table: int) -> dict[int, float]:
    """Best rates by number of walkers, of the first (synthetic) or the second (real EM) table."""
    text = PAGE.read_text().split("| walkers | Adam: best rate (95 % interval) |")[table + 1]
    lines = takewhile(lambda line: line.startswith("|"), text.splitlines()[2:])
    rows = [line.split("|")[1:-1] for line in lines]
    return {int(row[0]): float(row[column].split()[0]) for row in rows}


def exponent(rates: dict[int, float]) -> str:
    logs = np.log2(np.array(list(rates.values())))
    slope = optimum.slopes(np.log2(np.array(list(rates))), logs[None], np.ones(len(rates)))
    return f"{slope[0]:.2f}"


def residuals(rates: dict[int, float], power: float = 1.0) -> str:
    """Return by which factor a power law fits better than the law from theory: a ratio of squared residuals.

    With `power` 0.5, the rates follow the square root of that law, as theory says for Adam.
    """
    logs = {n: float(np.log2(rate)) / power for n, rate in rates.items()}
    found = optimum.crossover_of(list(rates), logs, {n: np.full(2, v) for n, v in logs.items()})
    return f"{found.residuals:.1f}"


@pytest.mark.parametrize(
    ("column", "table", "first", "last", "row"),
    [
        (3, 0, 1, 64, "momentum, synthetic | 1 to 64 | {} | 0.62 (0.52 to 0.72, [too narrow]"),
        (3, 0, 1, 8, "momentum, synthetic | 1 to 8 | {} | 0.60 (0.38 to 1.11)"),
        (3, 1, 1, 32, "momentum, real EM | 1 to 32 | {} | 0.54 (0.28 to 0.76)"),
        (1, 0, 1, 64, "Adam, synthetic | 1 to 64 | {} | 0.23 (-0.10 to 0.33)"),
        (1, 0, 1, 8, "Adam, synthetic | 1 to 8 | {} | 0.39 (-0.67 to 0.81)"),
        (1, 0, 8, 64, "Adam, synthetic | 8 to 64 | {} | 0.09 (-0.27 to 0.46)"),
        (1, 1, 1, 32, "Adam, real EM | 1 to 32 | {} | 0.15 (-0.34 to 0.53)"),
    ],
)
def test_exponents_with_equal_weights(
    column: int, table: int, first: int, last: int, row: str
) -> None:
    rates = {n: rate for n, rate in best_rates(column, table).items() if first <= n <= last}
    assert max(rates) == last
    assert f"| {row.format(exponent(rates))}" in PAGE.read_text()


def test_momentum_without_the_number_of_walkers_in_question() -> None:
    rates = best_rates(3, 0)
    low, high = (exponent(rates | {32: rate}) for rate in (0.011, 0.023))
    del rates[32]
    sentence = f"exponents from {low} to {high}, or {exponent(rates)} without 32 walkers."
    assert sentence in PAGE.read_text()


def test_one_power_law_against_a_law_with_a_knee() -> None:
    """Theory for Adam: the square root of momentum's law."""
    rates = best_rates(3, 0)
    with_32 = residuals(rates)
    del rates[32]
    sentence = (
        f"squared residuals are {with_32} times smaller ({residuals(rates)} times without the uncertain rate "
        f"for 32 walkers). For Adam, both laws fit equally well (ratio {residuals(best_rates(1, 0), 0.5)})."
    )
    assert sentence in PAGE.read_text()


@pytest.mark.parametrize(
    ("column", "last", "row"),
    [
        (3, 8, "with momentum, from 1 to 8"),
        (3, 64, "with momentum, from 1 to 64"),
        (1, 64, "with Adam, from 1 to 64"),
    ],
)
def test_found_growth_is_a_quotient_with_the_interval_of_the_exponent(
    column: int, last: int, row: str
) -> None:
    text = PAGE.read_text()
    rates = best_rates(column, 0)
    optimizer = {1: "Adam", 3: "momentum"}[column]
    exponents = text.split(f"| {optimizer}, synthetic | 1 to {last} |")[1].partition("\n")[0]
    low, high = map(float, re.findall(r"\((-?[\d.]+) to ([\d.]+)", exponents)[0])
    cell = text.split(f"| best rate {row} walkers |")[1].split("|")[1]
    found = [float(number) for number in re.findall(r"[\d.]+", cell)]
    assert found == pytest.approx(
        [rates[last] / rates[1], last**low, last**high], rel=0.08
    )  # rounded


def test_the_range_of_the_prediction() -> None:
    """For noise scales of 35, 17 and 60 fields of view: 1 / (1 + noise / walkers)."""
    text = PAGE.read_text()

    def growth(noise: float, walkers: int) -> float:
        return (1 + noise) / (1 + noise / walkers)

    for walkers in (8, 64):
        mean, low, high = (growth(noise, walkers) for noise in (35, 17, 60))
        name = f"best rate with momentum, from 1 to {walkers} walkers | x {mean:.2g} ({low:.2g} to {high:.2g})"
        assert name in text
    mean, low, high = (growth(noise, 64) ** 0.5 for noise in (35, 17, 60))
    assert (
        f"best rate with Adam, from 1 to 64 walkers | x {mean:.2g} ({low:.2g} to {high:.2g})"
        in text
    )
    mean, high, low = (100 / growth(noise, 64) for noise in (35, 17, 60))
    assert f"{mean:.1f} % ({low:.1f} to {high:.1f} %)" in text


def test_the_table_of_rules_is_that_of_the_trainings() -> None:
    """Means of the last three validations, of the means over three seeds in examples/lab/study/policies.csv."""
    with (PAGE.parents[2] / "examples/lab/study/policies.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["seeds"] for row in rows} == {"3"}
    section = PAGE.read_text("utf-8").split("## Rules on real EM")[1].partition("## ")[0]
    for walkers in ("4", "16", "64"):
        cells = [walkers]
        for rule in ("none", "auto", "sqrt", "paper", "linear"):
            mine = [row for row in rows if row["walkers"] == walkers]
            f1 = [float(row["f1"]) for row in mine if f"scale {rule}," in row["line"]]
            cells.append(f"{statistics.mean(f1[-3:]):.2f}" if f1 else "as linear")
        assert f"| {' | '.join(cells)} |" in section


def test_which_predictions_about_rules_were_right() -> None:
    """The predictions of examples/lab/study/policies.toml, against the table of rules."""
    section = PAGE.read_text("utf-8").split("## Rules on real EM")[1].partition("\n## ")[0]
    four, sixteen, sixty_four = (
        [float(cell) if "." in cell else None for cell in line.split("|")[2:-1]]
        for line in section.splitlines()
        if re.match(r"\| (4|16|64) \| [\d.]+ \|", line)
    )
    right = [
        np.ptp(four[:3]) <= 0.01 and four[4] >= min(four[:3]) - 0.02,
        min(sixteen[1:3]) >= sixteen[0],
        sixteen[4] <= max(sixteen[:3]) - 0.03,
        sixty_four[1] == max(sixty_four),
        sixty_four[2] >= sixty_four[1] - 0.02,
        max(sixty_four[3:]) <= max(sixty_four[:3]) - 0.05,
    ]
    said = re.findall(r"^\| (?:4|16|64) \| [^|\d][^|]* \| (yes|no) \|$", section, re.MULTILINE)
    assert said == ["yes" if one else "no" for one in right]


def test_adam_and_momentum_among_the_optimizers() -> None:
    """The best tried rates and their mean scores in examples/lab/study/optimizers.csv."""
    scores: dict[tuple[str, str], dict[float, list[float]]] = {}
    with (PAGE.parents[2] / "examples/lab/study/optimizers.csv").open() as file:
        for row in csv.DictReader(file):
            rates = scores.setdefault((row["optimizer"], row["walkers"]), {})
            rates.setdefault(float(row["rate"]), []).append(float(row["average_precision"]))
    section = PAGE.read_text("utf-8").split("## Optimizers")[1].partition("\n## ")[0]
    best = {
        cell: max(rates, key=lambda r: statistics.mean(rates[r])) for cell, rates in scores.items()
    }
    for walkers in ("1", "16"):
        adam, momentum = (
            statistics.mean(scores[name, walkers][best[name, walkers]])
            for name in ("adam", "momentum")
        )
        assert f"(Adam {adam:.3f}, momentum {momentum:.3f}" in section
    for name, title in (("adam", "Adam"), ("momentum", "momentum")):
        assert f"| {title} | {best[name, '1']:g} | {best[name, '16']:g} |" in section
