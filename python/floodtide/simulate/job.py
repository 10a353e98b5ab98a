# SPDX-License-Identifier: Apache-2.0
"""What is simulated: a training run, whatever its number of ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError
from floodtide.simulate.gradient import Bucket
from floodtide.simulate.workload import Compute, Loading

LATE = ("abandon", "drop", "carry")


def alone(ranks: int) -> float:
    """The slowdown of ranks that disturb nobody: 1."""
    return 1.0


def at_once(ranks: int) -> float:
    """The agreement of ranks that need none, or whose `allreduce_s` has it: 0."""
    return 0.0


def by_the_adapter(size_bytes: int, ranks: int) -> float:
    """The processor seconds of a sum whose bytes the network adapter moves without the processor: 0."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training run, whatever its number of ranks.

    Attributes:
        compute: Forward and backward pass on one field of view.
        walkers_per_rank: Fields of view of a rank's step, one after the other.
        loading: Where patches come from; None: they are always there.
        buckets: Parts of the gradient, in the order in which they are ready; with backup ranks they travel together,
            when it is known whose count.
        allreduce_s: Seconds to sum so many bytes over so many ranks.
        agreement_s: Seconds in which so many ranks agree on a sum before its values move, while earlier sums go on.
        cpu_s: Seconds of a rank's processor that it takes to send and receive so many bytes over so many ranks. They
            are taken from the computing that goes on meanwhile.
        update_s: Seconds of every rank between the last sum and its next step.
        slowdown: Factor on compute and update if so many ranks run: of ranks that share cores, for one.
        backup: Ranks in addition, as a share of those whose gradients count: a step ends with the
            first ranks to be done (partial averages). Their number is rounded.
        late: What a rank does whose gradient is not among the first: `abandon` it and start the next step with the
            others; finish it, `drop` it and start again late; or finish it and `carry` it into the next step.
            The last two are those of `comm.late`; nothing trains by the first.
    """

    compute: Compute
    buckets: tuple[Bucket, ...]
    allreduce_s: Callable[[int, int], float]
    agreement_s: Callable[[int], float] = at_once
    cpu_s: Callable[[int, int], float] = by_the_adapter
    walkers_per_rank: int = 1
    loading: Loading | None = None
    update_s: float = 0.0
    slowdown: Callable[[int], float] = alone
    backup: float = 0.0
    late: str = "drop"

    def __post_init__(self) -> None:
        if self.walkers_per_rank < 1:
            raise InvalidArgumentError(
                f"simulate: {self.walkers_per_rank} walkers a rank, expected at least 1"
            )
        if not (math.isfinite(self.update_s) and self.update_s >= 0):
            raise InvalidArgumentError(
                f"simulate: update of {self.update_s} s, expected at least 0"
            )
        if not (math.isfinite(self.backup) and self.backup >= 0):
            raise InvalidArgumentError(
                f"simulate: backup share is {self.backup}, expected at least 0"
            )
        if self.late not in LATE:
            raise InvalidArgumentError(
                f"simulate: late is '{self.late}', expected one of {', '.join(LATE)}"
            )
