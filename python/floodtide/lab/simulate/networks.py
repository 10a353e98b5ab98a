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
    """

    name: str
    alpha_s: float
    beta_s_per_byte: float
    cpu_s_per_byte: float = 0.0


# Bandwidths are the data rates of the links: IEEE 802.3ae, IEEE 802.3ba, and one like Cray Aries (lanes of 14 Gbit/s,
# an adapter of about 9 GB/s a node; Alverson et al., Cray XC Series Interconnect, 2012), not measured on the paper's
# machine. Latencies depend on adapter, switch and software more than on the standard. Those here are assumed, for MPI
# over TCP on both Ethernets (RDMA needs about 2 us), and should be replaced by measured ones.
NETWORKS = {
    network.name: network
    for network in (
        Interconnect(name="10gbe", alpha_s=20e-6, beta_s_per_byte=1 / 1.25e9),
        Interconnect(name="100gbe", alpha_s=10e-6, beta_s_per_byte=1 / 12.5e9),
        Interconnect(name="dragonfly", alpha_s=2e-6, beta_s_per_byte=1 / 9e9),
    )
}

# Between ranks of one node, in shared memory: values of the order that `floodtide bench allreduce` measures.
MEMORY = Interconnect(name="memory", alpha_s=1e-6, beta_s_per_byte=1 / 4e9)
