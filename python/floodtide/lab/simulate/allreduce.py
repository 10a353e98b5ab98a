# SPDX-License-Identifier: Apache-2.0
"""Cost of an allreduce: time of the agreement and of the rounds of messages, from formulas or measurements.

`rounds` has the rounds of each algorithm. The formulas are in docs/lab/scaling_model.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import allreduce_algorithms
from floodtide.base import limits, reading
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.lab.simulate.networks import MEMORY, Interconnect
from floodtide.lab.simulate.rounds import MessageRounds, allreduce_rounds

ALGORITHMS = allreduce_algorithms(own=True)
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
    return sum(_rounds_s(rounds, links) for rounds in _rounds(algorithm, size_bytes, ranks, links))


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
    all_rounds = _rounds(algorithm, size_bytes, ranks, links)
    sent = sum(rounds.count * rounds.bytes for rounds in all_rounds if rounds.leaving)
    return sent * links.network.cpu_s_per_byte


def _rounds(algorithm: str, size_bytes: int, ranks: int, links: Links) -> list[MessageRounds]:
    """Return the rounds of messages of an algorithm; none for one rank."""
    if algorithm not in ALGORITHMS:
        known = ", ".join((*ALGORITHMS, BEST))
        raise InvalidArgumentError(
            f"allreduce: no cost formula for '{algorithm}', expected one of {known}"
        )
    if size_bytes < 0 or ranks < 1 or links.ranks_per_node < 1:
        raise InvalidArgumentError(
            f"allreduce: {size_bytes} bytes on {ranks} ranks, {links.ranks_per_node} a node;"
            " expected at least 0, 1 and 1"
        )
    return allreduce_rounds(algorithm, size_bytes, ranks, links.ranks_per_node)


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
        _rounds_s(
            MessageRounds(
                bytes=size, leaving=min(1 << round_, links.ranks_per_node) if leaves else 0
            ),
            links,
        )
        for round_ in range((ranks - 1).bit_length())
    )


def _rounds_s(rounds: MessageRounds, links: Links) -> float:
    way = links.network if rounds.leaving else links.memory
    seconds = way.alpha_s + rounds.bytes * way.beta_s_per_byte * max(rounds.leaving, 1)
    if rounds.reduce:
        seconds += rounds.bytes * links.add_s_per_byte
    return rounds.count * seconds


@dataclass(frozen=True)
class MeasuredAllreduce:
    """Measured times from a file of JSON lines, as `floodtide bench allreduce --json` prints them.

    examples/lab/simgrid prints such lines, too. Times are interpolated between measured numbers of ranks (in the
    logarithm) and sizes in bytes. Outside of the measured range an error is raised. One rank needs no time.

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
        if not (0 < seconds <= limits.SECONDS.maximum and ranks > 1 and size >= 0):
            raise ValueError
        times.setdefault(row["kernel"], {}).setdefault(ranks, {})[size] = seconds
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidFileError(
            f'{where}: expected {{"name": "allreduce ...", "kernel": ALGORITHM, "ranks": ..., '
            f'"shape": "N float32", "median_s": ...}}'
        ) from None
