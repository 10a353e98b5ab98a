# SPDX-License-Identifier: Apache-2.0
"""Forecast of the throughput of synchronous training for a number of ranks, without training.

A step lasts until the slowest rank has its gradient and the gradients are summed. `simulate` draws
random times for every rank and step: computing, waiting for data and sending (docs/scaling_model.md describes
the model and its sources). `paper` holds the published figures with which the model is compared.
`scenarios` holds two explanations of the efficiency that the paper's run lost.
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
from floodtide.simulate.forecast import forecast_update_s
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
    "forecast_update_s",
    "least_ranks",
    "simulate",
    "simulate_asynchronous",
]
