# SPDX-License-Identifier: Apache-2.0
"""The gradient of a flood-filling network: sizes of its buckets, and when each bucket is ready."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.errors import InvalidArgumentError
from floodtide.nn import FFN

# of the multiplications of a step; the backward pass computes two products per layer
FORWARD_SHARE = 1 / 3
_FLAGS = 16  # numbers before the gradients: how many examples there are, and what ranks request


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
    if bucket_bytes is not None and bucket_bytes < 4:
        raise InvalidArgumentError(f"buckets of {bucket_bytes} bytes, expected at least 4")
    shapes = [array.shape for array in FFN(depth, features=features).state_dict().values()]
    ready = [1.0, *_ready(shapes)]  # of the flags: at the end
    part_bytes = [4 * count for count in (_FLAGS, *map(math.prod, shapes))]
    messages: list[list[int]] = [[]]
    filled = 0
    for part in reversed(range(len(part_bytes))):  # the last layers are sent first, the flags last
        if bucket_bytes is not None and filled >= bucket_bytes:
            messages.append([])
            filled = 0
        messages[-1].append(part)
        filled += part_bytes[part]
    return tuple(
        Bucket(
            bytes=sum(part_bytes[part] for part in parts),
            ready=max((ready[part] for part in parts if part), default=1.0),
        )
        for parts in messages
    )


def _ready(shapes: Sequence[Sequence[int]]) -> list[float]:
    """Return the fraction of the backward pass after which the gradient of each array of the network is complete.

    The backward pass goes from the last layer to the first. Each layer computes the gradient of its weights. It then
    computes the gradient of its input, with as many multiplications. The first layer has no gradient of its input.
    """
    products = [math.prod(shape) for shape in shapes[::2]]  # weights; the biases are next
    total = 2 * sum(products) - products[0]
    done = 0
    ready: list[float] = []
    for product in reversed(products):
        ready = 2 * [(done + product) / total] + ready
        done += 2 * product
    return ready
