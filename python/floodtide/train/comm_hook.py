# SPDX-License-Identifier: Apache-2.0
"""What Trainer.register_comm_hook hands to its hook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class GradBucket:
    """Neighbouring gradients that are summed over ranks together.

    Attributes:
        index: Place among the step's buckets, from 0 in the order in which they are sent.
        buffer: float32 (n,), the gradients; written in place.
        parameters: Names of the parameters that it holds, in the buffer's order. The last bucket also has a few
            numbers by which ranks tell each other what to do next, under the name "flags".
        is_last: Whether it is the step's last one.
    """

    index: int
    buffer: NDArray[np.float32]
    parameters: tuple[str, ...]
    is_last: bool


CommHook = Callable[[Any, GradBucket], None]
CoreHook = Callable[[int, NDArray[np.float32], list[int], bool], None]


def adapted(hook: CommHook, state: Any, parameters: Sequence[str]) -> CoreHook:
    """The hook as the core calls it: with numbers of parts, of which the first is the flags."""
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
