# SPDX-License-Identifier: Apache-2.0
"""The scores that compare the trainings of a sweep. All are scores of held-out data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from floodtide.base.tasks import Task
from floodtide.report import comparison
from floodtide.train import Record

Floats = npt.NDArray[np.float64]

SMOOTHING = 0.9  # TensorBoard's factor in the paper's figure 4


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
    return (main,) if task.predicts else (main, *_OF_FLOODING)


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


def _first_pass(key: str) -> Callable[[Record], float | None]:
    return lambda record: _number(record.get("first_pass", {}).get(key))


def _best_trivial(key: str) -> Callable[[Record], float | None]:
    def best(record: Record) -> float | None:
        values = [_number(one.get(key)) for one in record.get("trivial", {}).values()]
        return max((value for value in values if value is not None), default=None)

    return best


_OF_FLOODING = tuple(
    Score(
        name,
        f"{title} of the first pass",
        _first_pass(f"{name}_50"),
        _best_trivial(f"{name}_50"),
    )
    for name, title in (
        ("accuracy", "accuracy"),
        ("precision", "precision"),
        ("recall", "recall"),
        ("f1", "F1"),
    )
)
