# SPDX-License-Identifier: Apache-2.0
"""The HTML page about runs, and what all reports share: a page from its template, and writing it with its figures."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from floodtide._core import __version__
from floodtide.base import templates
from floodtide.base.files import make_folder, replace_bytes
from floodtide.base.notes import count_of
from floodtide.base.outputs import PICTURES, reserved, starts_like
from floodtide.base.progress import duration
from floodtide.errors import Error
from floodtide.evaluate import trivial
from floodtide.evaluate.trivial import Verdict, is_number, judged
from floodtide.report import (
    comparison,
    curves,
    drawing,
    growth,
    held_out,
    objects,
    planes,
    segmented,
    tables,
)
from floodtide.train.recorded_run import Run, read_run

REPORT = starts_like("a report of floodtide", b'<meta name="generator" content="floodtide')
_CHECKS = {
    **PICTURES,
    ".csv": starts_like("a table of a floodtide report", b"line,", b"walkers,", b"what,"),
}


def render(template: str, folder: str = "report/templates", **values: Any) -> str:
    """Return a page from a template in a folder of the package. It may use other templates of this folder."""
    return templates.render(template, folder, "report/templates", html=True, **values)


def write_all(outputs: Mapping[Path, bytes]) -> None:
    """Write all files. If one of them must not be written, write none."""
    with ExitStack() as held:
        for path in outputs:
            check = _CHECKS.get(path.suffix, REPORT)
            held.enter_context(reserved("report", path, check))
        for path, content in outputs.items():
            replace_bytes(path, content)


def write(
    run_folders: Sequence[Path], out: Path | None = None, figures: Path | None = None
) -> Path:
    """Write `report.html` about one or several runs, and return its path.

    Args:
        run_folders: Run directories, at least one. Several runs are shown in the same figures.
        out: File to write; None: `report.html` in the first run directory.
        figures: Folder to which the curves are also written as SVG files (`training.svg`, `validation.svg`, ...), if
            the runs have data for them. The folder is created if it is missing.

    Raises:
        InvalidFileError: If a folder is not a run directory, or one of its files is malformed.
        StorageError: If the report cannot be written.
        InvalidArgumentError: If an existing file is not an older report or figure.
    """
    names = _names([folder.resolve() for folder in run_folders])
    runs = [read_run(folder, name) for folder, name in zip(run_folders, names, strict=True)]
    target = out or runs[0].folder / "report.html"
    with reserved("report", target, REPORT):
        drawn = {name: image for name, draw in drawing.CURVES.items() if (image := draw(runs))}
        # Messages may name a folder whose name is not UTF-8 text.
        outputs = {target: _page(runs, drawn).encode("utf-8", "replace")}
        if figures:
            make_folder(figures)
            for name, uri in drawn.items():
                outputs[figures / f"{name}.svg"] = base64.b64decode(uri.partition(",")[2])
        write_all(outputs)
    return target


def _page(runs: Sequence[Run], drawn: Mapping[str, str]) -> str:
    """Return the HTML page with all figures embedded. Curves are drawn already: {name: SVG as data URI}."""
    shown: list[tuple[Run, segmented.Segmented | None]] = []
    absent: list[str] = []
    answers: dict[str, dict[str, float]] = {}
    heads = []
    for run in runs:
        found, missing = segmented.of_run(run, alone=len(runs) == 1)
        shown.append((run, found))
        times = [row["time_s"] for row in (*run.train, *run.validation) if "time_s" in row]
        took = duration(max(times)) if times else ""
        heads.append({"run": run, "verdict": verdict_of(run, found), "duration": took})
        before = "" if len(runs) == 1 else f"{run.name}: "
        rows = {} if found is None else found.answers
        answers |= {f"{before}{name}": row for name, row in rows.items()}
        absent += [f"{run.name}: {part}" for part in (*run.absent, *missing)]
    pictures = [_pictures(run, found) for run, found in shown]
    absent += [f"{part['name']}: {text}" for part in pictures for text in part["absent"]]
    if len(runs) > 1 and not comparison.comparable(runs):
        absent.append("no comparison of the runs: their tasks have different scores")
    return render(
        "run.html",
        version=__version__,
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        runs=runs,
        count_of=count_of,
        heads=heads,
        filters={"setting": tables.setting, "sources": tables.sources, "text": tables.text},
        scores=tables.score_table(answers),
        validation=[(run.name, tables.validation_tables(run)) for run in runs if run.validation],
        curves=drawn,
        smoothed=any(len(run.train) > curves.UNSMOOTHED for run in runs),
        comparison=comparison.comparison_table(runs),
        fewer_ranks=any(run.ranks < run.walkers for run in runs),
        pictures=pictures,
        absent=absent,
    )


def verdict_of(run: Run, found: segmented.Segmented | None) -> Verdict | None:
    """Return the verdict on a run: from its segmentation, else from its last validation; None without either."""
    if found is not None and found.answers:
        own, *answers = found.answers
        named = {name: found.answers[name] for name in answers}
        if judgement := trivial.verdict(found.answers[own], named, found.interval):
            return judgement
    if not run.validation:
        return None
    last = run.validation[-1]
    score, least = comparison.scores(run.task, last)
    if not (is_number(score) and is_number(least)):
        return None
    return judged(
        score - least,
        f"in the validation at step {last['step']:,}, the {run.task.score_name} is {score:.3f}, that of a trivial"
        f" prediction {least:.3f}",
    )


def _pictures(run: Run, found: segmented.Segmented | None) -> dict[str, Any]:
    """Return the pictures of a run, and texts about those that cannot be made."""
    size = run.voxel_size_nm
    held, absent = held_out.pictures(run)
    made: dict[str, Any] = {"name": run.name, "absent": absent, "held_out": held, "objects": None}
    if found is None:
        return made
    if found.grown is not None:
        made["frames"] = growth.frames(found.grown, size)
    made |= {"note": found.note, "planes": planes.planes_figure(found.planes(size))}
    if mistakes := segmented.worst_of(found):
        made |= {"mistakes": mistakes, "worst": segmented.worst_figure(found, mistakes, size)}
    try:
        made["objects"] = objects.picture(found.segmentation, size)
    except Error as error:
        absent.append(f"no picture of the objects in 3-D: {error}")
    return made


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the folders; equal names are preceded by the names of their parents."""
    names = [folder.name for folder in folders]
    return [
        name if names.count(name) == 1 else f"{folder.parent.name}/{name}"
        for folder, name in zip(folders, names, strict=True)
    ]
