# SPDX-License-Identifier: Apache-2.0
"""The steps of a training and its clock: which planned step a step stands for, and how many steps fit into the time.

Keys that count steps, such as `schedule.warmup_steps` and `validation.every`, count planned steps (`training.steps`). A
correction changes how many planned steps the next steps stand for. The learning rate is a function of the planned step,
so a correction changes how fast the rate falls, and the rate never jumps.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from floodtide.base import limits
from floodtide.config.sections import TrainingConfig
from floodtide.train.learners.learner import Record

_MOMENTS = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
"""Shares of the time after which the number of steps is corrected."""
_SPARE = 0.01  # share of the time that no step is planned for: the last steps may be slower
LARGEST = 0.2
"""Share of the planned steps that a step may stand for after a correction: the last rate would not be near the end."""
_VALIDATION = 0.01  # share of the time that a validation is taken to need before one was measured


def planned_step(training: TrainingConfig, step: int) -> tuple[float, float]:
    """Return the planned step that stands for a step, and how many planned steps it takes to the next one."""
    at, planned, end = 0, 0.0, training.steps
    for start, total in training.corrections:
        if start > step:
            break
        planned += (start - at) * ((training.steps - planned) / (end - at))
        at, end = start, total
    per_step = (training.steps - planned) / (end - at)
    return planned + (step - at) * per_step, per_step


class Fit:
    """Measures the speed of a training on this rank, and computes how many steps fit into the time that is left.

    Args:
        left_s: Seconds until the end of the time. No correction is due without time.
        whole_s: Seconds of the whole training.
        first: Steps done before those of this job.
    """

    def __init__(self, left_s: float, whole_s: float, first: int) -> None:
        now_s = time.monotonic()
        self._end_s, self._whole_s = now_s + left_s, whole_s
        self._moments = [now_s + share * left_s for share in _MOMENTS if left_s > 0]
        self._took_s: dict[str, float] = {}  # of the last validation and checkpoint
        self._validated_s = 0.0  # since the step below
        self._first = first
        self._since: tuple[int, float] | None = None  # steps done, and when the last one ended

    @property
    def left_s(self) -> float | None:
        """Seconds until the end of the time; None without time, and after its end."""
        left_s = self._end_s - time.monotonic()
        return left_s if left_s > 0 else None

    def due(self, step: int) -> bool:
        """Return True if a correction is due after the next step. Call this before each step."""
        now_s = time.monotonic()
        if self._since is None and step > self._first:  # the first step also allocates memory
            self._since, self._validated_s = (step, now_s), 0.0
        return self._since is not None and self._moments != [] and now_s >= self._moments[0]

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Measure a validation or a checkpoint."""
        start_s = time.monotonic()
        yield
        self._took_s[what] = time.monotonic() - start_s
        self._validated_s += self._took_s[what] if what == "validation" else 0.0

    def correction(self, step: int, validations: int) -> Record:
        """Return the number of `steps` that fit, and why: `step_s` of a step, `left_s` of the time."""
        assert self._since is not None
        now_s = time.monotonic()
        self._moments = [moment for moment in self._moments if moment > now_s]
        before, start_s = self._since
        step_s = max(1e-9, (now_s - start_s - self._validated_s) / (step - before))
        self._since, self._validated_s = (step, now_s), 0.0
        left_s = self._end_s - now_s
        validation_s = self._took_s.get("validation", _VALIDATION * self._whole_s)
        others_s = validations * validation_s + self._took_s.get("checkpoint", 0.0)
        # Some of the time stays for training, so that the rate has steps in which it can fall.
        trained_s = max(left_s - others_s - _SPARE * self._whole_s, left_s / 10)
        steps = min(int(limits.STEPS.maximum), step + max(1, int(trained_s / step_s)))
        return {"steps": steps, "step_s": round(step_s, 6), "left_s": round(left_s, 3)}
