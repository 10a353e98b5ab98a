# SPDX-License-Identifier: Apache-2.0
"""Rows of figures: what `floodtide simulate` prints and draws."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.simulate.job import Job

STALL = "paper: input stall"
STALL_PREFETCH = "paper: input stall, prefetch"
STRAGGLER = "paper: stragglers"
STRAGGLER_PARTIAL = "paper: stragglers, partial averages"
FORECAST = "forecast"
MEASURED = "measured"
ASYNCHRONOUS = "forecast: asynchronous"


@dataclass(frozen=True, kw_only=True)
class Row:
    """Figures of one job on one number of ranks; parts as in `Estimate`, None where a measured run does not tell.

    Attributes:
        efficiency: Throughput over that of as many single ranks as are to count; above 1 where gradients carried over
            count in addition.
        paid_efficiency: Throughput over that of as many single ranks as there are, backup ranks included.
        largest_loss: As in `Estimate`.
        staleness: As in `Estimate`, or of an asynchronous run; None of a measured one.
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
    """A job with what its rows are called."""

    scenario: str
    network: str
    algorithm: str
    job: Job
