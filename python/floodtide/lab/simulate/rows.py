# SPDX-License-Identifier: Apache-2.0
"""Rows of results that `floodtide lab simulate` prints and draws."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.lab.simulate.job import Job

STALL = "paper: input stall"
STALL_PREFETCH = "paper: input stall, prefetch"
STRAGGLER = "paper: stragglers"
STRAGGLER_PARTIAL = "paper: stragglers, partial averages"
FORECAST = "forecast"
MEASURED = "measured"


@dataclass(frozen=True, kw_only=True)
class Row:
    """Results of one job on one number of ranks. Fields as in `Estimate`; None if a measured run does not give them.

    Attributes:
        efficiency: Throughput, divided by `ranks` times the throughput of one rank. It can exceed 1 if gradients that
            were carried over count in addition.
        paid_efficiency: Throughput, divided by `paid_ranks` (with backup ranks) times the throughput of one rank.
        largest_loss: As in `Estimate`.
        staleness: As in `Estimate`; None for a measured run.
    """

    scenario: str
    network: str
    algorithm: str
    ranks: int
    paid_ranks: int
    step_s: float
    compute_s: float | None
    input_s: float | None
    straggler_s: float | None
    comm_s: float | None
    update_s: float | None
    fovs_per_s: float
    efficiency: float | None
    paid_efficiency: float | None
    largest_loss: str | None
    staleness: float | None = None


@dataclass(frozen=True, kw_only=True)
class Named:
    """A job, and the names in its rows."""

    scenario: str
    network: str
    algorithm: str
    job: Job
