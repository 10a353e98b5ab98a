# SPDX-License-Identifier: Apache-2.0
"""Time floodtide's allreduce algorithms on a simulated dragonfly; a JSON object an algorithm, ranks and elements.

Usage: python examples/lab/simgrid/run.py --program build/dev/examples/lab/simgrid/floodtide_smpi --ranks 2,16,1024

Writes the platform as SimGrid's XML, starts the program with smpirun (Debian: libsimgrid-dev), and
prints the rows, which `floodtide lab simulate --allreduce` reads; --formula adds what it takes without
them. Figures, times and memory: README.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# float32 values of the trainer's smallest message with the published network, and of its 472,353 gradients and 16
# flags: times of the sizes between them are interpolated.
ELEMENTS = [57136, 472369]


@dataclass(frozen=True)
class Dragonfly:
    """Groups of chassis of routers of nodes, like a Cray XC40 with Aries routers, of Theta's size.

    SimGrid gives all links one bandwidth and latency; more bandwidth is several links in one. It
    routes between two groups by one pair of routers, where Aries spreads over all: so many links
    are counted there, and to that router's chassis, that two groups have about as much between them
    as Theta's published optical ports give (9,600 in 10 groups, 12.5 Gbit/s lanes, 3 a port).

    Attributes:
        groups: Pairs of cabinets.
        chassis: Of a group.
        routers: Of a chassis.
        nodes: Of a router.
        blue: Links between two groups.
        black: Links between routers of the same number in two chassis of a group.
        green: Links between two routers of a chassis.
        gb_per_s: Bandwidth of a link each way, and of a node, 1e9 bytes a second.
        hop_us: Latency of a link; a message crosses 2 to 7.
        end_us: Time of sender and of receiver for a message, whatever its length.
    """

    groups: int = 12
    chassis: int = 6
    routers: int = 16
    nodes: int = 4
    blue: int = 40
    black: int = 7
    green: int = 1
    gb_per_s: float = 9.0
    hop_us: float = 0.15
    end_us: float = 0.75

    @property
    def size(self) -> int:
        """Nodes in all."""
        return self.groups * self.chassis * self.routers * self.nodes

    def xml(self) -> str:
        """The platform description."""
        shape = f"{self.groups},{self.blue};{self.chassis},{self.black};{self.routers},{self.green};{self.nodes}"
        return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="dragonfly" prefix="node-" radical="0-{self.size - 1}" suffix="" speed="1Gf"
           bw="{self.gb_per_s}GBps" lat="{self.hop_us}us" sharing_policy="SPLITDUPLEX"
           loopback_bw="4GBps" loopback_lat="1us" topology="DRAGONFLY" topo_parameters="{shape}"/>
</platform>
"""

    def options(self) -> list[str]:
        """What SMPI is told: nothing but latency, bandwidth and contention; computing costs nothing."""
        settings = {
            "smpi/simulate-computation": "no",
            "smpi/send-is-detached-thresh": str(1 << 30),
            "smpi/ois": f"0:{self.end_us * 1e-6}:0",
            "smpi/or": f"0:{self.end_us * 1e-6}:0",
            "smpi/bw-factor": "0:1",
            "smpi/lat-factor": "0:1",
            "network/TCP-gamma": "0",
        }
        return ["--log=root.thres:warning"] + [f"--cfg={k}:{v}" for k, v in settings.items()]


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Simulate every number of ranks in turn."""
    machine = Dragonfly()
    with tempfile.TemporaryDirectory() as folder:
        platform, hosts = Path(folder, "platform.xml"), Path(folder, "hosts")
        platform.write_text(machine.xml())
        for ranks, elements in itertools.product(arguments.ranks, arguments.elements):
            places = [f"node-{rank // arguments.ranks_per_node}\n" for rank in range(ranks)]
            hosts.write_text("".join(places))
            command = ["smpirun", "-np", str(ranks), "-platform", platform, "-hostfile", hosts]
            command += [*machine.options(), arguments.program.resolve()]
            command += [str(elements), *arguments.algorithms]
            # smpirun's own option for its temporary files swallows the argument after it (3.32).
            result = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env={**os.environ, "TMPDIR": folder},
                check=False,
            )
            if result.returncode:
                sys.exit(
                    f"run.py: {ranks} ranks: smpirun ended with {result.returncode}: {result.stderr}"
                )
            for line in result.stdout.splitlines():
                row = json.loads(line) | {
                    "platform": "dragonfly",
                    "ranks_per_node": arguments.ranks_per_node,
                }
                yield row | ({"formula_s": formula_s(row)} if arguments.formula else {})


def formula_s(row: dict[str, object]) -> float:
    """What `floodtide lab simulate` takes without measured times, adding up for nothing."""
    from floodtide.lab import simulate

    links = simulate.Links(
        network=simulate.NETWORKS["dragonfly"],
        ranks_per_node=int(str(row["ranks_per_node"])),
        add_s_per_byte=0.0,
    )
    size = 4 * int(str(row["shape"]).split()[0])
    return simulate.allreduce_cost_s(str(row["kernel"]), size, int(str(row["ranks"])), links)


def whole_numbers(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(word) for word in text.split(",")]


def main() -> None:
    """Parse the command line and print the rows as they come."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="the built floodtide_smpi")
    parser.add_argument("--ranks", type=whole_numbers, default=[2, 16, 128, 1024])
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--elements", type=whole_numbers, default=ELEMENTS, help="float32 values")
    parser.add_argument("--algorithms", type=lambda text: text.split(","), default=[])
    parser.add_argument("--formula", action="store_true", help="needs floodtide importable")
    arguments = parser.parse_args()
    if not arguments.program.is_file():
        parser.error(
            f"--program: {arguments.program} is not there; build the target floodtide_smpi"
        )
    if shutil.which("smpirun") is None:
        parser.error("smpirun is not on the path; install SimGrid (Debian: libsimgrid-dev)")
    if min(*arguments.ranks, *arguments.elements, arguments.ranks_per_node) < 1:
        parser.error("--ranks, --ranks-per-node and --elements: expected at least 1")
    if max(arguments.ranks) > Dragonfly().size * arguments.ranks_per_node:
        parser.error(f"--ranks: the platform has {Dragonfly().size} nodes")
    for row in rows(arguments):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
