# SPDX-License-Identifier: Apache-2.0
"""Model of asynchronous training with one parameter server: ranks do not wait for each other; gradients are stale."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError
from floodtide.lab.simulate.networks import Interconnect


@dataclass(frozen=True, kw_only=True)
class AsynchronousEstimate:
    """Mean values of an asynchronous run.

    Attributes:
        ranks: Number of ranks that compute. The server is an additional rank.
        fovs_per_s: Fields of view per second of all ranks together.
        server_use: Share of the time that the busiest part of the server (receive, update, send) is busy, 0 to 1.
        staleness: Number of updates by other ranks between the parameters of a gradient and its own update.
    """

    ranks: int
    fovs_per_s: float
    server_use: float
    staleness: float


def simulate_asynchronous(
    cycle_s: float,
    size_bytes: int,
    ranks: int,
    network: Interconnect,
    *,
    update_s: float = 0.0,
    walkers_per_rank: int = 1,
) -> AsynchronousEstimate:
    """Return an estimate of asynchronous training with a parameter server.

    Each rank repeats three actions: it computes for `cycle_s`, sends its gradient to the server, and receives the
    parameters. The server receives, updates and sends; each of these three handles one rank at a time. The estimate is
    a mean value analysis of these queues (Reiser and Lavenberg, 1980). It is exact for exponential service times, and
    pessimistic if service times vary less. All ranks update equally often, so between two updates of a rank there is
    one update of every other rank: the staleness is ranks - 1.

    Args:
        cycle_s: Seconds from receiving parameters to a complete gradient on a rank, positive.
        size_bytes: Bytes of the gradient, and of the parameters.
        ranks: Number of ranks, at least 1.
        network: Connection between ranks and server.
        update_s: Seconds that the server needs for an update.
        walkers_per_rank: Number of fields of view in a gradient.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    if ranks < 1 or not cycle_s > 0 or size_bytes < 0 or not update_s >= 0:
        raise InvalidArgumentError(
            f"simulate: {ranks} ranks, cycle of {cycle_s} s, {size_bytes} bytes, update of "
            f"{update_s} s; expected at least 1, a positive number, at least 0 and at least 0"
        )
    transfer_s = size_bytes * network.beta_s_per_byte
    services_s = (transfer_s, update_s, transfer_s)
    waiting = [0.0] * len(services_s)
    rate = 0.0
    for count in range(1, ranks + 1):
        there_s = [
            service * (1.0 + queue) for service, queue in zip(services_s, waiting, strict=True)
        ]
        rate = count / (cycle_s + 2 * network.alpha_s + sum(there_s))
        waiting = [rate * seconds for seconds in there_s]
    return AsynchronousEstimate(
        ranks=ranks,
        fovs_per_s=rate * walkers_per_rank,
        server_use=rate * max(services_s),
        staleness=float(ranks - 1),
    )
