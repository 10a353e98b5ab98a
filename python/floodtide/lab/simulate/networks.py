# SPDX-License-Identifier: Apache-2.0
"""Networks, described by latency and bandwidth of a message between two nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interconnect:
    """A network on which a message of n bytes takes alpha_s + n * beta_s_per_byte seconds.

    Attributes:
        name: Name in rows and legends.
        alpha_s: Latency in seconds of software, adapters and switches.
        beta_s_per_byte: Seconds per byte, for one direction of one node.
        cpu_s_per_byte: Processor seconds in which a rank sends one byte and receives one byte: the overhead in LogGP
            (Alexandrov et al., 1995). 0 if the network adapter does this work (RDMA). With TCP, the cores that compute
            do this work.
        source: Source of the figures.
    """

    name: str
    alpha_s: float
    beta_s_per_byte: float
    cpu_s_per_byte: float = 0.0
    source: str


# Bandwidths are the data rates of the links. Latencies depend on adapter, switch and software more than on
# the standard. The latencies here are typical values and should be replaced by measured ones.
NETWORKS = {
    network.name: network
    for network in (
        Interconnect(
            name="10gbe",
            alpha_s=20e-6,
            beta_s_per_byte=1 / 1.25e9,
            source="10 Gbit/s (IEEE 802.3ae); 20 us assumed for MPI over TCP",
        ),
        Interconnect(
            name="100gbe",
            alpha_s=10e-6,
            beta_s_per_byte=1 / 12.5e9,
            source="100 Gbit/s (IEEE 802.3ba); 10 us assumed for MPI over TCP, RDMA needs about 2",
        ),
        Interconnect(
            name="dragonfly",
            alpha_s=2e-6,
            beta_s_per_byte=1 / 9e9,
            source="like Cray Aries: 14 Gbit/s lanes, an adapter of about 9 GB/s a node (Alverson "
            "et al., Cray XC Series Interconnect, 2012); 2 us assumed; not measured on the paper's machine",
        ),
    )
}

# Between ranks of one node, in shared memory: values of the order that `floodtide bench allreduce` measures.
MEMORY = Interconnect(
    name="memory",
    alpha_s=1e-6,
    beta_s_per_byte=1 / 4e9,
    source="assumed; floodtide bench allreduce on the ranks of a node measures it",
)
