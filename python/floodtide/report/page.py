# SPDX-License-Identifier: Apache-2.0
"""The HTML page: fills the template with tables and figures of the runs."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide._core import __version__
from floodtide.base.files import make_folder
from floodtide.report import (
    comparison,
    comparison_figures,
    curves,
    growth,
    held_out,
    objects,
    pages,
    planes,
    segmentation_curves,
    segmented,
    tables,
    verdict,
    worst,
)
from floodtide.train.recorded_run import FIELDS, PATCHES, Run, read_run

_NO_SEGMENTATION: dict[str, Any] = {"planes": None, "worst": None, "objects": None}


def write(
    run_folders: Sequence[Path],
    out: Path | None = None,
    figures: Path | None = None,
    losses: Sequence[float] = (),
) -> Path:
    """Write `report.html` about one or several runs.

    Args:
        run_folders: Run directories, at least one. Several runs are shown in the same figures.
        out: File to write; None: `report.html` in the first run directory.
        figures: Folder to which the curves are also written as SVG files (`training.svg`, `validation.svg`, ...), if
            the runs have data for them. The folder is created if it is missing.
        losses: Training losses for the comparison of several runs, which shows the time to reach each loss. Empty: the
            lowest losses that all, half and one of the converged runs reached.

    Returns:
        The path of the report.

    Raises:
        InvalidFileError: If a folder is not a run directory, or one of its files is malformed.
        StorageError: If the report cannot be written.
        InvalidArgumentError: If an existing file is not an older report or figure.
    """
    names = _names([folder.resolve() for folder in run_folders])
    runs = [read_run(folder, name) for folder, name in zip(run_folders, names, strict=True)]
    drawn = _curves(runs)
    target = out or runs[0].folder / "report.html"
    outputs = {target: render(runs, drawn, losses).encode()}
    if figures:
        make_folder(figures)
        for name, uri in drawn.items():
            if uri:
                outputs[figures / f"{name}.svg"] = base64.b64decode(uri.partition(",")[2])
    pages.write_all(outputs, [path for run in runs for path in pages.inputs(run)])
    return target


def _curves(runs: Sequence[Run]) -> dict[str, str | None]:
    """Return the curves, {name: SVG as data URI}; None if the runs have no data for a curve."""
    compared = runs if _comparable(runs) else ()
    return {
        "training": curves.training_figure(runs),
        "gradients": curves.gradients_figure(runs),
        "validation": curves.validation_figure(runs),
        "dice": segmentation_curves.dice_figure(runs),
        "affinities": segmentation_curves.affinity_figure(runs),
        "speed_up": comparison_figures.speed_figure(compared),
        "loss_by_time": comparison_figures.loss_figure(compared),
        "validation_by_time": comparison_figures.validation_figure(compared),
    }


def _comparable(runs: Sequence[Run]) -> bool:
    """Return True if there are several runs and all are of one kind."""
    return len(runs) > 1 and len({run.unit for run in runs}) == 1


def render(
    runs: Sequence[Run], drawn: Mapping[str, str | None], losses: Sequence[float] = ()
) -> str:
    """Return the HTML page with all figures embedded."""
    shown: list[tuple[Run, segmented.Segmented | None]] = []
    absent = []
    for run in runs:
        found: segmented.Segmented | None = None
        missing: list[str] = []
        if run.unit in (FIELDS, PATCHES):
            found, missing = segmented.of_run(run, alone=len(runs) == 1)
        shown.append((run, found))
        absent += [f"{run.name}: {part}" for part in (*run.absent, *missing)]
    pictures = [_pictures(run, found) for run, found in shown]
    absent += [f"{part['name']}: {text}" for part in pictures for text in part["absent"]]
    if len({run.unit for run in runs}) > 1:
        absent.append("no comparison of the runs: they are not trained on the same kind of data")
    return pages.render(
        "run.html",
        version=__version__,
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        runs=runs,
        heads=[verdict.head(run, found) for run, found in shown],
        summary=tables.summary_table(runs),
        scores=tables.score_table(_answers(shown)),
        validation=[(run.name, tables.validation_table(run)) for run in runs if run.validation],
        figures=drawn,
        comparison=_comparison(runs, losses),
        pictures=pictures,
        absent=absent,
    )


def _answers(
    shown: Sequence[tuple[Run, segmented.Segmented | None]],
) -> dict[str, Mapping[str, Any]]:
    """Return {name: scores} of all runs; with several runs, names begin with the name of the run."""
    return {
        name if len(shown) == 1 else f"{run.name}: {name}": scores
        for run, found in shown
        for name, scores in verdict.answers_of(run, found).items()
    }


def _comparison(runs: Sequence[Run], losses: Sequence[float]) -> dict[str, Any] | None:
    """Return the comparison of several runs of one kind; None for a single run or runs of several kinds."""
    if not _comparable(runs):
        return None
    automatic = "the losses are the lowest that all, half and one of the converged runs reached."
    return {
        "table": comparison.comparison_table(runs, losses or comparison.thresholds(runs)),
        "losses_note": "the losses are as asked for." if losses else automatic,
        "emulated": any(run.emulated for run in runs),
    }


def _pictures(run: Run, found: segmented.Segmented | None) -> dict[str, Any]:
    """Return the pictures of a run, and texts about those that cannot be made."""
    flooding = run.unit == FIELDS
    shown, absent = (None, []) if flooding else held_out.pictures(run)
    size = run.voxel_size_nm
    grown = None
    if flooding:
        grown = growth.read_growth(run.folder) or (found.grown if found else None)
    common: dict[str, Any] = {
        "name": run.name,
        "held_out": shown,
        "strip": growth.strip_figure(grown, size) if grown else None,
        "frames": growth.frames(grown, size) if grown else [],
    }
    if found is None:
        return {**_NO_SEGMENTATION, **common, "note": "", "absent": absent}
    read = planes.read_segmentation(
        found.segmentation,
        found.image,
        found.truth,
        size,
        pairs=found.pairs,
        placed=found.start,
    )
    solid, note = objects.picture(found.segmentation, size)
    mistakes = worst.worst_of(found)
    return {
        **common,
        "note": found.note,
        "absent": [*absent, note] if note and solid is None else absent,
        "objects": solid,
        "objects_note": note,
        "planes": planes.planes_figure(read, size),
        "worst": worst.worst_figure(found, mistakes, size) if mistakes else None,
        "worst_table": worst.worst_table(mistakes),
    }


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the folders; equal names are preceded by the names of their parents."""
    names = [folder.name for folder in folders]
    return [
        name if names.count(name) == 1 else f"{folder.parent.name}/{name}"
        for folder, name in zip(folders, names, strict=True)
    ]
