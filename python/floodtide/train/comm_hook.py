# SPDX-License-Identifier: Apache-2.0
"""The bucket of gradients that a hook of `Trainer.register_comm_hook` receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
