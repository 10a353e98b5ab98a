# SPDX-License-Identifier: Apache-2.0
"""The HTML page: fills the template with tables and figures of the runs."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide._core import __version__
from floodtide.base.files import make_folder
from floodtide.base.notes import count_of
from floodtide.report import (
    comparison,
    curves,
    drawing,
    growth,
    held_out,
    objects,
    pages,
    planes,
    segmented,
    tables,
    verdict,
    worst,
)
from floodtide.train.recorded_run import Run, read_run


def write(
    run_folders: Sequence[Path],
    out: Path | None = None,
    figures: Path | None = None,
    losses: Sequence[float] = (),
) -> Path:
    """Write `report.html` about one or several runs, and return its path.

    Args:
        run_folders: Run directories, at least one. Several runs are shown in the same figures.
        out: File to write; None: `report.html` in the first run directory.
        figures: Folder to which the curves are also written as SVG files (`training.svg`, `validation.svg`, ...), if
            the runs have data for them. The folder is created if it is missing.
        losses: Training losses for the comparison of several runs, which shows the time to reach each loss. Empty: the
            lowest loss that all converged runs reached.

    Raises:
        InvalidFileError: If a folder is not a run directory, or one of its files is malformed.
        StorageError: If the report cannot be written.
        InvalidArgumentError: If an existing file is not an older report or figure.
    """
    names = _names([folder.resolve() for folder in run_folders])
    runs = [read_run(folder, name) for folder, name in zip(run_folders, names, strict=True)]
    target = out or runs[0].folder / "report.html"
    drawn = {name: image for name, draw in drawing.CURVES.items() if (image := draw(runs))}
    outputs = {target: render(runs, drawn, losses).encode()}
    if figures:
        make_folder(figures)
        for name, uri in drawn.items():
            outputs[figures / f"{name}.svg"] = base64.b64decode(uri.partition(",")[2])
    pages.write_all(outputs, [path for run in runs for path in pages.inputs(run)])
    return target


def render(runs: Sequence[Run], drawn: Mapping[str, str], losses: Sequence[float] = ()) -> str:
    """Return the HTML page with all figures embedded. Curves are drawn already: {name: SVG as data URI}."""
    shown: list[tuple[Run, segmented.Segmented | None]] = []
    absent = []
    for run in runs:
        found, missing = segmented.of_run(run, alone=len(runs) == 1)
        shown.append((run, found))
        absent += [f"{run.name}: {part}" for part in (*run.absent, *missing)]
    pictures = [_pictures(run, found) for run, found in shown]
    absent += [f"{part['name']}: {text}" for part in pictures for text in part["absent"]]
    if len(runs) > 1 and not comparison.comparable(runs):
        absent.append("no comparison of the runs: their tasks have different scores")
    return pages.render(
        "run.html",
        version=__version__,
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        runs=runs,
        count_of=count_of,
        heads=[verdict.head(run, found) for run, found in shown],
        filters={"setting": tables.setting, "sources": tables.sources, "text": tables.text},
        scores=tables.score_table(
            {
                name if len(shown) == 1 else f"{run.name}: {name}": row
                for run, found in shown
                if found is not None
                for name, row in found.answers.items()
            }
        ),
        validation=[(run.name, tables.validation_tables(run)) for run in runs if run.validation],
        curves=drawn,
        smoothed=any(len(run.train) > curves.UNSMOOTHED for run in runs),
        comparison=comparison.comparison_table(runs, losses),
        pictures=pictures,
        absent=absent,
    )


def _pictures(run: Run, found: segmented.Segmented | None) -> dict[str, Any]:
    """Return the pictures of a run, and texts about those that cannot be made."""
    size = run.voxel_size_nm
    held, absent = held_out.pictures(run)
    made: dict[str, Any] = {"name": run.name, "absent": absent, "held_out": held, "note": ""}
    if found is not None:
        if found.grown is not None:
            made["frames"] = growth.frames(found.grown, size)
        made |= {"note": found.note, "planes": planes.planes_figure(found.planes(size))}
        if mistakes := worst.worst_of(found):
            made |= {"mistakes": mistakes, "worst": worst.worst_figure(found, mistakes, size)}
        solid, note = objects.picture(found.segmentation, size)
        if solid is not None:
            made |= {"objects": solid, "objects_note": note}
        elif note:
            made["absent"] = [*absent, note]
    return made


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the folders; equal names are preceded by the names of their parents."""
    names = [folder.name for folder in folders]
    return [
        name if names.count(name) == 1 else f"{folder.parent.name}/{name}"
        for folder, name in zip(folders, names, strict=True)
    ]
