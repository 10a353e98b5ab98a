# SPDX-License-Identifier: Apache-2.0
"""The simulated training run, independent of the number of ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError
from floodtide.lab.simulate.gradient import Bucket
from floodtide.lab.simulate.workload import Compute, Loading

LATE = ("abandon", "drop", "carry")


def alone(ranks: int) -> float:
    """Return 1: the slowdown of ranks that do not disturb each other."""
    return 1.0


def at_once(ranks: int) -> float:
    """Return 0: the time of an agreement if there is none or `allreduce_s` includes it."""
    return 0.0


def by_the_adapter(size_bytes: int, ranks: int) -> float:
    """Return 0: the processor time of a sum if the network adapter moves the bytes without the processor."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training run, independent of the number of ranks.

    Attributes:
        compute: Time of the forward and backward pass on one field of view.
        walkers_per_rank: Number of fields of view that a rank computes in a step, one after the other.
        loading: Loading of patches; None: patches are always ready.
        buckets: Buckets of the gradient, in the order in which they are ready. With backup ranks, all buckets are sent
            together, when it is known which ranks count.
        allreduce_s: Function of (bytes, ranks): seconds of an allreduce.
        agreement_s: Function of (ranks): seconds in which ranks agree on a sum before it starts. Earlier sums continue
            in that time.
        cpu_s: Function of (bytes, ranks): processor seconds of a rank for sending and receiving. This time delays the
            computing that overlaps with the sum.
        update_s: Seconds between the last sum and the next step on every rank.
        slowdown: Function of (ranks): factor on compute and update times, for example if ranks share cores.
        backup: Number of additional ranks, as a share of the ranks whose gradients count. A step ends when the first
            ranks are done (partial averages). The number is rounded.
        late: What a rank does if its gradient is not among the first. `abandon`: stop and start the next step with the
            other ranks. `drop`: finish the gradient, drop it and start the next step late. `carry`: finish the
            gradient and carry it into a later step. `drop` and `carry` are those of `comm.late`; training does not
            offer `abandon`.
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
