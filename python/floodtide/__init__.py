# SPDX-License-Identifier: Apache-2.0
"""floodtide: distributed training and inference of flood-filling networks, with a C++ core."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from floodtide import errors
from floodtide._broadcasts import (
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from floodtide._collectives import (
    barrier,
    cross_rank,
    cross_size,
    join,
    local_rank,
    local_size,
    rank,
    size,
)
from floodtide._comm import ProcessSet, init, is_initialized, shutdown
from floodtide._core import __version__
from floodtide._exchanges import (
    allgather,
    allgather_async,
    allgather_object,
    alltoall,
    alltoall_async,
    grouped_allgather,
    grouped_allgather_async,
)
from floodtide._handles import poll, synchronize
from floodtide._reduction_rules import Average, Max, Min, Product, Sum
from floodtide._reductions import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reduce_scatter,
    grouped_reduce_scatter_async,
    reduce_scatter,
    reduce_scatter_async,
)

__all__ = [
    "Average",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "__version__",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "config",
    "cross_rank",
    "cross_size",
    "data",
    "errors",
    "evaluate",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reduce_scatter",
    "grouped_reduce_scatter_async",
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
    "reduce_scatter_async",
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
    from floodtide import (
        config,
        data,
        evaluate,
        lr,
        nn,
        optim,
        predict,
        report,
        segment,
        simulate,
        train,
    )
    from floodtide._run import run
    from floodtide._verify import verify_gradients
else:
    _FUNCTIONS = {"run": "_run", "verify_gradients": "_verify"}
    _MODULES = ("config", "data", "evaluate", "lr", "nn", "optim")
    _MODULES += ("predict", "report", "segment", "simulate", "train")

    def __getattr__(name):
        """Import a submodule when it is first used: start-up matters with a thousand ranks."""
        if name in _MODULES:
            return importlib.import_module(f"floodtide.{name}")
        if name in _FUNCTIONS:
            return getattr(importlib.import_module(f"floodtide.{_FUNCTIONS[name]}"), name)
        raise AttributeError(f"module 'floodtide' has no attribute '{name}'")
