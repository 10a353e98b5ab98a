# SPDX-License-Identifier: Apache-2.0
"""Comparison of runs: throughput by number of workers, time to reach a loss, and outcome of each run.

A worker is a stream of examples (a walker). If a rank has several workers, the workers are emulated: the training
equals that of W workers on W ranks, but its time does not. For emulated workers, the time on W ranks is computed for
perfect efficiency (no waiting, no communication). This time is a bound, not a measurement, and the report says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from floodtide.report import curves
from floodtide.report.curves import Floats
from floodtide.report.tables import Table, text
from floodtide.train.recorded_run import FIELDS, PATCHES, SLICES, Run

# Failures of a training whose loss is not finite.
_NOT_FINITE = re.compile(r"not finite|the loss is -?(nan|inf)")
_RISE = 0.5  # a run diverges if it loses this share of its decrease in loss again
_RISE_LEAST = 0.05  # share of the first loss; smaller rises are noise
_THRESHOLDS = 3
_DIGITS = 3
_NAMES = 3  # of runs in a legend's line


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Runs that differ only in their seeds. `label` is the text in legends."""

    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, kw_only=True)
class LossCurve:
    """Training loss against the time since the start of a run, up to the first NaN. All arrays are (n,)."""

    time_s: Floats
    logged: Floats
    smoothed: Floats


def groups(runs: Sequence[Run]) -> list[Repeats]:
    """Return groups of runs whose configurations differ only in seed and directory, ordered by number of workers."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        config = {**run.config, "run": {**run.config.get("run", {}), "seed": 0, "dir": ""}}
        key = json.dumps(
            [run.workers, run.ranks, config if run.config else str(run.folder)], default=str
        )
        found.setdefault(key, []).append(run)
    ordered = sorted(found.values(), key=lambda members: (members[0].workers, members[0].ranks))
    return [Repeats(label=_label(members), runs=tuple(members)) for members in ordered]


def _label(members: Sequence[Run]) -> str:
    run = members[0]
    workers = f"{run.workers} worker{'s' if run.workers > 1 else ''}"
    on = f", emulated on {run.ranks}" if run.emulated else ""
    named = ", ".join(member.name for member in members[:_NAMES])
    if len(members) > _NAMES:
        named += f" and {len(members) - _NAMES} more"
    return f"{named} ({workers}{on})"


def loss_curve(run: Run) -> LossCurve:
    """Return the loss curve of a run. Records without time or loss are skipped."""
    rows = [
        (record["time_s"], record["loss"])
        for record in run.train
        if isinstance(record.get("time_s"), int | float)
        and isinstance(record.get("loss"), int | float)
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    finite = np.isfinite(table[:, 1])
    if not finite.all():
        table = table[: int(np.argmin(finite))]
    return LossCurve(time_s=table[:, 0], logged=table[:, 1], smoothed=curves.smoothed(table[:, 1]))


def perfect_share(run: Run) -> float:
    """Return the factor on the time of a run if every emulated worker had a separate rank and no rank waited."""
    return run.ranks / run.workers if run.emulated else 1.0


def rate_per_s(run: Run) -> float | None:
    """Return the median throughput of all ranks together, in units per second, without the first record (start-up)."""
    _, values = curves.column(run.train, f"{run.unit}_per_s")
    if not values.size:
        return None
    return float(np.median(values[1:] if values.size > 1 else values))


def epoch_s(run: Run) -> float | None:
    """Return the seconds of an epoch at the rate of `rate_per_s`; None if the log lacks the values."""
    rate, examples = rate_per_s(run), run.start.get("examples_per_epoch")
    units, done = (sum(curves.column(run.train, key)[1]) for key in (run.unit, "examples"))
    if not rate or not examples or not units or not done:
        return None
    return float(examples * units / done / rate)


def speed_ups(runs: Sequence[Run]) -> list[float | None]:
    """Return the rate of each run, divided by the mean rate of the runs with the fewest workers.

    If some of the runs with the fewest workers are not emulated, only these are used.
    """
    rates = [rate_per_s(run) for run in runs]
    known = [(run, rate) for run, rate in zip(runs, rates, strict=True) if rate]
    if not known:
        return [None] * len(runs)
    fewest = min((run.workers, run.emulated) for run, _ in known)
    base = float(np.mean([rate for run, rate in known if (run.workers, run.emulated) == fewest]))
    return [rate / base if rate else None for rate in rates]


def divergence(run: Run) -> str:
    """Return a text that says how a run diverged, or "" if it did not.

    A run diverged if its loss is not finite; or if the mean loss over the last tenth of the records exceeds the lowest
    smoothed loss by at least half of the decrease until then, and by at least a twentieth of the first loss.
    """
    if _NOT_FINITE.search(run.failure):
        return f"diverged: {run.failure}"
    curve = loss_curve(run)
    for record in run.train:
        if isinstance(record.get("loss"), float) and not np.isfinite(record["loss"]):
            return f"diverged: loss is not finite at step {record['step']}"
    if curve.smoothed.size < 3:
        return ""
    first, lowest = float(curve.logged[0]), float(curve.smoothed.min())
    last = float(curve.logged[-max(1, curve.logged.size // 10) :].mean())
    if last - lowest > max(_RISE * (first - lowest), _RISE_LEAST * abs(first)):
        return f"diverged: loss rose from {lowest:.3g} to {last:.3g}"
    return ""


def outcome(run: Run) -> str:
    """Return a text about the outcome of a run."""
    diverged = divergence(run)
    if diverged:
        return diverged
    if run.failure:
        return f"failed: {run.failure}"
    last = run.train[-1]["step"] if run.train else 0
    steps = run.config.get("training", {}).get("steps")
    if steps and last < steps:
        return f"ended at step {last:,} of {steps:,}"
    return "all steps, held out worse than no network" if _worthless(run) else "all steps"


def _worthless(run: Run) -> bool:
    """Return True if, at the end, no class has a better held-out Dice than the answer "this class everywhere".

    The training loss of such a run can still look good. Training batches are normalised by their own statistics, but
    held-out slices by moving statistics, which are out of date if parameters change fast.
    """
    if run.unit != SLICES or not run.validation:
        return False
    return all(
        (row["dice_pooled"] or 0.0) <= row["dice_everything"]
        for row in run.validation[-1]["classes"]
    )


def thresholds(runs: Sequence[Run]) -> list[float]:
    """Return losses for the comparison, highest first: the lowest ones that all, half and one converged run reached."""
    reached = [
        curve.smoothed.min()
        for run in runs
        if not divergence(run) and (curve := loss_curve(run)).smoothed.size
    ]
    if not reached:
        return []
    wanted = np.quantile(reached, np.linspace(1.0, 0.0, _THRESHOLDS), method="higher")
    return sorted({_rounded_up(float(value)) for value in wanted}, reverse=True)


def _rounded_up(value: float) -> float:
    """Return the value rounded up to three digits, so that a run that reached the loss still does."""
    if value == 0.0:
        return 0.0
    unit = 10.0 ** (int(np.floor(np.log10(abs(value)))) - _DIGITS + 1)
    return float(f"{np.ceil(value / unit) * unit:.{_DIGITS}g}")


def time_to(run: Run, loss: float) -> float | None:
    """Return the seconds until the smoothed loss of a run is at most `loss`; None if this never happens."""
    curve = loss_curve(run)
    reached = np.flatnonzero(curve.smoothed <= loss)
    return float(curve.time_s[reached[0]]) if reached.size else None


def score(record: Mapping[str, Any], unit: str) -> tuple[float | None, Floats]:
    """Return the main score of a validation record, and its values for each patient (empty except for slices).

    Slices: Dice, mean over patients and classes. Patches: average precision, mean over axes. Fields of view: F1 at
    probability 0.5 after the moves.
    """
    if unit == SLICES:
        rows = [row["dice_patients"] for row in record.get("classes", [])]
        table = np.array(
            [[np.nan if v is None else v for v in row] for row in rows], dtype=np.float64
        )
        known = table[:, ~np.isnan(table).any(axis=0)] if table.size else table.reshape(0, 0)
        values = known.mean(axis=0) if known.size else np.zeros(0)
        means = [
            row["dice_mean"] for row in record.get("classes", []) if row["dice_mean"] is not None
        ]
        return (float(np.mean(means)) if means else None), values
    if unit == PATCHES:
        values = [row["average_precision"] for row in record.get("affinities", {}).values()]
        return (float(np.mean(values)) if values else None), np.zeros(0)
    value = record.get("moves", {}).get("f1_50")
    return (float(value) if isinstance(value, int | float) else None), np.zeros(0)


SCORE_NAMES = {
    SLICES: "Dice, mean of the patients",
    PATCHES: "average precision, mean of the axes",
    FIELDS: "F1 at probability 0.5, after the moves",
}


def time_unit(runs: Sequence[Run]) -> tuple[float, str]:
    """Return (seconds of a unit of time, its name) for a unit that suits the longest run."""
    longest = max((run.train[-1].get("time_s", 0.0) for run in runs if run.train), default=0.0)
    if longest < 180.0:
        return 1.0, "s"
    return (60.0, "min") if longest < 3 * 3600.0 else (3600.0, "h")


def comparison_table(runs: Sequence[Run], losses: Sequence[float]) -> Table:
    """Return a table with one row for each run: workers, speed, time to each loss, last validation and outcome.

    For emulated runs, times are measured times and, in brackets, times at perfect efficiency.
    """
    unit_s, unit = time_unit(runs)
    head = (
        "",
        "workers",
        "ranks",
        f"{curves.unit_name(runs)} / s",
        f"epoch ({unit})",
        "speed-up",
        *(f"to loss {loss:g} ({unit})" for loss in losses),
        "lowest loss",
        SCORE_NAMES.get(runs[0].unit, "validation"),
        "outcome",
    )
    speeds = dict(zip((run.folder for run in runs), speed_ups(runs), strict=True))
    rows = []
    for group in groups(runs):
        for run in group.runs:
            curve = loss_curve(run)
            lowest = float(curve.smoothed.min()) if curve.smoothed.size else None
            valid = score(run.validation[-1], run.unit)[0] if run.validation else None
            rows.append(
                (
                    run.name,
                    text(run.workers),
                    text(run.ranks),
                    text(rate_per_s(run)),
                    _duration(run, epoch_s(run), unit_s, "-"),
                    text(speeds[run.folder]),
                    *(_duration(run, time_to(run, loss), unit_s, "not reached") for loss in losses),
                    text(lowest),
                    text(valid),
                    outcome(run),
                )
            )
    return Table(head, tuple(rows))


def _duration(run: Run, seconds: float | None, unit_s: float, absent: str) -> str:
    if seconds is None:
        return absent
    measured = f"{seconds / unit_s:.3g}"
    return f"{measured} ({seconds / unit_s * perfect_share(run):.3g})" if run.emulated else measured
