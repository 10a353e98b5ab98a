# SPDX-License-Identifier: Apache-2.0
"""How long many ranks take for the subvolumes of a volume, and how long the last ones keep the others waiting.

Time counts in network calls: they take nearly all of the time of flooding, and do not depend on the machine.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.data import Volume
from floodtide.errors import InvalidFileError
from floodtide.segment.pieces import CALLS, DATASET, Pieces

_CHECKED = Arguments(subvolumes=limits.COUNT, ranks=limits.RANKS)
_DRAWS = 2_000_000  # subvolumes drawn in all trials together
_TRIALS = 20


class Schedule(NamedTuple):
    """Subvolumes shared by ranks. A rank that is done takes the next subvolume.

    Attributes:
        calls: Network calls of the rank that works longest.
        efficiency: Mean share of that time in which a rank works.
        first_idle: Share of that time after which the first rank finds no subvolume to take.
    """

    calls: float
    efficiency: float
    first_idle: float


def schedule(calls: Iterable[float], ranks: int) -> Schedule:
    """Share subvolumes among ranks, in the order given.

    Args:
        calls: Network calls of each subvolume.
        ranks: Number of ranks.

    Raises:
        InvalidArgumentError: If `ranks` is out of range.
    """
    _CHECKED.check("schedule", ranks=ranks)
    busy = [0.0] * ranks  # until when each rank works
    for work in calls:
        heapq.heapreplace(busy, busy[0] + work)
    last = max(busy)
    if last == 0:
        return Schedule(0.0, 1.0, 1.0)
    return Schedule(last, math.fsum(busy) / (ranks * last), busy[0] / last)


def forecast(measured: Sequence[float], subvolumes: int, ranks: int, *, seed: int = 0) -> Schedule:
    """Forecast how ranks share subvolumes like those that are segmented.

    Args:
        measured: Network calls of the subvolumes that are segmented (`network_calls`), at least one.
        subvolumes: Number of subvolumes that the ranks share. Their network calls are drawn from `measured`.
        ranks: Number of ranks.
        seed: Seed of the draws.

    Returns:
        The mean of up to 20 trials.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    _CHECKED.check("forecast", subvolumes=subvolumes, ranks=ranks)
    random = np.random.default_rng(seed)
    trials = max(1, min(_TRIALS, _DRAWS // subvolumes))
    rows = [schedule(random.choice(measured, subvolumes), ranks) for _ in range(trials)]
    return Schedule(*(float(np.mean(column)) for column in zip(*rows, strict=True)))


def network_calls(pieces: Pieces) -> list[int]:
    """Return the network calls of the subvolumes that are segmented and state them.

    Raises:
        InvalidFileError: If the file of a subvolume is damaged.
    """
    found = []
    for number in range(len(pieces.cut)):
        if pieces.done(number):
            text = Volume(str(pieces.path(number)), DATASET).text(CALLS)
            if text and not text.isdecimal():
                raise InvalidFileError(
                    f"{pieces.reference(number)}: attribute {CALLS} is {text!r}, expected a number"
                )
            if text:
                found.append(int(text))
    return found
