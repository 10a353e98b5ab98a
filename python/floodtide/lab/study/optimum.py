# SPDX-License-Identifier: Apache-2.0
"""The best learning rate for each number of walkers, and how it grows, with bootstrap intervals.

The best rate is the vertex of the parabola through the means of the best cell and its two neighbours, over the
logarithm of the rate. A neighbour in which a training failed has no mean: then the best rate is only known to lie
between the middles to the neighbours. Bootstrap samples draw residuals from a cell and its neighbours, with
replacement, because three seeds tell little about their spread. What a seed adds to all rates is no residual: it does
not move the best rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from floodtide.lab.study.cells import Line
from floodtide.lab.study.scores import Floats, Score

_SAMPLES = 2000
_SEED = 0
_INTERVAL = (2.5, 97.5)  # percentiles
_KNEES = np.linspace(-4.0, 14.0, 145)  # log2 of the number of walkers at which growth is half
_NEAR = 0.25  # half the distance of two rules
_LEAST_VARIANCE = 0.1**2  # of the logarithm to base 2 of a best rate
_RULES = ((0.0, "no growth"), (0.5, "square root"), (1.0, "linear"))


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best rate of a number of walkers.

    Attributes:
        walkers: Number of walkers.
        cell: Base rate of the cell with the best mean.
        rate: Base rate at the vertex.
        low, high: 95 % interval of `rate`; NaN if a cell has one seed, so that its spread is not known.
        value: Mean score of the cell.
        at_edge: "lowest" or "highest" if the cell is at that end of the rates that have been trained: the optimum may
            lie outside of the grid. Else empty.
        seeds: Number of trainings in the cell.
    """

    walkers: int
    cell: float
    rate: float
    low: float
    high: float
    value: float
    at_edge: str
    seeds: int


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """An exponent with its 95 % interval; NaN with one seed."""

    alpha: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The exponent alpha in best rate ~ walkers^alpha over a range of walkers.

    The fit is made twice: with the inverse variance of each best rate as its weight, and with equal weights.

    Attributes:
        first, last: Ends of the range.
        weighted, equal: The exponents; None with fewer than two numbers of walkers whose optimum is inside the grid.
        verdict: What both intervals together say (`verdict_of`).
    """

    first: int
    last: int
    weighted: Exponent | None
    equal: Exponent | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """Whether the growth of the best rate changes from linear to none, as the noise scale says, or keeps one exponent.

    Two laws of one shape parameter are fitted: rate ~ walkers^alpha, and rate ~ 1 / (1 + knee / walkers) (McCandlish et
    al. 2018), whose exponent is 1 far below the knee, 1/2 at the knee and 0 far above. The knee means something only
    where the second law fits better.

    Attributes:
        knee: Number of walkers, or None if the data do not bound it.
        low, high: 95 % interval of the knee; 0 and infinity where the data have no bound.
        residuals: Sum of squared residuals of the second law, divided by that of the power law; NaN if both are 0.
        power_law: Share of the bootstrap samples that the power law fits better.
    """

    knee: float | None
    low: float
    high: float
    residuals: float
    power_law: float


@dataclass(frozen=True, kw_only=True)
class Optima:
    """The best rates of a line, the exponents over ranges of walkers, and whether a crossover is seen."""

    line: Line
    step: int
    means: Floats  # (rates, walkers), NaN where no training reached the step
    best: tuple[Best, ...]
    growth: tuple[Growth, ...]
    crossover: Crossover | None


def optima(line: Line, score: Score, step: int) -> Optima:
    """Return the best rate for each number of walkers that has a cell with a score."""
    values = line.values(score, step)
    ended = np.array([[line.ended(n, rate) for n in line.walkers] for rate in line.rates])
    means = np.array([[cell.mean() if cell.size else np.nan for cell in row] for row in values])
    samples = bootstrap_means(values)
    logs = np.log2(np.array(line.rates))
    best, drawn = [], {}
    for column, walkers in enumerate(line.walkers):
        rows = np.flatnonzero(ended[:, column])
        if not np.isfinite(means[rows, column]).any():
            continue
        one = int(rows[np.nanargmax(means[rows, column])])
        edge = {rows[0]: "lowest", rows[-1]: "highest"}.get(one, "") if len(rows) > 1 else "lowest"
        vertices = vertex(
            logs[rows], samples[:, rows, column], np.random.default_rng([_SEED, walkers])
        )
        low, high = np.percentile(vertices, _INTERVAL)
        if any(values[row][column].size == 1 for row in rows):
            low = high = np.nan
        drawn[walkers] = vertices
        best.append(
            Best(
                walkers=walkers,
                cell=line.rates[one],
                rate=float(2.0 ** vertex(logs[rows], means[None, rows, column])[0]),
                low=float(2.0**low),
                high=float(2.0**high),
                value=float(means[one, column]),
                at_edge=edge,
                seeds=int(values[one][column].size),
            )
        )
    inside = [one for one in best if not one.at_edge]
    counts = [one.walkers for one in inside]
    known = all(np.isfinite(one.low) for one in inside)
    logs_of = {one.walkers: float(np.log2(one.rate)) for one in inside}
    return Optima(
        line=line,
        step=step,
        means=means,
        best=tuple(best),
        growth=tuple(
            _growth(ends, counts, logs_of, drawn, known=known) for ends in _ranges(line.walkers)
        ),
        crossover=crossover_of(counts, logs_of, drawn) if known and len(counts) >= 3 else None,
    )


def vertex(logs: Floats, values: Floats, random: np.random.Generator | None = None) -> Floats:
    """Return log2 of the best rate of each row of values (samples, rates), for log2 of rates (rates,).

    The vertex stays between the middles to the neighbouring rates. If a neighbour has no value, the data tell no more
    than that: the result is the rate of the best cell, or with `random` any rate between the middles. At an end of the
    rates, the rate of the best cell is returned.
    """
    best = np.nanargmax(values, axis=1)
    result: Floats = logs[best].astype(np.float64)
    inner = (best > 0) & (best < len(logs) - 1)
    rows, middle = np.flatnonzero(inner), best[inner]
    left, right = logs[middle - 1] - logs[middle], logs[middle + 1] - logs[middle]
    centre = values[rows, middle]
    down, up = values[rows, middle - 1] - centre, values[rows, middle + 1] - centre
    curvature = (up / right - down / left) / (right - left)
    slope = (down * right / left - up * left / right) / (right - left)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(curvature < 0.0, -slope / (2.0 * curvature), 0.0)
    unknown = np.isnan(down + up)
    shift[unknown] = 0.0 if random is None else random.uniform(left / 2.0, right / 2.0)[unknown]
    result[rows] += np.clip(shift, left / 2.0, right / 2.0)
    return result


def bootstrap_means(values: Sequence[Sequence[Floats]]) -> Floats:
    """Return bootstrap means (samples, rates, walkers) of seeds' values [rate][walkers] (seeds,).

    Residuals are drawn from a cell and the cells of the neighbouring rates.
    """
    random = np.random.default_rng(_SEED)
    result = np.full((_SAMPLES, len(values), len(values[0])), np.nan)
    for row, cells in enumerate(values):
        for column, cell in enumerate(cells):
            if cell.size == 0:
                continue
            near = [one[column] for one in values[max(row - 1, 0) : row + 2]]
            spread = _residuals([one for one in near if one.size == cell.size])
            drawn = random.integers(spread.size, size=(_SAMPLES, cell.size))
            result[:, row, column] = cell.mean() + spread[drawn].mean(axis=1)
    return result


def _residuals(cells: Sequence[Floats]) -> Floats:
    """Return the residuals of cells with the same seeds, widened for the degrees of freedom that their means take."""
    table = np.stack(cells)  # (rates, seeds)
    rates, seeds = table.shape
    table = table - table.mean(axis=1, keepdims=True)
    if rates > 1:
        table = table - table.mean(axis=0, keepdims=True)
    free = max(seeds - 1, 1) * max(rates - 1, 1)
    widened: Floats = table.ravel() * np.sqrt(table.size / free)
    return widened


def _ranges(walkers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges of walkers in which exponents are fitted: all, and the lower and the upper half."""
    ranges = [(walkers[0], walkers[-1])]
    if len(walkers) >= 5:
        middle = walkers[len(walkers) // 2]
        ranges += [(walkers[0], middle), (middle, walkers[-1])]
    return ranges


def _growth(
    ends: tuple[int, int],
    counts: Sequence[int],
    logs_of: dict[int, float],
    drawn: dict[int, Floats],
    *,
    known: bool,
) -> Growth:
    first, last = ends
    inside = [n for n in counts if first <= n <= last]
    if len(inside) < 2:
        verdict = "cannot tell: fewer than two optima inside the grid"
        return Growth(first=first, last=last, weighted=None, equal=None, verdict=verdict)
    x = np.log2(inside)
    samples = np.stack([drawn[n] for n in inside], axis=1)

    def fitted(weights: Floats) -> Exponent:
        alpha = float(slopes(x, np.array([[logs_of[n] for n in inside]]), weights)[0])
        low, high = (float(v) for v in np.percentile(slopes(x, samples, weights), _INTERVAL))
        return Exponent(alpha=alpha, low=low if known else np.nan, high=high if known else np.nan)

    # Flat optima tell less than sharp ones.
    weighted = fitted(1.0 / (samples.var(axis=0) + _LEAST_VARIANCE))
    equal = fitted(np.ones(len(inside)))
    low, high = min(weighted.low, equal.low), max(weighted.high, equal.high)
    verdict = verdict_of(low, high) if known else "cannot tell: one seed"
    return Growth(first=first, last=last, weighted=weighted, equal=equal, verdict=verdict)


def slopes(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the slopes of each row of y (samples, n) over x (n,), by least squares with weights (n,)."""
    share = weights / weights.sum()
    centred = share * (x - share @ x)
    result: Floats = y @ centred / (centred @ x)
    return result


def verdict_of(low: float, high: float) -> str:
    """Return what an interval of the exponent says: its rule, or between which rules it lies.

    An interval that reaches further than 0.25 from the only rule in it, or holds several, cannot tell.
    """
    allowed = [(exponent, name) for exponent, name in _RULES if low <= exponent <= high]
    if len(allowed) == 1:
        exponent, name = allowed[0]
        if max(exponent - low, high - exponent) <= _NEAR:
            return name
    below = [name for exponent, name in _RULES if exponent < low]
    above = [name for exponent, name in _RULES if exponent > high]
    if below and above:
        place = f"between {below[-1]} and {above[0]}"
    elif above:
        place = f"less than {above[0]}"
    else:
        place = f"more than {below[-1]}" if below else "anything"
    return f"cannot tell: {place}" if allowed else place


def crossover_of(
    counts: Sequence[int], logs_of: dict[int, float], drawn: dict[int, Floats]
) -> Crossover:
    """Return both fits of log2 of the best rates (by walkers), and of their bootstrap samples (by walkers)."""
    x = np.array(counts, dtype=np.float64)
    shapes = -np.log2(1.0 + 2.0 ** _KNEES[:, None] / x)  # (knees, counts)
    shapes -= shapes.mean(axis=1, keepdims=True)
    logs = np.log2(x) - np.log2(x).mean()

    def fitted(y: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log2 of the knee, and the squared residuals of the law with a knee and of the power law."""
        centred = y - y.mean(axis=1, keepdims=True)
        errors = ((centred[:, None, :] - shapes[None]) ** 2).sum(axis=2)
        straight = centred - np.outer(centred @ logs / (logs @ logs), logs)
        return _KNEES[errors.argmin(axis=1)], errors.min(axis=1), (straight**2).sum(axis=1)

    (point,), (bent,), (straight,) = fitted(np.array([[logs_of[n] for n in counts]]))
    knees, all_bent, all_straight = fitted(np.stack([drawn[n] for n in counts], axis=1))
    low, high = np.percentile(knees, _INTERVAL)
    bounded = _KNEES[0] < point < _KNEES[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = float(np.divide(bent, straight))
    return Crossover(
        knee=float(2.0**point) if bounded else None,
        low=float(2.0**low) if low > _KNEES[0] else 0.0,
        high=float(2.0**high) if high < _KNEES[-1] else float("inf"),
        residuals=residuals,
        power_law=float((all_straight < all_bent).mean()),
    )
