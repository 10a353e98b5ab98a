# SPDX-License-Identifier: Apache-2.0
"""Learning rates as pure functions of the step and the number of walkers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from floodtide import _core
from floodtide.errors import InvalidArgumentError

__all__ = ["Schedule", "scale"]


def scale(rule: str, **values: float | str) -> Callable[..., float]:
    """Return factor(workers, batch=1, noise_scale=None) of a scaling rule.

    The arguments of the factor are the number of walkers whose gradients a training step averages, the examples of a
    walker in a step, and the gradient noise scale in examples (None: unknown; then "auto" is 1).

    Args:
        rule: Name of the rule, such as "none", "linear" or "sqrt" (docs/configuration.md). "paper" is linear up to
            `linear_workers` (default 16), then the square root; "auto" follows the gradient noise scale.
        values: Parameters of the rule.

    Raises:
        InvalidArgumentError: If there is no such rule or parameter; the factor raises it for workers or batch < 1.
    """
    _core.scale_factor(rule, values, 1)
    return functools.partial(_core.scale_factor, rule, values)


def _of_row(
    rows: list[dict[str, Any]], name: str, values: Mapping[str, float | str]
) -> dict[str, float | str]:
    """Return the values whose names are parameters of the row `name`."""
    known = {spec["name"] for row in rows if row["name"] == name for spec in row["parameters"]}
    return {key: value for key, value in values.items() if key in known}


def ends(name: str) -> bool:
    """Return True if the rate of the schedule `name` falls to an end, at its `total_steps`."""
    return bool(_of_row(_core.schedule_rows(), name, {"total_steps": 0}))


class Schedule:
    """A learning-rate schedule of the registry: schedule(step, workers) is the rate.

    A trainer fills in what the schedule leaves out: `base_lr` from its optimizer, and `total_steps` from its steps.

    Args:
        name: Name of the schedule: "constant", "cosine" or another of docs/configuration.md.
        scale: Rule by which the rate grows with the number of walkers, see the function `scale`.
        values: Parameters of the schedule, such as `warmup_steps`, and of the rule. Parameters that are left out have
            the defaults of the rows.

    Raises:
        InvalidArgumentError: For an unknown schedule, rule or parameter, or a number out of range.
    """

    def __init__(self, name: str, *, scale: str = "none", **values: float | str) -> None:
        self.name = name
        self.scale = scale
        self.scale_values = _of_row(_core.scale_rows(), scale, values)
        self.values = {key: value for key, value in values.items() if key not in self.scale_values}
        self(0)

    def __call__(
        self, step: float, workers: int = 1, batch: int = 1, noise_scale: float | None = None
    ) -> float:
        """Return the rate of training step `step` (counted from 0). The rule `scale` reads the other arguments."""
        factor = _core.scale_factor(self.scale, self.scale_values, workers, batch, noise_scale)
        return _core.Schedule(self.name, self.values).at(step, factor)

    @property
    def warmup_steps(self) -> int:
        """Training steps of the warm-up; 0 if there is none."""
        return int(self.values.get("warmup_steps", 0))

    def for_training(self, base_lr: float, total_steps: int) -> Schedule:
        """Return the schedule with `base_lr` and `total_steps` filled in where the schedule leaves them out.

        Raises:
            InvalidArgumentError: If the warm-up is longer than the training.
        """
        if self.warmup_steps > total_steps:
            raise InvalidArgumentError(
                f"schedule {self.name}: a warm-up of {self.warmup_steps} training steps is longer than the training of"
                f" {total_steps}, expected schedule.warmup_steps of at most {total_steps}"
            )
        values: dict[str, float | str] = {"base_lr": base_lr, "total_steps": total_steps}
        filled = _of_row(_core.schedule_rows(), self.name, values) | self.values
        return Schedule(self.name, scale=self.scale, **filled, **self.scale_values)
