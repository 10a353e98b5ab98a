# SPDX-License-Identifier: Apache-2.0
"""The scores that compare the trainings of a sweep. All are scores of held-out data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from floodtide.base.tasks import Task
from floodtide.report import comparison, tables
from floodtide.train import Record

Floats = npt.NDArray[np.float64]

SMOOTHING = 0.9  # TensorBoard's factor in the paper's figure 4
_OF_FLOODING = (
    ("accuracy", "accuracy"),
    ("f1", "F1"),
    ("precision", "precision"),
    ("recall", "recall"),
)


@dataclass(frozen=True)
class Score:
    """A score; higher is better.

    Attributes:
        name: Name on the command line and in tables of numbers.
        title: Name in figures.
        of: Function of a validation record; None if the record lacks the score.
        trivial: The same for the best trivial predictor.
    """

    name: str
    title: str
    of: Callable[[Record], float | None]
    trivial: Callable[[Record], float | None]


def scores_of(task: type[Task]) -> tuple[Score, ...]:
    """Return the scores of a task; the first one is the default."""
    main = Score(
        task.score_name.partition(",")[0].partition(" of ")[0].replace(" ", "_").lower(),
        task.score_name,
        lambda record: comparison.scores(task, record)[0],
        lambda record: comparison.scores(task, record)[1],
    )
    return (main,) if task.predicts else (main, *of_flooding("first_pass"))


def series(score: Score, records: Sequence[Record]) -> tuple[Floats, Floats]:
    """Return steps (n,) and values (n,) of a score."""
    pairs = [
        (record["step"], value)
        for record in records
        if (value := score.of(record)) is not None and np.isfinite(value)
    ]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def of_flooding(part: str) -> tuple[Score, ...]:
    """Return accuracy, F1, precision and recall of a part of the validation of flood filling, a key of PARTS."""
    trivial, title = next((trivial, title) for key, trivial, title in tables.PARTS if key == part)
    return tuple(_score(part, trivial, name, f"{word}, {title}") for name, word in _OF_FLOODING)


def _score(part: str, trivial: str, name: str, title: str) -> Score:
    key = f"{name}_50"

    def best(record: Record) -> float | None:
        values = [_number(one.get(key)) for one in record.get(trivial, {}).values()]
        return max((value for value in values if value is not None), default=None)

    return Score(name, title, lambda record: _number(record.get(part, {}).get(key)), best)
