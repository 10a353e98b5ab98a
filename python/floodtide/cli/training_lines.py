# SPDX-License-Identifier: Apache-2.0
"""The lines that a training prints: one for each record of its log."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from floodtide.base import notes
from floodtide.base.notes import count_of
from floodtide.base.progress import duration
from floodtide.base.tasks import Task

if TYPE_CHECKING:
    from floodtide.config import Config
    from floodtide.train import Trainer

_UNITS = {"fovs": "FOVs", "patches": "patches"}


class TrainingLines:
    """A callback of `Trainer` that prints one line on standard error for each record of the log.

    A line begins with the time of day. Lines of training also tell when the run will end, from the speed since its
    start and from `run.stop_after_s`.

    Args:
        total: Number of steps of all trainings, if several follow each other; None: that of the training.
    """

    def __init__(self, total: int | None = None) -> None:
        self._total = total
        self._start: tuple[int, float] = (0, 0.0)  # step and time at the start of this run

    def __call__(self, trainer: Trainer, record: Any) -> None:
        """Print the line of a record."""
        if record["kind"] == "train":
            total = self._total or trainer.config.training.total
            text = f"step {record['step']} of {total}: {_training(record)}"
            text += self._left(trainer, record, total)
        elif record["kind"] == "validation":
            text = f"step {record['step']}: validation {_scores(record, trainer.config.task)}"
        elif record["kind"] == "correction":
            text = (
                f"step {record['step']}: {record['steps']} steps fit the time at {record['step_s']:.3g} s a step,"
                f" {record['before']} before"
            )
        else:
            self._start = record["step"], record["time_s"]
            resumed = f", resumed from {record['resumed_from']}" if record["resumed_from"] else ""
            text = (
                f"{record['parameters']} parameters, {count_of(record['walkers'], 'walker')} on"
                f" {count_of(record['ranks'], 'rank')} with {count_of(record['threads'], 'thread')}"
                f" ({record['transport']}){resumed}; {record['rate']}"
            )
        notes.line(f"{datetime.datetime.now():%H:%M:%S} {text}")

    def _left(self, trainer: Trainer, record: Any, total: int) -> str:
        if record["step"] < total and (fitted_s := trainer.fitted_left_s) is not None:
            return f", about {duration(fitted_s)} left"
        steps, time_s = record["step"] - self._start[0], record["time_s"] - self._start[1]
        rest_s = trainer.time_left_s
        if steps > 0:
            by_steps_s = time_s / steps * (total - record["step"])
            rest_s = by_steps_s if rest_s is None else min(rest_s, by_steps_s)
        return f", about {duration(rest_s)} left" if rest_s else ""


def next_commands(file: str, overrides: Sequence[str], settings: Config) -> str:
    """Return what to do after a complete training: segment if the network finds objects, then the report."""
    import shlex  # not when a training starts

    commands = [f"floodtide report {shlex.quote(settings.run.dir)}"]
    if settings.task.of_objects and (settings.task.predicts or settings.segment.checkpoint):
        words = [file, *(word for one in overrides for word in ("--set", one))]
        commands.insert(0, f"floodtide segment {shlex.join(words)} --out segments.h5:segments")
    return ", then ".join(commands)


def _training(record: Any) -> str:
    """Return loss, score, rate and speed."""
    unit, name = next((u, n) for u, n in _UNITS.items() if u in record)
    parts = [f"loss {record['loss']:.4f}"]
    from floodtide.train.run_directory import matthews  # not when the program starts

    if (score := matthews(record)) is not None:
        parts.append(f"Matthews correlation {score:.3f} (guessing: 0)")
    parts += [f"lr {record['lr']:.3g}", f"{record[f'{unit}_per_s']:.2f} {name}/s"]
    return ", ".join(parts)


def _scores(record: Any, task: Task) -> str:
    """Return the main score of each output, beside that of a trivial prediction."""
    outputs = [row["name"] for row in record.get("classes", ())] or record.get("channels", ())
    names = [f"{name} " for name in outputs] or [""]
    pairs = [
        f"{name}{'undefined' if own is None else f'{own:.3f}'} ({trivial:.3f})"
        for name, (own, trivial) in zip(names, task.scores_of(record), strict=False)
    ]
    return f"{task.score_name} (trivial prediction) {', '.join(pairs)}"
