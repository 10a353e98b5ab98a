# SPDX-License-Identifier: Apache-2.0
"""Efficiencies in closed form, without random numbers, and their inverses: parameters that explain an efficiency."""

from __future__ import annotations

import math

import numpy as np

from floodtide.base.notes import count_of
from floodtide.errors import InvalidArgumentError

_GRID = np.linspace(-12.0, 12.0, 4801)  # for a standard normal; the tails outside are below 1e-32


def expected_slowest(sigma: float, ranks: int) -> float:
    """Return the mean of the largest of `ranks` independent lognormal factors with mean 1 and the given sigma.

    It is the integral of exp(sigma z - sigma^2 / 2) times the density of the largest of `ranks` standard normal
    numbers, by the trapezium rule.
    """
    cumulative = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in _GRID])
    density = np.exp(-0.5 * _GRID**2) / math.sqrt(2.0 * math.pi)
    values = np.exp(sigma * _GRID - 0.5 * sigma**2) * ranks * density * cumulative ** (ranks - 1)
    return float(np.sum(values[1:] + values[:-1]) * 0.5 * (_GRID[1] - _GRID[0]))


def stall_efficiency(ratio: float, moves: float, ranks: int) -> float:
    """Return the efficiency if every rank loads a patch inside the step, every `moves` steps at a random phase.

    Args:
        ratio: Seconds to load a patch, divided by the seconds to compute a step.
        moves: Number of steps on a patch.
        ranks: Number of ranks. A step is delayed if any rank loads a patch.
    """
    delayed = 1.0 - (1.0 - 1.0 / moves) ** ranks
    return (1.0 + ratio / moves) / (1.0 + ratio * delayed)


def explaining_ratio(efficiency: float, moves: float, ranks: int) -> float:
    """Return the ratio for which stall_efficiency is `efficiency`.

    Raises:
        InvalidArgumentError: If no ratio gives so low an efficiency.
    """
    delayed = 1.0 - (1.0 - 1.0 / moves) ** ranks
    slope = efficiency * delayed - 1.0 / moves
    if not (0 < efficiency <= 1 and slope > 0):
        raise InvalidArgumentError(
            f"simulate: stalls every {moves} steps on {count_of(ranks, 'rank')} do not explain an efficiency of"
            f" {efficiency}"
        )
    return (1.0 - efficiency) / slope


def explaining_sigma(efficiency: float, ranks: int) -> float:
    """Return the lognormal sigma for which 1 / expected_slowest is `efficiency`, by bisection.

    Raises:
        InvalidArgumentError: If no sigma of at most 2 gives this efficiency.
    """
    low, high = 0.0, 2.0
    if not 1.0 / expected_slowest(high, ranks) <= efficiency <= 1.0:
        raise InvalidArgumentError(
            f"simulate: no spread of {count_of(ranks, 'rank')} explains an efficiency of {efficiency}"
        )
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if 1.0 / expected_slowest(middle, ranks) > efficiency else (low, middle)
        )
    return high
