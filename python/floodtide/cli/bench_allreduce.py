# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench allreduce`: every allreduce algorithm in turn, on the ranks of the job."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

import click
import numpy as np

from floodtide.cli.bench import row_options, seconds_option
from floodtide.errors import Error, InvalidArgumentError

LEAST_SAMPLES = 20
FFN_PARAMETERS = 472353  # of the published network: 1.89 MB of gradients


@click.command()
@click.option(
    "--elements",
    type=click.IntRange(min=1),
    default=FFN_PARAMETERS,
    show_default=True,
    help="Length of the float32 array; the default is the published network's gradient.",
)
@seconds_option
@row_options
def command(elements: int, seconds: float) -> Iterable[dict[str, Any]]:
    """Time the sum of an array over ranks, by each algorithm in turn, after checking it.

    Example: floodtide bench allreduce --json (started by mpiexec -n 2)
    """
    from floodtide import _comm

    _comm.init()
    if _comm.size() == 1:
        error = InvalidArgumentError(
            "bench allreduce: one rank has nothing to sum; start it with mpiexec -n 2 or more"
        )
        error.agreed = True
        raise error
    result = list(rows(_comm.current(), elements=elements, seconds=seconds))
    return result if _comm.rank() == 0 else []


def rows(comm: Any, *, elements: int, seconds: float) -> Iterator[dict[str, Any]]:
    """One row an algorithm. Collective.

    Args:
        comm: The core's communicator, of several ranks.
        elements: Length of the float32 array.
        seconds: Least time to spend on an algorithm; at least LEAST_SAMPLES samples are taken.

    Yields:
        Rows as in `floodtide.bench`, and `gb_per_s`: bytes that a ring sends from each rank,
        2 n (p - 1) / p, by the median time, for all algorithms. A sample is the slowest rank's.
    """
    from floodtide import _core
    from floodtide.bench import stamped

    algorithms = [row["name"] for row in _core.comm.allreduce_rows()]
    values = (np.arange(elements) % 1000 + comm.rank).astype(np.float32)
    expected = np.float32(comm.size) * (np.arange(elements) % 1000) + sum(range(comm.size))
    work = values.copy()
    for algorithm in algorithms:
        np.copyto(work, values)
        comm.allreduce(work, "sum", algorithm)
        if not np.array_equal(work, expected):
            raise Error(f"bench allreduce: {algorithm} gave a wrong sum on rank {comm.rank}")

    samples: dict[str, list[float]] = {algorithm: [] for algorithm in algorithms}
    spent_s = 0.0
    while len(samples[algorithms[0]]) < LEAST_SAMPLES or spent_s < seconds * len(algorithms):
        for algorithm in algorithms:
            np.copyto(work, values)
            comm.barrier()
            start_s = time.perf_counter()
            comm.allreduce(work, "sum", algorithm)
            slowest = np.array([time.perf_counter() - start_s])
            comm.allreduce(slowest, "max", "ring")
            samples[algorithm].append(float(slowest[0]))
            spent_s += float(slowest[0])

    for algorithm in algorithms:
        times_s = sorted(samples[algorithm])
        median_s = statistics.median(times_s)
        sent_bytes = 2 * elements * 4 * (comm.size - 1) / comm.size
        yield stamped(
            {
                "name": f"allreduce {algorithm}",
                "kernel": algorithm,
                "shape": f"{elements} float32",
                "threads": 1,
                "ranks": comm.size,
                "transport": comm.description,
                "samples": len(times_s),
                "median_s": median_s,
                "p10_s": times_s[len(times_s) // 10],
                "p90_s": times_s[-1 - len(times_s) // 10],
                "min_s": times_s[0],
                "gb_per_s": sent_bytes / median_s * 1e-9,
            }
        )
