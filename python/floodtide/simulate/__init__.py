# SPDX-License-Identifier: Apache-2.0
"""Throughput of synchronous training against the number of ranks: planning arithmetic, no training.

A step lasts until the slowest rank has its gradient and the gradients are summed. `simulate` draws
that, rank by rank and step by step, from what a rank computes, waits for and sends
(docs/scaling.md has the model and its sources). `paper` holds the figures of the published run
that the model is compared with, `scenarios` the two explanations of its loss.
"""

from floodtide.simulate.allreduce import (
    Links,
    MeasuredAllreduce,
    agreement_s,
    allreduce_cost_s,
    allreduce_cpu_s,
)
from floodtide.simulate.asynchronous import simulate_asynchronous
from floodtide.simulate.calibration import Calibration, calibrate
from floodtide.simulate.gradient import Bucket, exposed_s, ffn_buckets
from floodtide.simulate.job import Job
from floodtide.simulate.model import Estimate, least_ranks, simulate
from floodtide.simulate.networks import NETWORKS, Interconnect
from floodtide.simulate.workload import Compute, Loading

__all__ = [
    "NETWORKS",
    "Bucket",
    "Calibration",
    "Compute",
    "Estimate",
    "Interconnect",
    "Job",
    "Links",
    "Loading",
    "MeasuredAllreduce",
    "agreement_s",
    "allreduce_cost_s",
    "allreduce_cpu_s",
    "calibrate",
    "exposed_s",
    "ffn_buckets",
    "least_ranks",
    "simulate",
    "simulate_asynchronous",
]
