# SPDX-License-Identifier: Apache-2.0
"""Validation curves of U-Nets: Dice of slices and average precision of affinities, with trivial predictors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from floodtide.base import style
from floodtide.report.curves import Floats, add_time_axis, run_lines
from floodtide.train.recorded_run import PATCHES, SLICES, Record, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 3  # offsets that are drawn; the table has all


def dice_figure(runs: Sequence[Run]) -> str | None:
    """Draw, for each class, Dice over all pixels, the mean over patients with its spread, and Dice of each patient.

    Returns:
        An SVG as data URI, or None if no run of slices was validated.
    """
    shown = [run for run in runs if run.unit == SLICES and run.validation]
    if not shown:
        return None
    numbers = sorted({row["class"] for run in shown for row in run.validation[-1]["classes"]})
    with style.figure(10.5, 2.9 * len(numbers) + 0.5) as drawn:
        axes = drawn.subplots(len(numbers), 3, squeeze=False)
        for row, number in zip(axes, numbers, strict=True):
            for run in shown:
                colour = style.series_colour(runs.index(run))
                _draw_pooled(row[0], run, number, colour)
                _draw_mean(row[1], run, number, colour)
                _draw_patients(row[2], run, number, colour)
            row[0].set_ylabel(f"Dice, class {number}")
            row[0].set_title("Pixels of all patients pooled")
            row[1].set_title("Mean of the patients")
            row[2].set_title("Each patient, last validation")
            for axis in row:
                axis.set_ylim(0.0, 1.02)
        for axis in axes[-1][:2]:
            axis.set_xlabel("step (updates)")
        for axis in axes[0][:2]:
            add_time_axis(axis, shown)
        axes[-1][2].set_xlabel("patients, worst first (%)")
        _legend(drawn, runs, shown, "everything is this class", "band: half of the patients")
        return style.data_uri(drawn, "svg")


def affinity_figure(runs: Sequence[Run]) -> str | None:
    """Draw the average precision of affinities and of boundaries (1 - affinity); None without data.

    Of networks with several offsets, the first three that all runs have are drawn: in most of them, z, y and x.
    """
    shown = [run for run in runs if run.unit == PATCHES and run.validation]
    records = [record["affinities"] for run in shown for record in run.validation]
    names = [name for name in next(iter(records), {}) if all(name in record for record in records)]
    if not names:
        return None
    names = names[:_MOST]
    with style.figure(10.5, 5.2) as drawn:
        axes = drawn.subplots(2, len(names), sharex=True, sharey=True, squeeze=False)
        for column, name in enumerate(names):
            for run in shown:
                colour = style.series_colour(runs.index(run))
                rows = [(r["step"], r["affinities"][name]) for r in run.validation]
                steps = [step for step, _ in rows]
                for line, key in enumerate(("average_precision", "boundary_average_precision")):
                    values = [values[key] for _, values in rows]
                    axes[line][column].plot(steps, values, **style.series_look(colour))
                share = rows[-1][1]["share_of_ones"]
                axes[0][column].axhline(share, color=style.GREY, ls="--", lw=1.3)
                axes[1][column].axhline(1.0 - share, color=style.GREY, ls="--", lw=1.3)
            axes[0][column].set_title(f"Affinity along {name}")
            axes[1][column].set_title(f"Boundaries along {name}")
            axes[1][column].set_xlabel("step (updates)")
        for axis in axes[0]:
            add_time_axis(axis, shown)
        for row in axes:
            row[0].set_ylabel("average precision")
            row[0].set_ylim(0.0, 1.02)
        _legend(drawn, runs, shown, "base rate: what any constant has")
        return style.data_uri(drawn, "svg")


def of_class(record: Record, number: int) -> Record:
    """Return the scores of a class in a validation record, or {} if the record has none."""
    return next((row for row in record.get("classes", []) if row["class"] == number), {})


def patients(record: Record, number: int) -> Floats:
    """Return Dice (n,), ascending, of the patients for which the class is true or predicted."""
    values = of_class(record, number).get("dice_patients", [])
    return np.sort(np.array([value for value in values if value is not None], dtype=np.float64))


def _draw_pooled(axis: Axes, run: Run, number: int, colour: str) -> None:
    rows = [(r["step"], of_class(r, number).get("dice_pooled")) for r in run.validation]
    pairs = [(step, value) for step, value in rows if value is not None]
    axis.plot([s for s, _ in pairs], [v for _, v in pairs], **style.series_look(colour))
    everything = of_class(run.validation[-1], number).get("dice_everything")
    if everything is not None:
        axis.axhline(everything, color=style.GREY, ls="--", lw=1.3)


def _draw_mean(axis: Axes, run: Run, number: int, colour: str) -> None:
    rows = [(r["step"], patients(r, number)) for r in run.validation]
    rows = [(step, values) for step, values in rows if values.size]
    steps = [step for step, _ in rows]
    low, high = ([np.percentile(values, share) for _, values in rows] for share in (25, 75))
    axis.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0)
    axis.plot(steps, [values.mean() for _, values in rows], **style.series_look(colour))


def _draw_patients(axis: Axes, run: Run, number: int, colour: str) -> None:
    values = patients(run.validation[-1], number)
    if values.size:
        share = 100.0 * (np.arange(values.size) + 0.5) / values.size
        axis.plot(share, values, ls="", alpha=0.8, **style.series_look(colour))


def _legend(
    drawn: Any, runs: Sequence[Run], shown: Sequence[Run], trivial: str, band: str = ""
) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], color=style.GREY, ls="--", lw=1.3, label=trivial)]
    if band:
        handles.append(Patch(color=style.SERIES[0], alpha=0.18, lw=0, label=band))
    handles += run_lines(runs, shown)
    drawn.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
