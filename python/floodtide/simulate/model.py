# SPDX-License-Identifier: Apache-2.0
"""The model of synchronous training: ranks compute, wait for patches, and leave a step together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from floodtide.errors import InvalidArgumentError
from floodtide.simulate.gradient import Bucket
from floodtide.simulate.steps import REPLICAS, Steps
from floodtide.simulate.workload import Compute, Draws, Loading

LATE = ("abandon", "drop", "carry")
LOSSES = ("input", "straggler", "comm", "update")


def alone(ranks: int) -> float:
    """The slowdown of ranks that disturb nobody: 1."""
    return 1.0


def at_once(ranks: int) -> float:
    """The agreement of ranks that need none, or whose `allreduce_s` has it: 0."""
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


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Means over the steps of all replicas. The parts of a step, those of its slowest rank, add up to step_s.

    Attributes:
        ranks: Ranks whose gradients count in a step.
        paid_ranks: These and the backup ranks.
        step_s: Seconds of a step.
        compute_s: Of a rank's forward and backward passes, mean of all ranks.
        input_s: That the slowest rank which counts waited for its patches.
        straggler_s: That it started late or computed longer than the mean; less than 0 where gradients carried over,
            which were begun in earlier steps, end this one.
        comm_s: Between its gradient and the sum.
        update_s: Of the update.
        fovs_per_s: Fields of view a second that count, of all ranks.
        staleness: Updates between the parameters that a gradient was computed from and the one it is in, mean.
    """

    ranks: int
    paid_ranks: int
    step_s: float
    compute_s: float
    input_s: float
    straggler_s: float
    comm_s: float
    update_s: float
    fovs_per_s: float
    staleness: float

    @property
    def largest_loss(self) -> str:
        """Which part of a step but compute is largest; `none` if all are below a thousandth of it."""
        losses = {name: getattr(self, f"{name}_s") for name in LOSSES}
        name = max(losses, key=lambda key: losses[key])
        return name if losses[name] > 1e-3 * self.step_s else "none"


def simulate(
    job: Job, ranks: int, *, steps: int = 2000, seed: int = 0, warmup: int | None = None
) -> Estimate:
    """Estimate the throughput of a run.

    Args:
        job: What the ranks do.
        ranks: Ranks whose gradients count in a step.
        steps: Steps to look at, shared by REPLICAS replicas. The same seed draws the same for the
            first ranks, however many there are.
        seed: Chooses the draws.
        warmup: Steps of each replica before those; default: none where every step is like the
            first, else two patches for each place in the queue.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    if ranks < 1 or steps < 1 or not 0 <= seed < 2**64 or (warmup is not None and warmup < 0):
        raise InvalidArgumentError(
            f"simulate: {ranks} ranks, {steps} steps, seed {seed}; expected at least 1, 1 and 0 "
            "(and a seed below 2^64)"
        )
    run = Steps(job, ranks, Draws(seed))
    if warmup is None:
        warmup = _warmup(job)
    count = math.ceil(steps / REPLICAS)
    for step in range(warmup):
        run.step(step)
    start_s = run.end.copy()
    sums = np.zeros(6)
    for step in range(warmup, warmup + count):
        sums += run.step(step)
    step_s = float((run.end - start_s).mean()) / count
    compute_s, input_s, straggler_s, comm_s, counting, stale = (float(x) for x in sums / count)
    return Estimate(
        ranks=ranks,
        paid_ranks=run.paid,
        step_s=step_s,
        compute_s=compute_s,
        input_s=input_s,
        straggler_s=straggler_s,
        comm_s=comm_s,
        update_s=run.update_s,
        fovs_per_s=counting * job.walkers_per_rank / step_s,
        staleness=stale / counting,
    )


def _warmup(job: Job) -> int:
    """Steps until queues and late ranks have settled; walkers start at random places of patches."""
    if job.loading and job.loading.prefetch:
        return math.ceil(2 * job.loading.moves) * (job.loading.prefetch + 1)
    return 20 if job.backup and job.late != "abandon" else 0


def least_ranks(
    job: Job, fovs_per_s: float, *, limit: int = 4096, steps: int = 2000, seed: int = 0
) -> int | None:
    """The least number of ranks that reaches a throughput; None if `limit` ranks do not.

    Found by doubling and halving, as if throughput never fell with more ranks.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    if not (math.isfinite(fovs_per_s) and fovs_per_s > 0 and limit >= 1):
        raise InvalidArgumentError(
            f"simulate: {fovs_per_s} fields of view / s, expected a positive number"
        )

    def reaches(ranks: int) -> bool:
        return simulate(job, ranks, steps=steps, seed=seed).fovs_per_s >= fovs_per_s

    low, high = 0, 1
    while not reaches(high):
        if high >= limit:
            return None
        low, high = high, min(2 * high, limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
