# SPDX-License-Identifier: Apache-2.0
"""Figures 5 and 6 of the paper, from the run directories of trainings that differ in seeds and numbers of walkers.

Figure 6: accuracy, F1, precision and recall against time and fields of view. Figure 5: time to an F1 against walkers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from floodtide.base import limits, style
from floodtide.base.files import make_folder
from floodtide.base.notes import count_of
from floodtide.base.options import option
from floodtide.base.tasks import FloodTask
from floodtide.errors import InvalidFileError
from floodtide.lab.study import looks, numbers
from floodtide.lab.study.cells import Study, Training, read_study
from floodtide.lab.study.scores import Floats, Score, of_flooding, series
from floodtide.lab.study.targets import updates_to
from floodtide.lab.study.walkers_figures import walkers_axis
from floodtide.report import curves, page, tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = {"accuracy": 0.963, "f1": 0.973}
"""Scores of google/ffn's published network by the paper's measure (docs/real_em_training.md)."""
_TIME = Score("time", "time", lambda record: record.get("time_s"), lambda _: None)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the figures show."""

    out: Path = option(Path("figures"), "Folder of the figures (SVG) and tables (CSV)")
    target: float = option(0.9, "F1 whose time is compared over walkers", range=limits.FRACTION)
    part: str = option(
        "moves",
        "Part of the validation: the first pass over a field of view, or the mask after the moves",
        choices=tuple(key for key, _, _ in tables.PARTS),
    )
    published: bool = option(
        False, "Also draw accuracy and F1 of google/ffn's published network, by the paper's measure"
    )


@dataclass(frozen=True)
class Seeds:
    """Trainings that differ only in their seeds, on as many ranks and threads.

    Attributes:
        setting: What tells other trainings with as many walkers apart; empty if there are none.
        walkers: Number of walkers.
        ranks: Number of ranks.
        trainings: The trainings.
        examples: Fields of view of a training step.
    """

    setting: str
    walkers: int
    ranks: int
    trainings: tuple[Training, ...]
    examples: int

    @property
    def label(self) -> str:
        """Return the name of the trainings in a legend."""
        words = [self.setting, count_of(self.walkers, "walker")]
        return f"{', '.join(filter(None, words))} ({count_of(len(self.trainings), 'seed')})"

    def band(self, score: Score) -> tuple[Floats, Floats, Floats]:
        """Return steps, mean and standard deviation over seeds (n,), at the steps that all trainings validated."""
        found = [series(score, one.run.validation) for one in self.trainings]
        common = sorted(set.intersection(*(set(steps.tolist()) for steps, _ in found)))
        if not common:
            names = ", ".join(str(one.run.folder) for one in self.trainings)
            raise InvalidFileError(
                f"{names}: no training step at which all were validated, expected the same validation.every"
            )
        table = np.array([[v[steps == step][-1] for step in common] for steps, v in found])
        spread = table.std(axis=0, ddof=1) if len(found) > 1 else np.zeros(len(common))
        return np.array(common), table.mean(axis=0), spread

    def seconds_to(self, score: Score, target: float) -> list[tuple[float, float]]:
        """Return for each training the seconds until it reached a score, infinite if it did not, and its last ones."""
        found = []
        for one in self.trainings:
            steps, time_s = series(_TIME, one.run.validation)
            update = updates_to(one, score, target)
            reached_s = float(np.interp(update, steps, time_s)) if math.isfinite(update) else update
            found.append((reached_s, float(time_s[-1])))
        return found


def write(folders: Sequence[Path], options: Options) -> list[Path]:
    """Write figures 5 and 6 and their tables, and return their paths.

    Args:
        folders: Run directories of trainings of flood filling, or folders of run directories.
        options: What the figures show, and where they are written.

    Raises:
        InvalidFileError: If a folder holds no validated training of flood filling, or a malformed one; or if seeds were
            not validated at the same steps.
        InvalidArgumentError: If an existing file is not an older figure or table.
        StorageError: If a file cannot be written.
    """
    study = read_study(folders)
    if study.task is not FloodTask:
        raise InvalidFileError(f"{folders[0]}: expected trainings of flood filling")
    for one in study.trainings:
        if not one.run.validation or any("time_s" not in record for record in one.run.validation):
            raise InvalidFileError(f"{one.run.folder}: expected a log with validations and times")
    scores, groups, out = of_flooding(options.part), _groups(study), options.out
    f1 = next(score for score in scores if score.name == "f1")
    with style.figure(10.5, 5.2) as drawn:
        _scores(drawn, groups, scores, options)
        outputs = {out / "scores_by_time.svg": style.rendered(drawn, "svg")}
    with style.figure(7.0, 4.6) as drawn:
        _times(drawn, groups, f1, options.target)
        outputs[out / "time_to_f1.svg"] = style.rendered(drawn, "svg")
    outputs[out / "scores_by_time.csv"] = _scores_csv(groups, scores)
    outputs[out / "time_to_f1.csv"] = _times_csv(groups, f1, options.target)
    make_folder(out)
    page.write_all(outputs)
    return list(outputs)


def _groups(study: Study) -> list[Seeds]:
    groups = []
    for line in study.lines:
        for rate, walkers in itertools.product(line.rates, line.walkers):
            words = [line.label] if len(study.lines) > 1 else []
            words += [f"rate {rate:g}"] if len(line.rates) > 1 else []
            machines: dict[
                tuple[int, int], list[Training]
            ] = {}  # by ranks and threads, which decide about the time
            for one in line.cell(walkers, rate):
                threads = one.run.start.get("threads", 1)
                machines.setdefault((one.run.ranks, threads), []).append(one)
            for (ranks, threads), seeds in machines.items():
                places = [f"{count_of(ranks, 'rank')} x {count_of(threads, 'thread')}"]
                setting = ", ".join(words + (places if len(machines) > 1 else []))
                groups.append(Seeds(setting, walkers, ranks, tuple(seeds), line.examples(walkers)))
    return groups


def _scores(
    drawn: Figure, groups: Sequence[Seeds], scores: Sequence[Score], options: Options
) -> None:
    """Draw each score against time (above) and fields of view (below), with its mean and one standard deviation."""
    panels = drawn.subplots(2, len(scores), sharey="col", sharex="row")
    last_s = max(one.run.validation[-1].get("time_s", 0.0) for g in groups for one in g.trainings)
    unit_s, unit = curves.time_unit(last_s)
    for index, group in enumerate(groups):
        validated, time_s, _ = group.band(_TIME)
        for score, (above, below) in zip(scores, panels.T, strict=True):
            steps, mean, spread = group.band(score)
            look = looks.line_style(index) | {"markevery": max(1, len(steps) // 8)}
            time = np.interp(steps, validated, time_s) / unit_s
            for axis, x in ((above, time), (below, steps * group.examples / 1000)):
                axis.plot(x, mean, label=style.plain(group.label), **look)
                low, high = mean - spread, mean + spread
                axis.fill_between(x, low, high, color=look["color"], alpha=0.25, lw=0)
    for score, column in zip(scores, panels.T, strict=True):
        trivial = score.trivial(groups[0].trainings[0].run.validation[-1])
        for axis, name in zip(
            column, (f"time ({unit})", "thousands of fields of view"), strict=True
        ):
            if trivial is not None:
                axis.axhline(trivial, color=style.GREY, ls=":", label="best trivial predictor")
            if options.published and score.name in PUBLISHED:
                label = "published network, paper's measure"
                axis.axhline(
                    PUBLISHED[score.name], color="black", ls=(0, (6, 2)), lw=1.2, label=label
                )
            axis.set_xlabel(name)
            curves.finish(axis)
        column[0].set_title(score.title[:1].upper() + score.title[1:])
    looks.legend_below(drawn, panels[0][0])


def _times(drawn: Figure, groups: Sequence[Seeds], score: Score, target: float) -> None:
    """Draw the time to a score against walkers: each seed, and mean and deviation where all seeds reached it.

    For ranks with several walkers, also the time divided by the walkers of a rank.
    """
    axis = drawn.subplots()
    found = [(group, group.seconds_to(score, target)) for group in groups]
    unit_s, unit = curves.time_unit(max(last_s for _, times in found for _, last_s in times))
    missed: dict[str, Any] = {"ls": "", "marker": "^", "mfc": "white", "color": style.GREY}
    emulated = False
    for index, setting in enumerate(dict.fromkeys(group.setting for group in groups)):
        look, rows = looks.line_style(index), []
        for group, times in ((one, times) for one, times in found if one.setting == setting):
            for reached_s, last_s in times:
                seed = missed if math.isinf(reached_s) else {"ls": "", "marker": "."}
                place = min(reached_s, last_s) / unit_s
                axis.plot(group.walkers, place, **{"color": look["color"], **seed})
            seconds = np.array([reached_s for reached_s, _ in times]) / unit_s
            if np.isfinite(seconds).all():
                spread = seconds.std(ddof=1) if len(seconds) > 1 else 0.0
                share = group.ranks / group.walkers
                rows.append((group.walkers, seconds.mean(), spread, share))
        if rows:
            name = style.plain(setting or "mean of the seeds")
            walkers, mean, deviation, shares = np.array(rows).T
            axis.errorbar(walkers, mean, deviation, capsize=3.0, label=name, **look)
            if shares.min() < 1:
                look |= {"ls": ":", "mfc": "white"}
                axis.errorbar(walkers, shares * mean, shares * deviation, **look)
                emulated = True
    axis.plot([], [], color=style.GREY, ls="", marker=".", label="a seed")
    if emulated:
        name = "hollow: a rank for each walker, without waiting (computed)"
        axis.plot([], [], color=style.GREY, ls=":", marker="o", mfc="white", label=name)
    if any(math.isinf(reached_s) for _, times in found for reached_s, _ in times):
        axis.plot([], [], label="a seed that did not reach it until then", **missed)
    walkers_axis(axis, sorted({group.walkers for group in groups}))
    axis.set_yscale("log")
    looks.plain_numbers(axis.yaxis)
    axis.set_ylabel(f"time ({unit})")
    axis.set_title(f"Time to {score.title}: {target:g}")
    looks.legend_below(drawn, axis)


def _scores_csv(groups: Sequence[Seeds], scores: Sequence[Score]) -> bytes:
    """Return one line for each validated training step of each group: means, and standard deviations over seeds."""
    head = ["line", "walkers", "seeds", "step", "fovs", "time_s"]
    head += [f"{score.name}{what}" for score in scores for what in ("", "_deviation")]
    rows = []
    for group in groups:
        bands = [group.band(score) for score in (_TIME, *scores)]
        for step, time_s in zip(*bands[0][:2], strict=True):
            row: list[object] = [group.setting, group.walkers, len(group.trainings), int(step)]
            row += [int(step) * group.examples, f"{time_s:.1f}"]
            for steps, mean, spread in bands[1:]:
                at = np.flatnonzero(steps == step)
                row += [numbers.figure(x[at[0]] if at.size else None) for x in (mean, spread)]
            rows.append(row)
    return numbers.comma_separated(head, rows)


def _times_csv(groups: Sequence[Seeds], score: Score, target: float) -> bytes:
    """Return one line for each training; `time_s` is empty if it did not reach the score in `trained_s` seconds."""
    head = ["line", "walkers", "ranks", "seed", score.name, "time_s", "trained_s"]
    rows = [
        [
            group.setting,
            group.walkers,
            one.run.ranks,
            one.seed,
            target,
            numbers.figure(reached_s),
            last_s,
        ]
        for group in groups
        for one, (reached_s, last_s) in zip(
            group.trainings, group.seconds_to(score, target), strict=True
        )
    ]
    return numbers.comma_separated(head, rows)
