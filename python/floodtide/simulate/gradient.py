# SPDX-License-Identifier: Apache-2.0
"""The gradient of a flood-filling network: its bytes, and when parts of it are ready to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError

BYTES_PER_VALUE = 4
FORWARD_SHARE = 1 / 3  # of a step's multiplications; backward makes two products a layer


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A part of the gradient that travels as one message.

    Attributes:
        bytes: Its size.
        ready: The part of backward, 0 to 1, after which it is complete.
    """

    bytes: int
    ready: float


def ffn_buckets(depth: int, features: int, bucket_bytes: int = 0) -> tuple[Bucket, ...]:
    """Buckets of a network of 3x3x3 convolutions, in the order in which backward completes them.

    Args:
        depth: Modules, at least 1: an input module of two convolutions, depth - 1 residual modules.
        features: Feature maps of every hidden layer.
        bucket_bytes: A bucket is closed before the layer that would make it larger than this; a
            layer is never cut. 0: one bucket for everything, sent after backward.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    if depth < 1 or features < 1 or bucket_bytes < 0:
        raise InvalidArgumentError(
            f"gradient: depth {depth}, {features} features, buckets of {bucket_bytes} bytes; "
            "expected depth and features of at least 1, bytes of at least 0"
        )
    hidden = 27 * features * features
    layers = [(features + 1, 2 * features)]  # the last, voxelwise layer comes first
    layers += [(hidden + features, 2 * hidden)] * (2 * depth - 1)
    layers += [(27 * 2 * features + features, 27 * 2 * features)]  # needs no gradient of its input
    total = sum(work for _, work in layers)
    buckets: list[Bucket] = []
    size = done = 0
    for index, (values, work) in enumerate(layers):
        layer = values * BYTES_PER_VALUE
        if bucket_bytes and size and size + layer > bucket_bytes:
            buckets.append(Bucket(bytes=size, ready=done / total))
            size = 0
        size += layer
        done += work
        if index + 1 == len(layers):
            buckets.append(Bucket(bytes=size, ready=1.0))
    return tuple(buckets)


def exposed_s(ready_s: Sequence[float], cost_s: Sequence[float]) -> float:
    """Seconds between the end of backward and the last bucket's sum, on a network that carries one bucket at a time.

    A bucket starts when it is ready and the one before has ended: f_l = max(f_(l-1), r_l) + c_l; the result is f_last -
    r_last, never less than the last bucket's own cost.

    Args:
        ready_s: r_l, ascending.
        cost_s: c_l, one for each.
    """
    end_s = 0.0
    for ready, cost in zip(ready_s, cost_s, strict=True):
        end_s = max(end_s, ready) + cost
    return end_s - ready_s[-1]
