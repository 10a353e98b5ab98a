# SPDX-License-Identifier: Apache-2.0
"""The model of synchronous training: ranks compute, wait for patches, and end a step together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from floodtide.errors import InvalidArgumentError
from floodtide.lab.simulate.job import Job
from floodtide.lab.simulate.steps import REPLICAS, Steps
from floodtide.lab.simulate.workload import Draws

LOSSES = ("input", "straggler", "comm", "update")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Mean values over the steps of all replicas. compute_s + input_s + straggler_s + comm_s + update_s = step_s.

    Attributes:
        ranks: Number of ranks whose gradients count in a step.
        paid_ranks: Number of all ranks, including backup ranks.
        step_s: Seconds of a step.
        compute_s: Seconds of the forward and backward passes of a rank, mean over all ranks.
        input_s: Seconds that the slowest counting rank waited for patches.
        straggler_s: Seconds by which this rank started later or computed longer than the mean. Negative if a gradient
            that was carried over, and began in an earlier step, ends the step.
        comm_s: Seconds that communication adds: from the slowest gradient to the last sum, including the processor
            time that sending takes from computing.
        update_s: Seconds of the update.
        fovs_per_s: Fields of view per second that count, of all ranks together.
        staleness: Mean number of steps between the parameters of a gradient and the step that uses the gradient.
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
        """Return the largest part of a step other than compute; "none" if all are below a thousandth of the step."""
        losses = {name: getattr(self, f"{name}_s") for name in LOSSES}
        name = max(losses, key=lambda key: losses[key])
        return name if losses[name] > 1e-3 * self.step_s else "none"


def simulate(
    job: Job, ranks: int, *, steps: int = 2000, seed: int = 0, warmup: int | None = None
) -> Estimate:
    """Return an estimate of the throughput of a run.

    Args:
        job: The training run.
        ranks: Number of ranks whose gradients count in a step.
        steps: Number of steps to simulate, divided among REPLICAS replicas.
        seed: Seed of the random numbers. With the same seed, the first ranks draw the same numbers for any number of
            ranks.
        warmup: Number of steps of each replica before the simulated ones. None: 0 if all steps are alike; with
            prefetching, the steps of two patches for each place in the queue; 20 with late gradients.

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
    """Return the number of steps after which queues and late ranks are stationary."""
    if job.loading and job.loading.prefetch:
        return math.ceil(2 * job.loading.moves) * (job.loading.prefetch + 1)
    return 20 if job.backup and job.late != "abandon" else 0


def least_ranks(
    job: Job, fovs_per_s: float, *, limit: int = 4096, steps: int = 2000, seed: int = 0
) -> int | None:
    """Return the smallest number of ranks that reaches a throughput, or None if `limit` ranks do not reach it.

    The search doubles and bisects. It assumes that throughput does not fall with more ranks.

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
