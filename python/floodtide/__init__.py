# SPDX-License-Identifier: Apache-2.0
"""floodtide: distributed training and inference of flood-filling networks, with a C++ core."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from floodtide import data, errors, lr, nn, optim
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
    "config",
    "cross_rank",
    "cross_size",
    "data",
    "errors",
    "evaluate",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "lr",
    "nn",
    "optim",
    "rank",
    "report",
    "segment",
    "shutdown",
    "simulate",
    "size",
    "train",
]

if TYPE_CHECKING:
    from floodtide import config, evaluate, report, segment, simulate, train
else:

    def __getattr__(name):
        """Import a submodule when it is first used: some need libraries that others do not."""
        if name in ("config", "evaluate", "report", "segment", "simulate", "train"):
            return importlib.import_module(f"floodtide.{name}")
        raise AttributeError(f"module 'floodtide' has no attribute '{name}'")
