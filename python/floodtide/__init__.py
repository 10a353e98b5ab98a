# SPDX-License-Identifier: Apache-2.0
"""floodtide: distributed training and inference of flood-filling networks and U-Nets, with a C++ core."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from floodtide import errors
from floodtide._core import __version__
from floodtide.base import notes
from floodtide.comm import world
from floodtide.comm.collectives import (
    barrier,
    cross_rank,
    cross_size,
    join,
    local_rank,
    local_size,
    poll,
    rank,
    size,
    synchronize,
)
from floodtide.comm.exchanges import (
    allgather,
    allgather_async,
    allgather_object,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
    grouped_allgather,
    grouped_allgather_async,
)
from floodtide.comm.reductions import (
    Average,
    Max,
    Min,
    Product,
    Sum,
    allreduce,
    allreduce_,
    allreduce_algorithms,
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
from floodtide.comm.world import ProcessSet, init, is_initialized, shutdown

__all__ = [
    "Average", "Max", "Min", "ProcessSet", "Product", "Sum", "__version__", "agglomerate",
    "allgather", "allgather_async", "allgather_object", "allreduce", "allreduce_",
    "allreduce_algorithms", "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async",
    "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "broadcast_object",
    "broadcast_optimizer_state", "broadcast_parameters", "config", "cross_rank", "cross_size",
    "data", "errors", "evaluate", "grouped_allgather", "grouped_allgather_async",
    "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
    "grouped_allreduce_async_", "grouped_reduce_scatter", "grouped_reduce_scatter_async", "init",
    "is_initialized", "join", "local_rank", "local_size", "nn", "optim", "poll", "rank",
    "reduce_scatter", "reduce_scatter_async", "report", "run", "segment", "shutdown", "size",
    "synchronize", "train",
]  # fmt: skip

notes.speak_if(lambda: world.rank() == 0)

if TYPE_CHECKING:
    from floodtide import agglomerate, config, data, evaluate, nn, optim, report, segment, train
    from floodtide.comm.notebook import run
else:

    def __getattr__(name):
        """Import a package when it is first used. This keeps start-up fast on a thousand ranks."""
        if name == "run":
            return importlib.import_module("floodtide.comm.notebook").run
        if name in __all__:
            return importlib.import_module(f"floodtide.{name}")
        raise AttributeError(f"module 'floodtide' has no attribute '{name}'")

    def __dir__():
        """Return only the public names."""
        return sorted(__all__)
