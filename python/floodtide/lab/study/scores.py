# SPDX-License-Identifier: Apache-2.0
"""The scores that compare the trainings of a sweep. All are scores of held-out data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from floodtide.report import comparison
from floodtide.train import FIELDS, PATCHES, SLICES, Record

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


def scores_of(unit: str) -> tuple[Score, ...]:
    """Return the scores of a kind of training; the first one is the default."""
    return _SCORES[unit]


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


def _share_of_objects(record: Record) -> float | None:
    """Return the average precision of a random order of the voxels: the share of object voxels."""
    return _number(record.get("trivial", {}).get("all_object", {}).get("accuracy_50"))


def _dice_of_everything(record: Record) -> float | None:
    rows = [row["dice_everything"] for row in record.get("classes", [])]
    return float(np.mean(rows)) if rows else None


def _share_of_ones(record: Record) -> float | None:
    rows = [row["share_of_ones"] for row in record.get("affinities", {}).values()]
    return float(np.mean(rows)) if rows else None


def _main(unit: str) -> Callable[[Record], float | None]:
    return lambda record: comparison.score(record, unit)


_SCORES: dict[str, tuple[Score, ...]] = {
    FIELDS: (
        Score(
            "average_precision",
            "average precision of the first pass",
            _first_pass("average_precision"),
            _share_of_objects,
        ),
        *(
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
        ),
    ),
    SLICES: (Score("dice", comparison.SCORE_NAMES[SLICES], _main(SLICES), _dice_of_everything),),
    PATCHES: (
        Score("average_precision", comparison.SCORE_NAMES[PATCHES], _main(PATCHES), _share_of_ones),
    ),
}
