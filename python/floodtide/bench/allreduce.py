# SPDX-License-Identifier: Apache-2.0
"""Allreduce algorithms and wire formats on the ranks of the job."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.rows import Row, enough, spread, stamped
from floodtide.comm import world
from floodtide.comm.notebook import require_several_ranks
from floodtide.comm.world import Communicator
from floodtide.errors import Error

FFN_PARAMETERS = 472353  # of the published network: 1.89 MB of gradients
YARDSTICK = "mpi blocking"  # a plain call of MPI_Allreduce, the reference of the ratios


@dataclass(frozen=True, kw_only=True)
class AllreduceOptions:
    """Length of the array, and the time to measure."""

    elements: int = option(
        FFN_PARAMETERS,
        "Length of the float32 array; the default is the number of parameters of the published network",
        range=limits.COUNT,
    )
    seconds: float = option(1.0, "Minimum time to measure each row", range=limits.SECONDS)


def allreduce(options: AllreduceOptions) -> list[Row]:
    """Measure all algorithms and wire formats on the ranks of the job, and return the rows on rank 0. Collective.

    At least 20 samples of each row are taken, or 3 if all samples together take 2 s.

    Returns:
        Rows as in `floodtide.bench.rows`. The additional keys are:
        `wire`: the wire format.
        `sent_bytes`: bytes that this rank sends in one allreduce; None if the MPI library sends them.
        `gb_per_s`: 1e9 bytes per second, for all rows computed from the n float32 bytes that each of p ranks sends in
        a ring: 2 n (p - 1) / p, divided by the median time.
        `ratio`: median time divided by that of the MPI library's blocking allreduce.
        A sample is the time of the slowest rank. Samples of all rows alternate.
    """
    require_several_ranks("bench allreduce")
    comm, elements = world.current(), options.elements
    calls = _calls(comm)
    values = (np.arange(elements) % 1000 + comm.rank).astype(np.float32)
    work = values.copy()
    sent_bytes = {}
    for name, (call, wire) in calls.items():
        np.copyto(work, values)
        call(work)
        _check(name, wire, work, comm)
        before = comm.traffic["bytes"]
        call(work)
        sent_bytes[name] = comm.traffic["bytes"] - before if "mpi" not in name else None

    samples: dict[str, list[float]] = {name: [] for name in calls}
    spent_s = 0.0
    # All ranks decide alike, because spent_s is equal on all ranks.
    while not enough(len(samples[YARDSTICK]), spent_s) or spent_s < options.seconds * len(calls):
        for name, (call, _) in calls.items():
            np.copyto(work, values)
            comm.barrier()
            start_s = time.perf_counter()
            call(work)
            slowest = np.array([time.perf_counter() - start_s])
            comm.start_allreduce(slowest, "max", "recursive_doubling").wait()
            samples[name].append(float(slowest[0]))
            spent_s += float(slowest[0])

    rows = []
    for name, (_, wire) in calls.items():
        median_s = statistics.median(samples[name])
        row = {
            "name": f"allreduce {wire}",
            "kernel": name,
            "wire": wire,
            "shape": f"{elements} float32",
            "threads": 1,
            "ranks": comm.size,
            "transport": comm.description,
            **spread(samples[name]),
            "ratio": median_s / statistics.median(samples[YARDSTICK]),
            "sent_bytes": sent_bytes[name],
            "gb_per_s": 2 * elements * 4 * (comm.size - 1) / comm.size / median_s * 1e-9,
        }
        rows.append(stamped(row))
    return rows if comm.rank == 0 else []


def _calls(comm: Communicator) -> dict[str, tuple[Callable[[Any], None], str]]:
    """Return the calls to measure: {name: (call, wire format)}."""

    def own(algorithm: str, wire: str) -> Callable[[Any], None]:
        return lambda work: comm.start_allreduce(work, "sum", algorithm, wire).wait()

    calls: dict[str, tuple[Callable[[Any], None], str]] = {
        YARDSTICK: (lambda work: comm.blocking_library_allreduce(work, "sum"), "native")
    }
    for row in _core.comm.allreduce_rows():
        calls[row["name"]] = own(row["name"], "native"), "native"
        if row["own"]:
            calls[f"{row['name']} bf16"] = own(row["name"], "bf16"), "bf16"
    return calls


def _check(name: str, wire: str, work: Any, comm: Communicator) -> None:
    expected = comm.size * (np.arange(len(work)) % 1000) + sum(range(comm.size))
    roundings = comm.size + 3 if wire == "bf16" else 0  # float32 sums of these integers are exact
    if not (np.abs(work - expected) <= ((1 + 2.0**-8) ** roundings - 1) * expected).all():
        raise Error(f"bench allreduce: {name} gave a wrong sum on rank {comm.rank}")
