# SPDX-License-Identifier: Apache-2.0
"""The paper's figure 6: accuracy, precision, recall and F1 against time, mean and one standard deviation over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from floodtide.base import style
from floodtide.lab.study import looks
from floodtide.lab.study.cells import Training
from floodtide.lab.study.scores import Floats, Score, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_MARKERS = 12


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Trainings that differ only in their seeds. `step_s` are the seconds of an update."""

    label: str
    trainings: tuple[Training, ...]
    step_s: float


def band(trainings: Sequence[Training], score: Score) -> tuple[Floats, Floats, Floats]:
    """Return steps, mean and standard deviation over seeds (n,), at the steps that all trainings validated."""
    found = [series(score, training.run.validation) for training in trainings]
    common = sorted(set.intersection(*(set(steps.tolist()) for steps, _ in found)))
    table = np.array(
        [[values[steps == step][-1] for step in common] for steps, values in found]
    ).reshape(len(found), len(common))
    spread = table.std(axis=0, ddof=1) if len(found) > 1 else np.zeros(len(common))
    return np.array(common), table.mean(axis=0), spread


def draw(drawn: Figure, curves: Sequence[Curve], scores: Sequence[Score]) -> None:
    """Draw one panel for each score; grey lines are trivial predictors."""
    columns = min(len(scores), 2)
    axes = drawn.subplots(-(-len(scores) // columns), columns, squeeze=False, sharex=True)
    longest = max(float(c.trainings[0].last_step) * c.step_s for c in curves)
    unit_s, unit = (1.0, "s") if longest < 180 else (60.0, "min")
    for axis, score in zip(axes.flat, scores, strict=True):
        for index, curve in enumerate(curves):
            steps, mean, spread = band(curve.trainings, score)
            time = steps * curve.step_s / unit_s
            look = looks.line_style(index)
            look["markevery"] = max(1, len(steps) // _MOST_MARKERS)
            axis.plot(time, mean, label=style.plain(curve.label), **look)
            low, high = np.clip(mean - spread, 0.0, 1.0), np.clip(mean + spread, 0.0, 1.0)  # shares
            axis.fill_between(time, low, high, color=look["color"], alpha=0.2, lw=0)
        trivial = score.trivial(curves[0].trainings[0].run.validation[-1])
        if trivial is not None:
            axis.axhline(trivial, color=style.GREY, ls=":", label="best trivial predictor")
        axis.set_title(score.title[:1].upper() + score.title[1:])
        axis.set_xscale("log")
        looks.plain_numbers(axis.xaxis)
    for axis in axes[-1]:
        axis.set_xlabel(f"time of one rank for each worker ({unit}, computed)")
    looks.legend_below(drawn, axes[0][0])
