# SPDX-License-Identifier: Apache-2.0
"""floodtide: distributed training and inference of flood-filling networks, with a C++ core."""

from floodtide import data, errors
from floodtide._collectives import (
    Average,
    Max,
    Min,
    Sum,
    allgather,
    allreduce,
    barrier,
    broadcast,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
    cross_rank,
    cross_size,
    local_rank,
    local_size,
    rank,
    size,
)
from floodtide._comm import init, is_initialized, shutdown
from floodtide._core import __version__

__all__ = [
    "Average",
    "Max",
    "Min",
    "Sum",
    "__version__",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "data",
    "errors",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]
