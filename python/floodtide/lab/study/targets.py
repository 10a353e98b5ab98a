# SPDX-License-Identifier: Apache-2.0
"""Training steps and examples that a number of walkers needs to reach a score, at its best rate (Shallue et al. 2019).

A score reaches a target where its rising fit does: the closest curve that never falls (isotonic regression). A single
lucky validation does not count then, and the fit does not lag behind the score as a moving average does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from floodtide.lab.study.cells import Line, Training
from floodtide.lab.study.scores import Floats, Score, series

_GRID = 1000  # targets that are chosen here are multiples of a thousandth
_SHARE = 0.9  # of the way from the trivial predictor to the score that is reached: there, the curve still rises
_SAMPLES = 2000
_SEED = 0
_INTERVAL = (2.5, 97.5)  # percentiles


@dataclass(frozen=True, kw_only=True)
class Reached:
    """How a number of walkers reaches a score.

    Attributes:
        walkers: Number of walkers.
        target: The score.
        rate: Base rate with the fewest training steps, among those with which all seeds reach the score.
        updates: Training steps until then, for each seed.
        examples_per_update: Examples whose gradients make a training step.
        at_edge: True if the rate is at an end of the rates of this number of walkers.
        ratio: Training steps divided by those of the fewest walkers that reach the score.
        low, high: 95 % interval of `ratio`, with the choice of the rate; NaN with one seed.
    """

    walkers: int
    target: float
    rate: float
    updates: tuple[float, ...]
    examples_per_update: int
    at_edge: bool
    ratio: float
    low: float
    high: float

    @property
    def mean(self) -> float:
        """Geometric mean of the training steps over seeds."""
        return float(np.exp(np.mean(np.log(self.updates))))

    @property
    def deviation(self) -> float:
        """Standard deviation of the number of training steps over seeds; 0 for one seed."""
        return float(np.std(self.updates, ddof=1)) if len(self.updates) > 1 else 0.0


def rising(values: Floats) -> Floats:
    """Return the curve (n,) that never falls and has the least squared distance from values (n,)."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    lengths = index[None, :] - index[:, None] + 1  # from row to column
    means = np.full(lengths.shape, np.inf)
    np.divide(sums[None, 1:] - sums[:-1, None], lengths, out=means, where=lengths > 0)
    least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]  # over all ends from a column on
    least[lengths <= 0] = -np.inf
    result: Floats = least.max(axis=0)
    return result


def updates_to(training: Training, score: Score, target: float) -> float:
    """Return the training step at which the rising fit of a score reaches a target; inf if it does not.

    Between validations it is interpolated.
    """
    steps, values = series(score, training.run.validation)
    values = rising(values)
    reached = np.flatnonzero(values >= target)
    if not reached.size:
        return math.inf
    index = int(reached[0])
    if index == 0:
        return float(steps[0])
    share = (target - values[index - 1]) / (values[index] - values[index - 1])
    return float(steps[index - 1] + share * (steps[index] - steps[index - 1]))


def reached(line: Line, score: Score, target: float) -> list[Reached]:
    """Return how each number of walkers reaches a score. Numbers of walkers that do not reach it are left out."""
    updates: dict[int, dict[float, Floats]] = {}
    for walkers in line.walkers:
        for rate in line.rates:
            cell = [updates_to(one, score, target) for one in line.cell(walkers, rate)]
            if cell and all(map(math.isfinite, cell)):
                updates.setdefault(walkers, {})[rate] = np.array(cell)
    if not updates:
        return []
    logs = {n: [np.log(cell) for cell in rates.values()] for n, rates in updates.items()}
    drawn = drawn_least(logs)
    fewest = min(updates)
    least = min(float(cell.mean()) for cell in logs[fewest])
    rows = []
    for walkers, rates in updates.items():
        means = {rate: float(np.log(cell).mean()) for rate, cell in rates.items()}
        rate = min(means, key=means.__getitem__)
        tried = [one for one in line.rates if line.cell(walkers, one)]
        low, high = np.exp(np.percentile(drawn[walkers] - drawn[fewest], _INTERVAL))
        rows.append(
            Reached(
                walkers=walkers,
                target=target,
                rate=rate,
                updates=tuple(map(float, rates[rate])),
                examples_per_update=line.examples(walkers),
                at_edge=rate in (tried[0], tried[-1]),
                ratio=math.exp(means[rate] - least),
                low=float(low),
                high=float(high),
            )
        )
    return rows


def drawn_least(logs: dict[int, list[Floats]]) -> dict[int, Floats]:
    """Return bootstrap samples of the least mean of the cells of each number of walkers, for logarithms of steps.

    Residuals come from all cells, because three seeds tell little about their spread; NaN if all cells have one seed.
    """
    random = np.random.default_rng(_SEED)
    several = [cell for cells in logs.values() for cell in cells if cell.size > 1]
    spread = np.concatenate(
        [(cell - cell.mean()) * math.sqrt(cell.size / (cell.size - 1)) for cell in several]
        or [np.array([np.nan])]
    )
    return {
        walkers: np.min(
            [
                cell.mean() + random.choice(spread, (_SAMPLES, cell.size)).mean(axis=1)
                for cell in cells
            ],
            axis=0,
        )
        for walkers, cells in logs.items()
    }


def choose(lines: Sequence[Line], score: Score) -> tuple[float, ...]:
    """Return one or two targets, in ascending order.

    A target lies 0.9 of the way from the trivial predictor to the highest score that each number of walkers reaches
    with every seed: the low target counts all numbers of walkers, the high one the upper half of them. There is one
    target if the two are equal.
    """
    highest: dict[int, float] = {}
    trivial = 0.0
    for line in lines:
        for walkers in line.walkers:
            cells = [line.cell(walkers, rate) for rate in line.rates]
            best = max((_surely(cell, score) for cell in cells if cell), default=-math.inf)
            highest[walkers] = min(best, highest.get(walkers, math.inf))
        known = (one.run.validation[-1] for one in line.trainings if one.run.validation)
        trivial = max((score.trivial(record) or 0.0 for record in known), default=trivial)
    counts = sorted(highest)
    if not counts:
        return ()
    upper = counts[len(counts) // 2 :]
    low = _below(min(highest.values()), trivial)
    high = _below(min(highest[n] for n in upper), trivial)
    if not math.isfinite(low):
        return ()
    return (low, high) if high > low else (low,)


def _surely(cell: Sequence[Training], score: Score) -> float:
    """Return the highest score that the rising fits of all trainings of a cell reach."""
    best = []
    for one in cell:
        values = series(score, one.run.validation)[1]
        best.append(float(rising(values)[-1]) if values.size else -math.inf)
    return min(best)


def _below(value: float, trivial: float) -> float:
    """Return a target below a score, rounded down; minus infinity if no training has a score."""
    if not math.isfinite(value):
        return value
    target = trivial + _SHARE * (value - trivial) if value > trivial else value
    return math.floor(target * _GRID) / _GRID
