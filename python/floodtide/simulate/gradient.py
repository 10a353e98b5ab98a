# SPDX-License-Identifier: Apache-2.0
"""The gradient of a flood-filling network: sizes of its buckets, and when each bucket is ready."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError

BYTES_PER_VALUE = 4
FLAGS = 16  # values in front of the gradient with which ranks exchange requests
FORWARD_SHARE = (
    1 / 3
)  # of the multiplications of a step; the backward pass computes two products per layer


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A part of the gradient that is sent as one message.

    Attributes:
        bytes: Size in bytes.
        ready: Fraction of the backward pass, 0 to 1, after which the bucket is complete.
    """

    bytes: int
    ready: float


def ffn_buckets(depth: int, features: int, bucket_bytes: int | None = None) -> tuple[Bucket, ...]:
    """Return the buckets of a flood-filling network, as the trainer forms them, in the order in which they complete.

    Args:
        depth: Number of modules, at least 1: an input module of two convolutions and depth - 1 residual modules.
        features: Number of feature maps of every hidden layer.
        bucket_bytes: Minimum size of a bucket in bytes (`comm.bucket_mib`). The weights or biases of a layer are never
            split. None: one bucket for everything, sent after the backward pass.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    if depth < 1 or features < 1 or (bucket_bytes is not None and bucket_bytes < BYTES_PER_VALUE):
        raise InvalidArgumentError(
            f"gradient: depth {depth}, {features} features, buckets of {bucket_bytes} bytes; "
            f"expected depth and features of at least 1, bytes of at least {BYTES_PER_VALUE}"
        )
    parts = _parts(depth, features)
    limit = math.inf if bucket_bytes is None else bucket_bytes
    buckets: list[Bucket] = []
    size, complete = 0, 0.0
    for values, ready in parts:
        if size >= limit:
            buckets.append(Bucket(bytes=size, ready=complete))
            size = 0
        size += values * BYTES_PER_VALUE
        complete = ready
    buckets.append(Bucket(bytes=size, ready=complete))
    return tuple(buckets)


def _parts(depth: int, features: int) -> list[tuple[int, float]]:
    """Return (number of values, fraction of the backward pass) of each parameter array, last layer first, and flags."""
    hidden = 27 * features * features
    first = 27 * 2 * features
    # For each layer: weights, biases, multiplications for the weight gradient, multiplications for the input gradient.
    layers = [(features, 1, features, features)]  # the last layer is voxelwise
    layers += [(hidden, features, hidden, hidden)] * (2 * depth - 1)
    layers += [(first, features, first, 0)]
    total = sum(by_weights + by_input for _, _, by_weights, by_input in layers)
    done = 0
    parts: list[tuple[int, float]] = []
    for weights, biases, by_weights, by_input in layers:
        ready = (done + by_weights) / total
        parts += [(biases, ready), (weights, ready)]
        done += by_weights + by_input
    return [*parts, (FLAGS, 1.0)]


def exposed_s(ready_s: Sequence[float], cost_s: Sequence[float]) -> float:
    """Return the seconds between the end of the backward pass and the end of the last bucket's sum.

    The network sums one bucket at a time. Bucket l starts when it is ready and the bucket before has ended, so it ends
    at f_l = max(f_(l-1), r_l) + c_l. The result is f_last - r_last, which is at least the cost of the last bucket.

    Args:
        ready_s: Times r_l in seconds at which buckets are ready, in ascending order.
        cost_s: Seconds c_l to sum each bucket.
    """
    end_s = 0.0
    for ready, cost in zip(ready_s, cost_s, strict=True):
        end_s = max(end_s, ready) + cost
    return end_s - ready_s[-1]
