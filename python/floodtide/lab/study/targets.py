# SPDX-License-Identifier: Apache-2.0
"""Updates and examples that a number of workers needs to reach a score, at its best rate (Shallue et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from floodtide.lab.study.cells import Line, Training
from floodtide.lab.study.scores import Score, series

_DIGITS = 3  # of targets that are chosen here


@dataclass(frozen=True, kw_only=True)
class Reached:
    """How a number of workers reaches a score.

    Attributes:
        workers: Number of workers.
        target: The score.
        rate: Base rate with the fewest updates, among those with which all seeds reach the score.
        updates: Updates until then, for each seed.
        examples_per_update: Examples whose gradients make an update.
        at_edge: True if the rate is at an end of the rates of this number of workers.
    """

    workers: int
    target: float
    rate: float
    updates: tuple[float, ...]
    examples_per_update: int
    at_edge: bool

    @property
    def mean(self) -> float:
        """Mean number of updates."""
        return float(np.mean(self.updates))

    @property
    def deviation(self) -> float:
        """Standard deviation of the number of updates over seeds; 0 for one seed."""
        return float(np.std(self.updates, ddof=1)) if len(self.updates) > 1 else 0.0


def updates_to(training: Training, score: Score, target: float) -> float:
    """Return the update at which the score first reaches a target, between validations by interpolation; else inf."""
    steps, values = series(score, training.run.validation)
    reached = np.flatnonzero(values >= target)
    if not reached.size:
        return math.inf
    index = int(reached[0])
    if index == 0:
        return float(steps[0])
    share = (target - values[index - 1]) / (values[index] - values[index - 1])
    return float(steps[index - 1] + share * (steps[index] - steps[index - 1]))


def reached(line: Line, score: Score, target: float) -> list[Reached]:
    """Return how each number of workers reaches a score. Numbers of workers that do not reach it are left out."""
    rows = []
    for workers in line.workers:
        rates = [rate for rate in line.rates if line.cell(workers, rate)]
        found = []
        for rate in rates:
            updates = [updates_to(one, score, target) for one in line.cell(workers, rate)]
            if all(map(math.isfinite, updates)):
                found.append((float(np.mean(updates)), rate, tuple(updates)))
        if found:
            _, rate, updates_of = min(found)
            rows.append(
                Reached(
                    workers=workers,
                    target=target,
                    rate=rate,
                    updates=updates_of,
                    examples_per_update=line.examples(workers),
                    at_edge=rate in (rates[0], rates[-1]),
                )
            )
    return rows


def choose(lines: Sequence[Line], score: Score) -> tuple[tuple[float, ...], int]:
    """Return one or two targets, and the number of workers that bridges them.

    The low target is the highest score that every number of workers reaches with every seed, the high one the highest
    that the upper half of the numbers of workers reaches. The bridge is the lowest number of that half. There is one
    target, and the bridge is 0, if the two are equal.
    """
    highest: dict[int, float] = {}
    for line in lines:
        for workers in line.workers:
            cells = [line.cell(workers, rate) for rate in line.rates]
            best = max((_surely(cell, score) for cell in cells if cell), default=-math.inf)
            highest[workers] = min(best, highest.get(workers, math.inf))
    counts = sorted(highest)
    if not counts:
        return (), 0
    bridge = counts[len(counts) // 2]
    low = _down(min(highest.values()))
    high = _down(min(highest[n] for n in counts if n >= bridge))
    if not math.isfinite(low):
        return (), 0
    return ((low, high), bridge) if high > low else ((low,), 0)


def _surely(cell: Sequence[Training], score: Score) -> float:
    """Return the highest score that all trainings of a cell reach."""
    best = []
    for one in cell:
        values = series(score, one.run.validation)[1]
        best.append(float(values.max()) if values.size else -math.inf)
    return min(best)


def _down(value: float) -> float:
    return math.floor(value * 10**_DIGITS) / 10**_DIGITS if math.isfinite(value) else value
