# SPDX-License-Identifier: Apache-2.0
"""Forecast of the throughput of synchronous training for a number of ranks, without training.

A step lasts until the slowest rank has its gradient and the gradients are summed. `simulate` draws
random times for every rank and step: computing, waiting for data and sending (docs/lab/scaling_model.md describes
the model and its sources). `paper` holds the published figures with which the model is compared.
`scenarios` holds two explanations of the efficiency that the paper's run lost.
"""

from floodtide.lab.simulate.allreduce import Links, agreement_s, allreduce_cost_s
from floodtide.lab.simulate.calibration import Calibration, calibrate
from floodtide.lab.simulate.gradient import ffn_buckets
from floodtide.lab.simulate.job import Job
from floodtide.lab.simulate.model import Estimate, simulate
from floodtide.lab.simulate.networks import NETWORKS
from floodtide.lab.simulate.workload import Compute, Loading

__all__ = [
    "NETWORKS",
    "Calibration",
    "Compute",
    "Estimate",
    "Job",
    "Links",
    "Loading",
    "agreement_s",
    "allreduce_cost_s",
    "calibrate",
    "ffn_buckets",
    "simulate",
]
