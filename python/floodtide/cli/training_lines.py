# SPDX-License-Identifier: Apache-2.0
"""The lines that a training prints: one for each record of its log."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from floodtide.base import notes
from floodtide.base.notes import count_of
from floodtide.base.tasks import Task

if TYPE_CHECKING:
    from floodtide.config import Config
    from floodtide.train import Trainer

_UNITS = {"fovs": "FOVs", "patches": "patches"}


class TrainingLines:
    """A callback of `Trainer` that prints a line on standard error for each record of the log, with the time of day."""

    def __call__(self, trainer: Trainer, record: Any) -> None:
        """Print the line of a record."""
        text = f"step {record['step']}"
        if record["kind"] == "train":
            text += f" of {trainer.config.training.total}: {_training(record)}"
        elif record["kind"] == "validation":
            text += f": validation {_scores(record, trainer.config.task)}"
        elif record["kind"] == "correction":
            text += (
                f": {record['steps']} steps fit the time at {record['step_s']:.3g} s a step,"
                f" {record['before']} before"
            )
        else:
            resumed = f", resumed from {record['resumed_from']}" if record["resumed_from"] else ""
            text = (
                f"{record['parameters']} parameters, {count_of(record['walkers'], 'walker')} on"
                f" {count_of(record['ranks'], 'rank')} with {count_of(record['threads'], 'thread')}"
                f" ({record['transport']}){resumed}; {record['rate']}"
            )
        notes.line(f"{datetime.datetime.now():%H:%M:%S} {text}")


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
    from floodtide.train.run_directory import matthews  # not when the program starts

    unit, name = next((u, n) for u, n in _UNITS.items() if u in record)
    score = matthews(record)
    shown = "" if score is None else f", Matthews correlation {score:.3f} (guessing: 0)"
    return f"loss {record['loss']:.4f}{shown}, lr {record['lr']:.3g}, {record[f'{unit}_per_s']:.2f} {name}/s"


def _scores(record: Any, task: Task) -> str:
    """Return the main score of each output, beside that of a trivial prediction."""
    outputs = [row["name"] for row in record.get("classes", ())] or record.get("channels", ())
    names = [f"{name} " for name in outputs] or [""]
    pairs = [
        f"{name}{'undefined' if own is None else f'{own:.3f}'} ({trivial:.3f})"
        for name, (own, trivial) in zip(names, task.scores_of(record), strict=False)
    ]
    return f"{task.score_name} (trivial prediction) {', '.join(pairs)}"
