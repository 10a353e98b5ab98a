# SPDX-License-Identifier: Apache-2.0
"""The model of synchronous training: ranks compute, wait for patches, and leave a step together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from floodtide.errors import InvalidArgumentError
from floodtide.simulate.job import Job
from floodtide.simulate.steps import REPLICAS, Steps
from floodtide.simulate.workload import Draws

LOSSES = ("input", "straggler", "comm", "update")


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
        comm_s: That sums made it longer: between its gradient and the last sum, and the processor time that sending
            took from its computing.
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
