# SPDX-License-Identifier: Apache-2.0
"""Synchronous and asynchronous training compared, by number of updates and by time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from floodtide.base import style
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, files_in, reserved
from floodtide.errors import InvalidArgumentError
from floodtide.report import curves
from floodtide.train import Run, read_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(folders: Sequence[Path], out: Path) -> None:
    """Draw the loss against updates and against time, and the staleness of gradients.

    The loss is the held-out cross-entropy (for flood-filling networks, of the first pass) if all runs have validated at
    least twice, else the training loss.

    Args:
        folders: Run directories.
        out: The picture, a .png, .svg or .pdf file.

    Raises:
        InvalidArgumentError: If all ranks of all runs waited for each other, or the file's name has another suffix.
        InvalidFileError: If a folder is not a run directory.
        StorageError: If the picture cannot be written.
    """
    if out.suffix not in PICTURES:
        raise InvalidArgumentError(
            f"{out}: ends in '{out.suffix}', expected one of {', '.join(PICTURES)}"
        )
    runs = [read_run(folder) for folder in folders]
    if all(mode(run) == "synchronous" for run in runs) or not any(run.train for run in runs):
        raise InvalidArgumentError(
            "modes: all runs are synchronous or have no training steps, expected one with another comm.mode"
        )
    inputs = [path for folder in folders for path in files_in(folder)]
    with reserved("modes", out, PICTURES[out.suffix], inputs):
        replace_bytes(out, _picture(runs, out.suffix.removeprefix(".")))


def _picture(runs: Sequence[Run], form: str) -> bytes:
    validated = all(len(run.validation) > 1 for run in runs)
    with style.figure(10.5, 3.3) as drawn:
        axes = drawn.subplots(1, 3)
        for index, run in enumerate(runs):
            colour = style.series_colour(index)
            for axis, key in zip(axes, ("step", "time_s"), strict=False):
                x, loss = held_out(run, key) if validated else training(run, key)
                axis.plot(
                    x, loss, label=style.plain(_label(run)), **style.series_look(colour, len(x))
                )
            steps, staleness = curves.column(run.train, "staleness")
            axes[2].plot(steps, staleness, **style.series_look(colour, len(steps)))
        what = "held-out cross-entropy" if validated else "training loss (exponential mean)"
        for axis, title, unit in zip(
            axes,
            ("Loss against updates", "Loss against time", "Staleness of gradients"),
            ("step (optimizer updates)", "time (s)", "step (optimizer updates)"),
            strict=True,
        ):
            axis.set_title(title)
            axis.set_xlabel(unit)
            _few_ticks(axis)
        axes[0].set_ylabel(what)
        axes[2].set_ylabel("updates, mean")
        axes[2].set_ylim(bottom=0.0)
        drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return style.rendered(drawn, form)


def mode(run: Run) -> str:
    """Return `comm.mode` of a run."""
    return str(run.config.get("comm", {}).get("mode", "synchronous"))


def _label(run: Run) -> str:
    return run.name if mode(run) in run.name else f"{run.name} ({mode(run)})"


def held_out(run: Run, key: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return a field of the validation records and their cross-entropy, each (n,)."""
    scores = [(r, r.get("first_pass", r)) for r in run.validation if key in r]
    pairs = [(r[key], s["cross_entropy"]) for r, s in scores if "cross_entropy" in s]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def training(run: Run, key: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return a field of the training records and their smoothed loss, each (n,)."""
    pairs = [(r[key], r["loss"]) for r in run.train if key in r and "loss" in r]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], curves.smoothed(table[:, 1])


def _few_ticks(axis: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.margins(x=0.02)
