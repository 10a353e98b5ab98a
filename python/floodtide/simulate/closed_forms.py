# SPDX-License-Identifier: Apache-2.0
"""Efficiencies that can be computed without drawing, and the inverse: what explains a given one."""

from __future__ import annotations

import math

import numpy as np

from floodtide.errors import InvalidArgumentError

_GRID = np.linspace(-12.0, 12.0, 4801)  # of a standard normal; its tails beyond are below 1e-32


def expected_slowest(sigma: float, ranks: int) -> float:
    """Mean of the largest of `ranks` independent lognormal factors of mean 1 and spread sigma.

    The integral of exp(sigma z - sigma^2 / 2) over the density of the largest of as many standard normals, by the
    trapezium rule.
    """
    cumulative = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in _GRID])
    density = np.exp(-0.5 * _GRID**2) / math.sqrt(2.0 * math.pi)
    values = np.exp(sigma * _GRID - 0.5 * sigma**2) * ranks * density * cumulative ** (ranks - 1)
    return float(np.sum(values[1:] + values[:-1]) * 0.5 * (_GRID[1] - _GRID[0]))


def stall_efficiency(ratio: float, moves: float, ranks: int) -> float:
    """Efficiency when every rank reads a patch inside of the step, every `moves` steps at a phase of its own.

    Args:
        ratio: Seconds to read a patch over seconds to compute a step.
        moves: Steps on a patch.
        ranks: A step is delayed if any of them reads.
    """
    delayed = 1.0 - (1.0 - 1.0 / moves) ** ranks
    return (1.0 + ratio / moves) / (1.0 + ratio * delayed)


def explaining_ratio(efficiency: float, moves: float, ranks: int) -> float:
    """The ratio at which stall_efficiency is `efficiency`.

    Raises:
        InvalidArgumentError: If no ratio gives so low an efficiency.
    """
    delayed = 1.0 - (1.0 - 1.0 / moves) ** ranks
    slope = efficiency * delayed - 1.0 / moves
    if not (0 < efficiency <= 1 and slope > 0):
        raise InvalidArgumentError(
            f"simulate: stalls every {moves} steps on {ranks} ranks do not explain an efficiency of {efficiency}"
        )
    return (1.0 - efficiency) / slope


def explaining_sigma(efficiency: float, ranks: int) -> float:
    """The lognormal spread at which 1 / expected_slowest is `efficiency`, by bisection.

    Raises:
        InvalidArgumentError: If no spread below 2 gives it.
    """
    low, high = 0.0, 2.0
    if not 1.0 / expected_slowest(high, ranks) <= efficiency <= 1.0:
        raise InvalidArgumentError(
            f"simulate: no spread of {ranks} ranks explains an efficiency of {efficiency}"
        )
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if 1.0 / expected_slowest(middle, ranks) > efficiency else (low, middle)
        )
    return high
