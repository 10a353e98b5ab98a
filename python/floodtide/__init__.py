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
    allreduce_async,
    barrier,
    broadcast,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
    cross_rank,
    cross_size,
    join,
    local_rank,
    local_size,
    poll,
    rank,
    reduce_scatter,
    size,
    synchronize,
)
from floodtide._comm import ProcessSet, init, is_initialized, shutdown
from floodtide._core import __version__

__all__ = [
    "Average",
    "Max",
    "Min",
    "ProcessSet",
    "Sum",
    "__version__",
    "allgather",
    "allreduce",
    "allreduce_async",
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
    "join",
    "local_rank",
    "local_size",
    "lr",
    "nn",
    "optim",
    "poll",
    "predict",
    "rank",
    "reduce_scatter",
    "report",
    "run",
    "segment",
    "shutdown",
    "simulate",
    "size",
    "synchronize",
    "train",
    "verify_gradients",
]

if TYPE_CHECKING:
    from floodtide import config, evaluate, predict, report, segment, simulate, train
    from floodtide._run import run
    from floodtide._verify import verify_gradients
else:
    _FUNCTIONS = {"run": "_run", "verify_gradients": "_verify"}

    def __getattr__(name):
        """Import a submodule when it is first used: start-up matters with a thousand ranks."""
        if name in ("config", "evaluate", "predict", "report", "segment", "simulate", "train"):
            return importlib.import_module(f"floodtide.{name}")
        if name in _FUNCTIONS:
            return getattr(importlib.import_module(f"floodtide.{_FUNCTIONS[name]}"), name)
        raise AttributeError(f"module 'floodtide' has no attribute '{name}'")
