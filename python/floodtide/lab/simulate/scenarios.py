# SPDX-License-Identifier: Apache-2.0
"""Two explanations of the efficiency that the paper's run lost, each with a remedy; and rows of results of any job."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from floodtide.lab.simulate import closed_forms, paper
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
    ratio = closed_forms.explaining_ratio(paper.EFFICIENCY, paper.MOVES_PER_PATCH, paper.NODES)
    sigma = closed_forms.explaining_sigma(paper.EFFICIENCY, paper.NODES)
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
