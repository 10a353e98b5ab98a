# SPDX-License-Identifier: Apache-2.0
"""Cost of an allreduce: time of the agreement and of the steps of each algorithm, from formulas or measurements.

Sources: Thakur, Rabenseifner and Gropp (2005) for halving, doubling and numbers of ranks that are not
a power of two; Patarasuk and Yuan (2009) for the ring. docs/scaling.md has the formulas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from floodtide.base import reading
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.simulate.networks import MEMORY, Interconnect

BEST = "best"
AGREEMENT_BYTES = 88  # of each message of an agreement, plus 8 bytes for each 64 ranks
ADD_BYTES_PER_S = 8e9  # received bytes that one core adds per second: an assumption


@dataclass(frozen=True, kw_only=True)
class Links:
    """Connections between ranks.

    Attributes:
        network: Connection between nodes.
        ranks_per_node: Number of consecutive ranks that share a node and its network adapter.
        memory: Connection between ranks of one node.
        add_s_per_byte: Seconds to add one received byte to the local values.
    """

    network: Interconnect
    ranks_per_node: int = 1
    memory: Interconnect = MEMORY
    add_s_per_byte: float = 1 / ADD_BYTES_PER_S


@dataclass(frozen=True, kw_only=True)
class Step:
    """Equal rounds of messages in which every rank takes part.

    Attributes:
        count: Number of rounds.
        bytes: Bytes that a rank sends in a round, a float because chunks are not rounded.
        added: True if received values are added to the local values.
        lanes: Number of ranks of a node that send to other nodes at the same time; 0: messages stay within nodes.
    """

    count: int
    bytes: float
    added: bool
    lanes: int


def allreduce_cost_s(algorithm: str, size_bytes: int, ranks: int, links: Links) -> float:
    """Return the seconds to sum `size_bytes` bytes over `ranks` ranks, after their agreement (`agreement_s`).

    Args:
        algorithm: A name of ALGORITHMS, or BEST for the fastest of them.
        size_bytes: Size of the array in bytes.
        ranks: Number of ranks.
        links: Connections between the ranks.

    Raises:
        InvalidArgumentError: If the algorithm is unknown or a number is out of range.
    """
    if algorithm == BEST:
        return min(allreduce_cost_s(name, size_bytes, ranks, links) for name in ALGORITHMS)
    return sum(_step_s(step, links) for step in _steps(algorithm, size_bytes, ranks, links))


def allreduce_cpu_s(algorithm: str, size_bytes: int, ranks: int, links: Links) -> float:
    """Return the processor seconds that a rank needs to send and receive the messages between nodes of an allreduce.

    Args:
        algorithm: A name of ALGORITHMS, or BEST for the one with the lowest `allreduce_cost_s`.
        size_bytes: Size of the array in bytes.
        ranks: Number of ranks.
        links: Connections between the ranks.

    Raises:
        InvalidArgumentError: If the algorithm is unknown or a number is out of range.
    """
    if algorithm == BEST:
        algorithm = min(
            ALGORITHMS, key=lambda name: allreduce_cost_s(name, size_bytes, ranks, links)
        )
    steps = _steps(algorithm, size_bytes, ranks, links)
    sent = sum(step.count * step.bytes for step in steps if step.lanes)
    return sent * links.network.cpu_s_per_byte


def _steps(algorithm: str, size_bytes: int, ranks: int, links: Links) -> list[Step]:
    """Return the steps of an algorithm in order; an empty list for one rank."""
    if ranks < 1 or size_bytes < 0 or links.ranks_per_node < 1:
        raise InvalidArgumentError(
            f"allreduce: {size_bytes} bytes on {ranks} ranks, {links.ranks_per_node} a node; "
            "expected at least 0, 1 and 1"
        )
    if algorithm not in ALGORITHMS:
        known = ", ".join((*ALGORITHMS, BEST))
        raise InvalidArgumentError(
            f"allreduce: no cost formula for '{algorithm}', expected one of {known}"
        )
    if ranks == 1:
        return []
    node = min(links.ranks_per_node, ranks)
    return list(ALGORITHMS[algorithm](size_bytes, ranks, node))


def agreement_s(ranks: int, links: Links) -> float:
    """Return the seconds of an agreement: after the last rank starts a collective, until all ranks know that all did.

    An agreement takes ceil(log2 ranks) messages one after another, in which rank r tells rank r + 1, r + 2, r + 4, ...
    what it knows (docs/decisions/20261122-agreement.md). With several nodes, some messages of each round leave a node.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    if ranks < 1 or links.ranks_per_node < 1:
        raise InvalidArgumentError(
            f"agreement: {ranks} ranks, {links.ranks_per_node} a node; expected at least 1"
        )
    size = AGREEMENT_BYTES + 8 * math.ceil(ranks / 64)
    leaves = ranks > links.ranks_per_node
    return sum(
        _step_s(
            Step(
                count=1,
                bytes=size,
                added=False,
                lanes=min(1 << round_, links.ranks_per_node) if leaves else 0,
            ),
            links,
        )
        for round_ in range((ranks - 1).bit_length())
    )


def _step_s(step: Step, links: Links) -> float:
    way = links.network if step.lanes else links.memory
    seconds = way.alpha_s + step.bytes * way.beta_s_per_byte * max(step.lanes, 1)
    if step.added:
        seconds += step.bytes * links.add_s_per_byte
    return step.count * seconds


def _ring(size: float, ranks: int, node: int) -> Iterator[Step]:
    """Yield the steps of a ring: chunks go around twice, and one rank of each node sends to the next node."""
    lanes = 1 if ranks > node else 0
    yield Step(count=ranks - 1, bytes=size / ranks, added=True, lanes=lanes)
    yield Step(count=ranks - 1, bytes=size / ranks, added=False, lanes=lanes)


def _rabenseifner(size: float, ranks: int, node: int) -> Iterator[Step]:
    """Yield the steps of recursive halving, nearest rank first, and recursive doubling.

    If the number of ranks is not a power of two, some pairs of ranks act as one. Before, each rank of a pair sums one
    half for both; afterwards it passes this half on. (MPICH passes the whole array, which costs twice as much.)
    """
    power = 1 << (ranks.bit_length() - 1)
    if power < ranks:
        yield Step(count=1, bytes=size / 2, added=True, lanes=_lanes(1, ranks, node))
        yield Step(count=1, bytes=size / 2, added=False, lanes=_lanes(1, ranks, node))
    for round_ in range(power.bit_length() - 1):
        part, lanes = size / 2 ** (round_ + 1), _lanes(1 << round_, ranks, node)
        yield Step(count=1, bytes=part, added=True, lanes=lanes)
        yield Step(count=1, bytes=part, added=False, lanes=lanes)


def _recursive_doubling(size: float, ranks: int, node: int) -> Iterator[Step]:
    """Yield the steps of recursive doubling: ranks exchange whole arrays at distance 1, 2, 4, ..."""
    power = 1 << (ranks.bit_length() - 1)
    if power < ranks:
        yield Step(count=1, bytes=size, added=True, lanes=_lanes(1, ranks, node))
        yield Step(count=1, bytes=size, added=False, lanes=_lanes(1, ranks, node))
    for round_ in range(power.bit_length() - 1):
        yield Step(count=1, bytes=size, added=True, lanes=_lanes(1 << round_, ranks, node))


def _two_level(size: float, ranks: int, node: int) -> Iterator[Step]:
    """Yield the steps of two levels: reduce-scatter within nodes, sums between nodes, allgather within nodes."""
    nodes = math.ceil(ranks / node)
    if node > 1:
        yield Step(count=node - 1, bytes=size / node, added=True, lanes=0)
        yield Step(count=node - 1, bytes=size / node, added=False, lanes=0)
    if nodes > 1:
        for step in _rabenseifner(size / node, nodes, 1):
            yield Step(count=step.count, bytes=step.bytes, added=step.added, lanes=node)


def _lanes(distance: int, ranks: int, node: int) -> int:
    """Return how many ranks of a node send to another node, if each sends to the rank that differs in one bit.

    If the number of ranks of a node is a power of two, all or none do. Otherwise some do, and all are counted.
    """
    within = ranks <= node or node % (2 * distance) == 0
    return 0 if within else node


ALGORITHMS: dict[str, Callable[[float, int, int], Iterator[Step]]] = {
    "ring": _ring,
    "rabenseifner": _rabenseifner,
    "recursive_doubling": _recursive_doubling,
    "two_level": _two_level,
}


@dataclass(frozen=True)
class MeasuredAllreduce:
    """Measured times from a file of JSON lines, as `floodtide bench allreduce --json` and examples/simgrid print them.

    Times are interpolated between measured numbers of ranks (in the logarithm) and sizes in bytes. Outside of the
    measured range an error is raised. One rank needs no time.

    Attributes:
        path: The file.
        times_s: Seconds: {algorithm: {ranks: {bytes: seconds}}}.
    """

    path: Path
    times_s: Mapping[str, Mapping[int, Mapping[int, float]]] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> MeasuredAllreduce:
        """Return the measured times of a file. Rows of other benchmarks are ignored.

        Raises:
            InvalidFileError: If the file is missing, a line is not a row of a benchmark, or no row is usable.
        """
        times: dict[str, dict[int, dict[int, float]]] = {}
        lines = reading.read_text(path, "rows of floodtide bench allreduce").splitlines()
        for number, line in enumerate(lines, start=1):
            if line.strip():
                _add_row(times, line, f"{path}, line {number}")
        if not times:
            raise InvalidFileError(f"{path}: no row of floodtide bench allreduce in it")
        return cls(path, times)

    def cost_s(self, algorithm: str, size_bytes: int, ranks: int) -> float:
        """Return the seconds to sum `size_bytes` bytes over `ranks` ranks.

        Raises:
            InvalidArgumentError: If algorithm, ranks or size are outside of what was measured.
        """
        if ranks == 1:
            return 0.0
        by_ranks = self.times_s.get(algorithm)
        if by_ranks is None:
            known = ", ".join(sorted(self.times_s))
            raise InvalidArgumentError(
                f"{self.path}: nothing about '{algorithm}', expected one of {known}"
            )
        counts = sorted(by_ranks)
        if not counts[0] <= ranks <= counts[-1]:
            raise InvalidArgumentError(
                f"{self.path}: {algorithm} was measured on {counts[0]} to {counts[-1]} ranks, "
                f"not on {ranks}"
            )
        below = max(count for count in counts if count <= ranks)
        above = min(count for count in counts if count >= ranks)
        ends = [self._at(algorithm, count, size_bytes) for count in (below, above)]
        return float(np.interp(math.log(ranks), [math.log(below), math.log(above)], ends))

    def _at(self, algorithm: str, ranks: int, size_bytes: int) -> float:
        by_size = self.times_s[algorithm][ranks]
        sizes = sorted(by_size)
        if not sizes[0] <= size_bytes <= sizes[-1]:
            raise InvalidArgumentError(
                f"{self.path}: {algorithm} was measured with {sizes[0]} to {sizes[-1]} bytes on "
                f"{ranks} ranks, not with {size_bytes}"
            )
        return float(np.interp(size_bytes, sizes, [by_size[size] for size in sizes]))


def _add_row(times: dict[str, dict[int, dict[int, float]]], line: str, where: str) -> None:
    try:
        row: Any = json.loads(line)
        if not row["name"].startswith("allreduce "):
            return
        count, kind = row["shape"].split()
        size = int(count) * {"float32": 4, "float64": 8, "int64": 8}[kind]
        seconds, ranks = float(row["median_s"]), int(row["ranks"])
        if not (math.isfinite(seconds) and seconds > 0 and ranks > 1 and size >= 0):
            raise ValueError
        times.setdefault(row["kernel"], {}).setdefault(ranks, {})[size] = seconds
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidFileError(
            f'{where}: expected {{"name": "allreduce ...", "kernel": ALGORITHM, "ranks": ..., '
            f'"shape": "N float32", "median_s": ...}}'
        ) from None
