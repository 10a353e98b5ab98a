# SPDX-License-Identifier: Apache-2.0
"""Two explanations of the efficiency that the paper's run lost, each with a remedy; and rows of results of any job."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from floodtide.base.notes import count_of
from floodtide.errors import InvalidArgumentError
from floodtide.lab.simulate import paper
from floodtide.lab.simulate.allreduce import Links, allreduce_cost_s
from floodtide.lab.simulate.gradient import ffn_buckets
from floodtide.lab.simulate.job import Job
from floodtide.lab.simulate.model import Estimate, simulate
from floodtide.lab.simulate.networks import NETWORKS
from floodtide.lab.simulate.rows import (
    STALL,
    STALL_PREFETCH,
    STRAGGLER,
    STRAGGLER_PARTIAL,
    Named,
    Row,
)
from floodtide.lab.simulate.workload import Compute, Loading

_GRID = np.linspace(-12.0, 12.0, 4801)  # for a standard normal; the tails outside are below 1e-32
# Shares of backup ranks that are tried.
BACKUP_SHARES = (1 / 128, 1 / 64, 1 / 32, 3 / 64, 1 / 16, 3 / 32, 1 / 8)
PAPER_NETWORK = "dragonfly"
PAPER_ALGORITHM = "rabenseifner"  # the choice of MPICH, on which Cray MPI is built, for this size


def paper_jobs() -> list[Named]:
    """Return the two explanations, fitted to the efficiency that the paper reports, each with its remedy.

    Both give the paper's time of a step on one node. The share of backup ranks is the one of BACKUP_SHARES with the
    best throughput per paid node.
    """
    links = Links(network=NETWORKS[PAPER_NETWORK], add_s_per_byte=1 / paper.ADD_BYTES_PER_S)
    ratio = explaining_ratio(paper.EFFICIENCY, paper.MOVES_PER_PATCH, paper.NODES)
    sigma = explaining_sigma(paper.EFFICIENCY, paper.NODES)
    compute_s = paper.ONE_NODE_STEP_S / (1 + ratio / paper.MOVES_PER_PATCH)
    loading = Loading(load_s=ratio * compute_s, moves=paper.MOVES_PER_PATCH)
    stall = Job(
        compute=Compute(mean_s=compute_s),
        loading=loading,
        buckets=ffn_buckets(paper.DEPTH, paper.FEATURES),
        allreduce_s=lambda size, ranks: allreduce_cost_s(PAPER_ALGORITHM, size, ranks, links),
    )
    prefetch = dataclasses.replace(stall, loading=dataclasses.replace(loading, prefetch=1))
    straggler = dataclasses.replace(
        stall, loading=None, compute=Compute(mean_s=paper.ONE_NODE_STEP_S, sigma=sigma)
    )
    partial = dataclasses.replace(straggler, backup=best_backup(straggler, paper.NODES))
    jobs = {
        STALL: stall,
        STALL_PREFETCH: prefetch,
        STRAGGLER: straggler,
        STRAGGLER_PARTIAL: partial,
    }
    return [
        Named(scenario=name, network=PAPER_NETWORK, algorithm=PAPER_ALGORITHM, job=job)
        for name, job in jobs.items()
    ]


def expected_slowest(sigma: float, ranks: int) -> float:
    """Return the mean of the largest of `ranks` independent lognormal factors with mean 1 and the given sigma.

    It is the integral of exp(sigma z - sigma^2 / 2) times the density of the largest of `ranks` standard normal
    numbers, by the trapezium rule.
    """
    cumulative = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in _GRID])
    density = np.exp(-0.5 * _GRID**2) / math.sqrt(2.0 * math.pi)
    values = np.exp(sigma * _GRID - 0.5 * sigma**2) * ranks * density * cumulative ** (ranks - 1)
    return float(np.sum(values[1:] + values[:-1]) * 0.5 * (_GRID[1] - _GRID[0]))


def explaining_ratio(efficiency: float, moves: float, ranks: int) -> float:
    """Return seconds to load a patch / seconds to compute a step that explain an efficiency by stalls.

    Every rank loads a patch inside the step, every `moves` steps at a random phase, and any of them delays the step.

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


def best_backup(job: Job, ranks: int, *, steps: int = 400) -> float:
    """Return the share of backup ranks among BACKUP_SHARES with the best throughput per paid rank."""

    def worth(share: float) -> float:
        estimate = simulate(dataclasses.replace(job, backup=share), ranks, steps=steps)
        return estimate.fovs_per_s / estimate.paid_ranks

    return max(BACKUP_SHARES, key=worth)


def sweep(named: Named, ranks: Sequence[int], *, steps: int, seed: int) -> list[Row]:
    """Return one row for each number of ranks. Efficiencies are relative to one rank of the same job."""
    alone = simulate(named.job, 1, steps=steps, seed=seed).fovs_per_s
    rows = []
    for count in ranks:
        estimate = simulate(named.job, count, steps=steps, seed=seed)
        rows.append(_row(named, estimate, alone))
    return rows


def _row(named: Named, estimate: Estimate, alone: float) -> Row:
    return Row(
        scenario=named.scenario,
        network=named.network,
        algorithm=named.algorithm,
        efficiency=estimate.fovs_per_s / (alone * estimate.ranks),
        paid_efficiency=estimate.fovs_per_s / (alone * estimate.paid_ranks),
        largest_loss=estimate.largest_loss,
        **dataclasses.asdict(estimate),
    )
