# SPDX-License-Identifier: Apache-2.0
"""The gradient of a flood-filling network: its bytes, and when parts of it are ready to be sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError

BYTES_PER_VALUE = 4
FLAGS = 16  # values in front of the gradient by which ranks tell each other what to do next
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


def ffn_buckets(depth: int, features: int, bucket_bytes: int | None = None) -> tuple[Bucket, ...]:
    """Buckets of a network of 3x3x3 convolutions as the trainer cuts them, in the order in which they are complete.

    Args:
        depth: Modules, at least 1: an input module of two convolutions, depth - 1 residual modules.
        features: Feature maps of every hidden layer.
        bucket_bytes: A bucket is closed once it has as many (`comm.bucket_mib`); weights and biases of a layer
            are never cut. None: one bucket for everything, sent after backward.

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
    """Values of each array of parameters from the last one on, then flags; when in backward they are final."""
    hidden = 27 * features * features
    first = 27 * 2 * features
    # Of each layer: weights, biases, and multiplications for the gradient of its weights and for that of its input.
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
