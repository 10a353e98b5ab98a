# SPDX-License-Identifier: Apache-2.0
"""Messages of gradients: the bucket that a hook of `Trainer.register_comm_hook` receives, and all buckets of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class GradBucket:
    """A bucket: neighbouring gradients that are summed over the ranks in one allreduce.

    Attributes:
        index: Index of the bucket in the step, from 0, in the order in which the buckets are sent.
        buffer: The gradients, float32 (n,). The hook changes them in place. The array shows the trainer's memory, which
            the next step overwrites: a hook that keeps gradients keeps a copy of the array.
        parameters: Names of the parameters in the bucket, in the order of the buffer. The last bucket also holds the
            requests of the ranks, such as "save a checkpoint", under the name "flags".
        is_last: True for the last bucket of the step.
    """

    index: int
    buffer: NDArray[np.float32]
    parameters: tuple[str, ...]
    is_last: bool


_FLAGS = 16  # numbers before the gradients: how many examples there are, and what ranks request

CommHook = Callable[[Any, GradBucket], None]
CoreHook = Callable[[int, NDArray[np.float32], list[int], bool], None]


def adapted(hook: CommHook, state: Any, parameters: Sequence[str]) -> CoreHook:
    """Return the hook in the form that the core calls: with indices of parts. Part 0 is the flags."""
    names = ["flags", *parameters]

    def call(index: int, buffer: NDArray[np.float32], parts: Sequence[int], is_last: bool) -> None:
        hook(
            state,
            GradBucket(
                index=index,
                buffer=buffer,
                parameters=tuple(names[part] for part in parts),
                is_last=is_last,
            ),
        )

    return call


def message_buckets(
    depth: int, features: int, bucket_bytes: int | None = None
) -> tuple[list[tuple[int, ...]], list[tuple[int, list[int]]]]:
    """Return how a flood-filling network's gradient is sent.

    Args:
        depth: Number of modules.
        features: Number of feature maps of every hidden layer.
        bucket_bytes: Minimum size of a message in bytes (`comm.bucket_mib`). None: one message for everything.

    Returns:
        The shapes of the network's arrays, and for each message in the order of sending its bytes and the indices of
        the arrays in it.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    if bucket_bytes is not None and bucket_bytes < 4:
        raise InvalidArgumentError(f"train: buckets of {bucket_bytes} bytes, expected at least 4")
    layout = _core.FfnOptions(depth=depth, features=features).layout()
    shapes = [tuple(shape) for _, shape, _ in layout]
    part_bytes = [4 * count for count in (_FLAGS, *map(math.prod, shapes))]
    messages: list[list[int]] = [[]]
    filled = 0
    for part in reversed(range(len(part_bytes))):  # the last layers are sent first, the flags last
        if bucket_bytes is not None and filled >= bucket_bytes:
            messages.append([])
            filled = 0
        messages[-1].insert(0, part)
        filled += part_bytes[part]
    return shapes, [
        (sum(part_bytes[part] for part in parts), [part - 1 for part in parts if part > 0])
        for parts in messages
    ]
