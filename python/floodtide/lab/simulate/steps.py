# SPDX-License-Identifier: Apache-2.0
"""Step-by-step simulation of all replicas of a run.

For each step, the simulation computes the times of a few events: a rank has its patch, its gradient, the slowest
rank's bucket, the sum. Replicas are copies of the run over which results are averaged. Arrays of shape (ranks,
replicas) hold all ranks of all replicas.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floodtide.errors import InvalidArgumentError
from floodtide.lab.simulate.gradient import FORWARD_SHARE
from floodtide.lab.simulate.job import Job
from floodtide.lab.simulate.workload import Draws, Kept, Patches, Times

Mask = NDArray[np.bool_]

REPLICAS = 64
MOST_PLACES = 2**18  # places for patches of all walkers on all ranks: half a GB for all replicas


class Steps:
    """State of the simulation after a step: when each rank may start, and when the step ended.

    Attributes:
        paid: Number of ranks, including backup ranks.
        update_s: Seconds of an update.
        end: Time in seconds at which the last step ended, (replicas,).
    """

    def __init__(self, job: Job, ranks: int, draws: Draws) -> None:
        self._job = job
        self._ranks = ranks
        self._draws = draws
        self.paid = ranks + round(job.backup * ranks)
        prefetch = job.loading.prefetch if job.loading else 0
        places = self.paid * job.walkers_per_rank * (1 + prefetch)
        if places > MOST_PLACES:
            raise InvalidArgumentError(
                f"simulate: {self.paid} ranks with {job.walkers_per_rank} walkers and prefetch "
                f"{prefetch} make {places} places, expected at most {MOST_PLACES}"
            )
        self._shape = (self.paid, REPLICAS)
        self._slowdown = job.slowdown(self.paid)
        self.update_s = job.update_s * self._slowdown
        sizes = [bucket.bytes for bucket in job.buckets]
        if self.paid > ranks:  # which ranks count is known only when their gradients are complete
            sizes = [sum(sizes)]
        self._cpu_s = [job.cpu_s(size, self.paid) for size in sizes]
        # Processor and network work on a sum at the same time, so the longer time counts.
        self._costs = [
            max(job.allreduce_s(size, self.paid), cpu_s)
            for size, cpu_s in zip(sizes, self._cpu_s, strict=True)
        ]
        self._agreement_s = job.agreement_s(self.paid)
        self._patches = (
            Patches(job.loading, self._shape, job.walkers_per_rank, draws) if job.loading else None
        )
        # When a rank begins its next work, or when it began the gradient that it carries over.
        self._free: Times = np.zeros(self._shape)
        self.end: Times = np.zeros(REPLICAS)
        # Gradients that are carried over: which ranks, step of the parameters, time of the patch, compute time.
        self._carried: Mask = np.zeros(self._shape, dtype=bool)
        self._base = np.zeros(self._shape, dtype=np.int64)
        self._start: Times = np.zeros(self._shape)
        self._compute: Times = np.zeros(self._shape)

    def step(self, number: int) -> Times:
        """Simulate one step.

        Returns:
            Means over replicas (6,): seconds of compute, input, straggler and comm as in `Estimate`, number of
            gradients that count, and the sum of their staleness.
        """
        kept = self._patches.keep() if self._patches else None
        start, compute = self._begin(number)
        if self._patches and kept:
            self._patches.restore(kept, self._carried)
        done = start + compute
        counts = self._counting(done)
        counted = np.where(counts, done, -np.inf)
        last = counted.argmax(axis=0)[np.newaxis]
        ended = np.maximum(
            counted.max(axis=0), self.end
        )  # carried gradients may be complete before
        waited = np.take_along_axis(start - self._free, last, axis=0)[0]
        mean = compute.mean(axis=0)
        summed = self._summed(start, compute, ended)
        straggled = ended - self.end - waited - mean
        stale = np.where(counts, number - self._base, 0).sum(axis=0)
        parts = [mean, waited, straggled, summed - ended, counts.sum(axis=0), stale]
        self.end = summed + self.update_s
        self._leave(start, compute, counts, kept)
        means: Times = np.stack(parts).mean(axis=1)
        return means

    def _begin(self, number: int) -> tuple[Times, Times]:
        """Return when every rank has its patches, and how long it then computes, in seconds (ranks, replicas)."""
        start = self._free
        if self._patches:
            for walker in range(self._job.walkers_per_rank):
                start = self._patches.take(walker, number, start)
        draws = self._job.compute.draw(self._draws, number, self._shape)
        compute = self._slowdown * self._job.walkers_per_rank * draws
        self._base = np.where(self._carried, self._base, number)
        return (
            np.where(self._carried, self._start, start),
            np.where(self._carried, self._compute, compute),
        )

    def _counting(self, done: Times) -> Mask:
        """Return a mask (ranks, replicas) of the gradients that are summed: those of the first ranks that are done.

        With `carry`, all complete gradients are summed; otherwise exactly as many as the step waits for.
        """
        if self.paid == self._ranks:
            return np.ones(self._shape, dtype=bool)
        if self._job.late == "carry":
            close = np.partition(done, self._ranks - 1, axis=0)[self._ranks - 1]
            there: Mask = done <= np.maximum(close, self.end)
            return there
        order = np.argsort(done, axis=0, kind="stable")
        counts = np.zeros(self._shape, dtype=bool)
        np.put_along_axis(counts, order[: self._ranks], True, axis=0)
        return counts

    def _summed(self, start: Times, compute: Times, ended: Times) -> Times:
        """Return when the last bucket is summed, in seconds (replicas,).

        A bucket starts when it is complete on all ranks, in the backward pass of their last walker, when the ranks have
        agreed on it, and when the bucket before has ended. Processor time for earlier buckets delays the backward pass.
        """
        if self.paid > self._ranks:
            return ended + self._agreement_s + self._costs[0]
        summed = np.zeros(REPLICAS)
        walkers = self._job.walkers_per_rank
        delay_s = 0.0
        for bucket, cost, cpu_s in zip(self._job.buckets, self._costs, self._cpu_s, strict=True):
            share = FORWARD_SHARE + (1 - FORWARD_SHARE) * bucket.ready
            ready = (start + (walkers - 1 + share) / walkers * compute).max(axis=0) + delay_s
            summed = np.maximum(summed, ready + self._agreement_s) + cost
            delay_s += cpu_s
        return summed

    def _leave(self, start: Times, compute: Times, counts: Mask, kept: Kept | None) -> None:
        """Update the state of every rank after the step."""
        if self._job.late == "carry":
            self._carried, self._start, self._compute = ~counts, start, compute
            self._free = np.where(counts, self.end, self._free)
        elif self._job.late == "drop":
            waiting = (
                self._free >= self.end
            )  # this rank is still busy with a gradient of an earlier step
            if self._patches and kept:
                self._patches.restore(kept, waiting)
            self._free = np.where(waiting, self._free, np.maximum(self.end, start + compute))
        else:
            self._free = np.broadcast_to(self.end, self._shape)
