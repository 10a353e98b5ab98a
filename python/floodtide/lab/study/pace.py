# SPDX-License-Identifier: Apache-2.0
"""Seconds of an update and throughput for each number of workers: measured, emulated and forecast."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from floodtide.errors import InvalidFileError
from floodtide.lab.study.cells import Averaging, Line, Study, Training
from floodtide.report import comparison

Forecast = Callable[[Path, Sequence[int], Averaging], dict[int, float]]
"""Function of the directory of a run on one rank, numbers of ranks, and whose gradients make an update: seconds of an
update, by number of ranks."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Throughput by number of workers, in fields of view or patches per second of all workers together.

    Attributes:
        workers: All numbers of workers.
        measured: Of synchronous trainings with a rank for each worker.
        one_rank: Of a single rank: the median over the trainings on one rank, without waiting for data.
        update_s: Forecast seconds of an update on as many ranks as workers, by averaging and workers; empty for U-Nets.
    """

    workers: tuple[int, ...]
    measured: dict[int, float]
    one_rank: float | None
    update_s: dict[Averaging, dict[int, float]]

    @property
    def forecast(self) -> dict[int, float]:
        """Forecast throughput of synchronous training with one field of view for each worker."""
        return {n: n / seconds for n, seconds in self.update_s.get(Averaging(), {}).items()}

    def emulated(self, workers: int) -> float | None:
        """Return the throughput if each worker had its own rank, without waiting and communication: a bound."""
        return None if self.one_rank is None else self.one_rank * workers

    def seconds(self, line: Line, workers: int) -> float | None:
        """Return the seconds of an update of a line: forecast if there is one, else the bound; None if not known."""
        forecast = self.update_s.get(line.averaging, {}).get(workers)
        if forecast is not None:
            return forecast * line.batch
        if self.one_rank is None:
            return None
        return line.examples(workers) / (self.one_rank * workers)


def pace_of(study: Study, forecast: Forecast | None) -> Pace:
    """Return the pace of the trainings of a study."""
    trainings = study.trainings
    workers = tuple(sorted({training.workers for training in trainings}))
    alone = [training for training in trainings if training.run.ranks == 1]
    rates = [rate for training in alone if (rate := _compute_rate(training, study.unit))]
    measured: dict[int, list[float]] = {}
    for line in study.lines:
        for training in line.trainings if line.averaging == Averaging() else ():
            rate = comparison.rate_per_s(training.run)
            if not training.run.emulated and rate:
                measured.setdefault(training.workers, []).append(rate)
    ways = dict.fromkeys([Averaging(), *(line.averaging for line in study.lines)])
    known = None if study.task.predicts else forecast
    return Pace(
        workers=workers,
        measured={n: float(np.median(values)) for n, values in sorted(measured.items())},
        one_rank=float(np.median(rates)) if rates else None,
        update_s={way: _forecast(alone, workers, way, known) for way in ways if known},
    )


def _compute_rate(training: Training, unit: str) -> float | None:
    """Return units per second of computing and updating on one rank; None if the log lacks the times."""
    records = training.run.train
    try:
        seconds = sum(float(record["compute_s"]) + float(record["update_s"]) for record in records)
        units = sum(float(record[unit]) for record in records)
    except (KeyError, TypeError, ValueError):
        return None
    return units / seconds if seconds > 0 else None


def _forecast(
    alone: Sequence[Training], workers: Sequence[int], way: Averaging, forecast: Forecast | None
) -> dict[int, float]:
    """Return the forecast from the training on one rank with the fewest workers whose log has all times."""
    for training in sorted(alone, key=lambda one: (one.workers, one.rate, one.seed)):
        with contextlib.suppress(InvalidFileError):  # an older or shorter log
            return forecast(training.run.folder, workers, way) if forecast else {}
    return {}
