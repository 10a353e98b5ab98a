# SPDX-License-Identifier: Apache-2.0
"""Rounds of messages of floodtide's allreduce algorithms, as a model of the network sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class MessageRounds:
    """Equal rounds of messages: in each round, all ranks send at the same time.

    Attributes:
        count: Number of rounds, one after another.
        bytes: Bytes that a rank sends in a round at most; a fraction where chunks are not whole.
        reduce: Ranks combine the arriving values with theirs.
        leaving: Ranks of one node that send to other nodes at the same time; 0: all messages stay in their node.
    """

    count: int = 1
    bytes: float
    reduce: bool = False
    leaving: int = 0


def allreduce_rounds(
    algorithm: str, size_bytes: float, ranks: int, ranks_per_node: int
) -> list[MessageRounds]:
    """Return the rounds of an allreduce of `size_bytes` bytes; none for one rank.

    Args:
        algorithm: "ring", "rabenseifner", "recursive_doubling" or "two_level". cpp/src/comm/allreduce has their steps.
        size_bytes: Size of the array in bytes.
        ranks: Number of ranks, which fill one node after the other.
        ranks_per_node: Ranks of a full node.
    """
    if ranks == 1:
        return []
    return _ROUNDS[algorithm](size_bytes, ranks, min(ranks_per_node, ranks))


def _ring(size: float, ranks: int, per_node: int) -> list[MessageRounds]:
    """Chunks go around twice. One rank of each node sends to the next node."""
    around = MessageRounds(
        count=ranks - 1, bytes=size / ranks, reduce=True, leaving=int(ranks > per_node)
    )
    return [around, replace(around, reduce=False)]


def _recursive_doubling(size: float, ranks: int, per_node: int) -> list[MessageRounds]:
    """Ranks exchange whole arrays at distance 1, 2, 4, ... The ranks beyond a power of two send theirs before."""
    whole = MessageRounds(bytes=size, reduce=True, leaving=_leaving(1, ranks, per_node))
    members, width = _members(ranks)
    rounds = [
        replace(whole, leaving=_leaving(width << bit, ranks, per_node))
        for bit in range(members.bit_length() - 1)
    ]
    return [whole, *rounds, replace(whole, reduce=False)] if width == 2 else rounds


def _rabenseifner(size: float, ranks: int, per_node: int) -> list[MessageRounds]:
    """Ranks exchange halves, quarters, ... of the array at distance 1, 2, ..., and then the results in the same way."""
    members, width = _members(ranks)
    halves = [(size / 2, 1)] if width == 2 else []
    halves += [(size / (2 << bit), width << bit) for bit in range(members.bit_length() - 1)]
    return [
        MessageRounds(bytes=part, reduce=reduce, leaving=_leaving(distance, ranks, per_node))
        for part, distance in halves
        for reduce in (True, False)
    ]


def _two_level(size: float, ranks: int, per_node: int) -> list[MessageRounds]:
    """Reduce-scatter inside the nodes, allreduce of a shard between the nodes, allgather inside the nodes."""
    nodes = -(-ranks // per_node)
    shard = MessageRounds(count=per_node - 1, bytes=size / per_node, reduce=True)
    between = _rabenseifner(shard.bytes, nodes, 1) if nodes > 1 else []
    rounds = [replace(each, leaving=per_node) for each in between]
    return [shard, *rounds, replace(shard, reduce=False)] if per_node > 1 else rounds


def _members(ranks: int) -> tuple[int, int]:
    """Return the largest power of two up to `ranks`, and how many ranks share one of these places at most: 1 or 2."""
    members = 1 << (ranks.bit_length() - 1)
    return members, 1 if members == ranks else 2


def _leaving(distance: int, ranks: int, per_node: int) -> int:
    """Return how many ranks of a node send to other nodes if partners' numbers differ in the bit `distance`.

    If the number of ranks of a node is a power of two, all or none do. Otherwise some do, and all are counted.
    """
    return 0 if ranks <= per_node or per_node % (2 * distance) == 0 else per_node


_ROUNDS = {
    "ring": _ring,
    "rabenseifner": _rabenseifner,
    "recursive_doubling": _recursive_doubling,
    "two_level": _two_level,
}
