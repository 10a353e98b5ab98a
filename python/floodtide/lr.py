# SPDX-License-Identifier: Apache-2.0
"""Learning rates as pure functions of the step and the number of workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from floodtide import _core


def scale_rows() -> list[dict[str, Any]]:
    """Return names and help of the scaling rules."""
    result: list[dict[str, Any]] = _core.scale_rows()
    return result


def schedule_rows() -> list[dict[str, Any]]:
    """Return names, help and parameters of the schedules."""
    result: list[dict[str, Any]] = _core.schedule_rows()
    return result


def scale(rule: str) -> Callable[[int], float]:
    """Return factor(workers) of a rule: "none", "linear", "sqrt", or "paper" (linear up to 16, then the root).

    Raises:
        InvalidArgumentError: If there is no such rule; the factor raises it for workers < 1.
    """
    _core.scale_factor(rule, 1)

    def factor(workers: int) -> float:
        return float(_core.scale_factor(rule, workers))

    return factor


class _Schedule:
    def __init__(self, name: str, scale: str, **values: float | str) -> None:
        self._name = name
        self._scale = scale
        self._values = values
        self(0)

    def __call__(self, step: int, workers: int = 1) -> float:
        """Return the rate of update `step` (from 0) with so many workers."""
        factor = _core.scale_factor(self._scale, workers)
        return float(_core.Schedule(self._name, self._values, factor).at(step))


class Warmup(_Schedule):
    """The scaled rate base_lr * factor(workers), reached by a linear warm-up.

    Args:
        base_lr: Rate of one worker.
        warmup_steps: Updates until the scaled rate is reached; 0: none.
        scale: Rule by which the rate grows with the workers: "none", "linear", "sqrt" or "paper".
        warmup_start: Rate at step 0: "base" (the base rate) or "zero".

    Raises:
        InvalidArgumentError: For an unknown rule or start, or a number out of range.
    """

    def __init__(
        self,
        base_lr: float = 1e-3,
        warmup_steps: int = 0,
        *,
        scale: str = "none",
        warmup_start: str = "base",
    ) -> None:
        super().__init__(
            "constant",
            scale,
            base_lr=base_lr,
            warmup_steps=warmup_steps,
            warmup_start=warmup_start,
        )


class Cosine(_Schedule):
    """A linear warm-up to the scaled rate, then half a cosine down to 0 at `total_steps` (Loshchilov and Hutter 2017).

    Args:
        base_lr, warmup_steps, scale, warmup_start: As for Warmup.
        total_steps: Updates after which the rate is 0; more than warmup_steps.

    Raises:
        InvalidArgumentError: For an unknown rule or start, or a number out of range.
    """

    def __init__(
        self,
        base_lr: float,
        total_steps: int,
        warmup_steps: int = 0,
        *,
        scale: str = "none",
        warmup_start: str = "base",
    ) -> None:
        super().__init__(
            "cosine",
            scale,
            base_lr=base_lr,
            total_steps=total_steps,
            warmup_steps=warmup_steps,
            warmup_start=warmup_start,
        )
