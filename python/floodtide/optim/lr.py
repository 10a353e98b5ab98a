# SPDX-License-Identifier: Apache-2.0
"""Learning rates as pure functions of the step and the number of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from floodtide import _core
from floodtide.errors import InvalidArgumentError

__all__ = ["Cosine", "Schedule", "Warmup", "scale"]


def scale_rows() -> list[dict[str, Any]]:
    """Return names, help and parameters of the scaling rules."""
    return _core.scale_rows()


def schedule_rows() -> list[dict[str, Any]]:
    """Return names, help and parameters of the schedules."""
    return _core.schedule_rows()


def scale(rule: str, **values: float | str) -> Callable[..., float]:
    """Return factor(workers, batch=1, noise_scale=None) of a scaling rule.

    The arguments of the factor are the number of walkers whose gradients an update averages, the examples of a walker
    in an update, and the gradient noise scale in examples (None: unknown; then "auto" is 1).

    Args:
        rule: Name of the rule, a row of `scale_rows`. "paper" is linear up to `linear_workers` (default 16), then the
            square root; "auto" follows the gradient noise scale.
        values: Parameters of the rule.

    Raises:
        InvalidArgumentError: If there is no such rule or parameter; the factor raises it for workers or batch < 1.
    """
    _core.scale_factor(rule, values, 1)

    def factor(workers: int, batch: int = 1, noise_scale: float | None = None) -> float:
        return _core.scale_factor(rule, values, workers, batch, noise_scale)

    return factor


def _of_row(
    rows: list[dict[str, Any]], name: str, values: Mapping[str, float | str]
) -> dict[str, float | str]:
    """Return the values whose names are parameters of the row `name`."""
    known = {spec["name"] for row in rows if row["name"] == name for spec in row["parameters"]}
    return {key: value for key, value in values.items() if key in known}


class Schedule:
    """A learning-rate schedule of the registry: schedule(step, workers) is the rate.

    A trainer fills in what the schedule leaves out: `base_lr` from its optimizer, and `total_steps` from its steps.

    Args:
        name: Name of the schedule, a row of `schedule_rows`.
        scale: Rule by which the rate grows with the number of workers, a row of `scale_rows`.
        values: Parameters of the schedule and of the rule. Parameters that are left out have the defaults of the rows.

    Raises:
        InvalidArgumentError: For an unknown schedule, rule or parameter, or a number out of range.
    """

    def __init__(self, name: str, *, scale: str = "none", **values: float | str) -> None:
        self.name = name
        self.scale = scale
        self.scale_values = _of_row(scale_rows(), scale, values)
        self.values = {key: value for key, value in values.items() if key not in self.scale_values}
        self(0)

    def __call__(
        self, step: int, workers: int = 1, batch: int = 1, noise_scale: float | None = None
    ) -> float:
        """Return the rate of update `step` (counted from 0); the other arguments are those of the factor of `scale`."""
        factor = _core.scale_factor(self.scale, self.scale_values, workers, batch, noise_scale)
        return _core.Schedule(self.name, self.values).at(step, factor)

    @property
    def warmup_steps(self) -> int:
        """Updates of the warm-up; 0 if there is none."""
        return int(self.values.get("warmup_steps", 0))

    def for_training(self, base_lr: float, total_steps: int) -> Schedule:
        """Return the schedule with `base_lr` and `total_steps` filled in where the schedule leaves them out.

        Raises:
            InvalidArgumentError: If the warm-up is longer than the training.
        """
        if self.warmup_steps > total_steps:
            raise InvalidArgumentError(
                f"schedule {self.name}: a warm-up of {self.warmup_steps} updates is longer than the training of"
                f" {total_steps}, expected a shorter warmup_steps"
            )
        values: dict[str, float | str] = {"base_lr": base_lr, "total_steps": total_steps}
        filled = _of_row(schedule_rows(), self.name, values) | self.values
        return Schedule(self.name, scale=self.scale, **filled, **self.scale_values)


class Warmup(Schedule):
    """The scaled rate base_lr * factor(workers), reached by a linear warm-up.

    Args:
        base_lr: Rate of one worker. None: the rate of the trainer's optimizer, and 1e-3 without a trainer.
        warmup_steps: Updates until the scaled rate is reached; 0: no warm-up.
        scale: Rule by which the rate grows with the number of workers: "none", "linear", "sqrt" or "paper".
        warmup_start: Rate at step 0: "base" (the base rate) or "zero".

    Raises:
        InvalidArgumentError: For an unknown rule or start, or a number out of range.
    """

    def __init__(
        self,
        base_lr: float | None = None,
        warmup_steps: int = 0,
        *,
        scale: str = "none",
        warmup_start: str = "base",
    ) -> None:
        super().__init__(
            "constant",
            scale=scale,
            warmup_steps=warmup_steps,
            warmup_start=warmup_start,
            **({} if base_lr is None else {"base_lr": base_lr}),
        )


class Cosine(Schedule):
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
            scale=scale,
            base_lr=base_lr,
            total_steps=total_steps,
            warmup_steps=warmup_steps,
            warmup_start=warmup_start,
        )
