# SPDX-License-Identifier: Apache-2.0
"""Messages of gradients: the bucket that a hook of `Trainer.register_comm_hook` receives, and all buckets of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core


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
    options = _core.FfnOptions(depth=depth, features=features)
    if bucket_bytes is None:
        bucket_bytes = 4 * (options.parameter_count() + 1)  # more than the gradients have
    shapes = [tuple(shape) for _, shape, _ in options.layout()]
    return shapes, _core.message_buckets(options, bucket_bytes)
