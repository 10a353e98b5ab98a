# SPDX-License-Identifier: Apache-2.0
"""Asynchronous training with one parameter server, for comparison: nobody waits for a rank, gradients grow stale."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError
from floodtide.simulate.networks import Interconnect


@dataclass(frozen=True, kw_only=True)
class AsynchronousEstimate:
    """Means of an asynchronous run.

    Attributes:
        ranks: Ranks that compute; the server is one more.
        fovs_per_s: Fields of view a second, of all ranks.
        server_use: The part of the time that the busiest of its parts is busy, 0 to 1.
        staleness: Updates by others between a rank's copy of the parameters and its gradient.
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
    """Each rank in turn computes for cycle_s, sends its gradient to the server and gets the parameters.

    The server receives, updates and sends, one rank at a time in each of the three. Mean value
    analysis of those queues (Reiser and Lavenberg, 1980), exact for exponential service times and
    pessimistic where they vary less. All ranks update equally often, so that between two updates
    of a rank there is one of every other: staleness ranks - 1.

    Args:
        cycle_s: Seconds of a rank between parameters and gradient, positive.
        size_bytes: Of the gradient, and of the parameters.
        ranks: At least 1.
        network: Between ranks and server.
        update_s: Seconds of the server for an update.
        walkers_per_rank: Fields of view in a gradient.

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
