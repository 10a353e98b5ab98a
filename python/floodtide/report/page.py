# SPDX-License-Identifier: Apache-2.0
"""The HTML page: tables and figures of the runs put into the template."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide._core import __version__
from floodtide.errors import StorageError
from floodtide.report import curves, growth, modes, planes
from floodtide.report.run import Record, Run, read_run

_SCORES = {
    "adapted_rand_error": "Adapted Rand error",
    "rand_precision": "Rand precision",
    "rand_recall": "Rand recall",
    "voi_split": "VOI split (bits)",
    "voi_merge": "VOI merge (bits)",
    "coverage": "Coverage",
    "segments": "Segments",
    "objects": "Objects",
    "all_adapted_rand_error": "Adapted Rand error, all voxels",
}


@dataclass(frozen=True)
class Table:
    """Head and rows of text; the first column is the row's name."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def write(
    run_folders: Sequence[Path], out: Path | None = None, figures: Path | None = None
) -> Path:
    """Write `report.html` about one or several runs.

    Args:
        run_folders: Run directories, at least one; several are overlaid in the figures.
        out: Where to write; default: `report.html` in the first run directory.
        figures: Folder for the curves as files too: `training.svg`, `validation.svg`, `modes.svg`,
            those that the runs have something for. Made if it is missing.

    Returns:
        The file written.

    Raises:
        InvalidFileError: If a folder is no run directory or one of its files is malformed.
        StorageError: If the report cannot be written.
    """
    names = _names([folder.resolve() for folder in run_folders])
    runs = [read_run(folder, name) for folder, name in zip(run_folders, names, strict=True)]
    drawn = _curves(runs)
    target = out or runs[0].folder / "report.html"
    _write(target, render(runs, drawn).encode())
    if figures:
        _make(figures)
        for name, uri in drawn.items():
            if uri:
                _write(figures / f"{name}.svg", base64.b64decode(uri.partition(",")[2]))
    return target


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"report: cannot write {folder}: {error.strerror}") from error


def _write(target: Path, content: bytes) -> None:
    """Beside the name, then renamed."""
    beside = target.with_name(target.name + ".partial")
    try:
        beside.write_bytes(content)
        os.replace(beside, target)
    except OSError as error:
        raise StorageError(f"report: cannot write {target}: {error.strerror}") from error


def _curves(runs: Sequence[Run]) -> dict[str, str | None]:
    """SVGs as data URIs, None where the runs have nothing for one."""
    return {
        "training": curves.training_figure(runs),
        "validation": curves.validation_figure(runs),
        "modes": modes.modes_figure(runs),
    }


def render(runs: Sequence[Run], drawn: Mapping[str, str | None]) -> str:
    """The page as text; every figure is embedded."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    pictures = [_pictures(run) for run in runs]
    absent = [
        f"{run.name}: {part}"
        for run, drawn in zip(runs, pictures, strict=True)
        for part in (*run.absent, *drawn["absent"])
    ]
    environment = Environment(
        loader=PackageLoader("floodtide", "report"),
        undefined=StrictUndefined,
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html").render(
        version=__version__,
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        runs=runs,
        summary=summary_table(runs),
        scores=score_table(runs),
        validation=[(run.name, validation_table(run)) for run in runs if run.validation],
        training_figure=drawn["training"],
        modes_figure=drawn["modes"],
        validation_figure=drawn["validation"],
        pictures=pictures,
        absent=absent,
    )


def summary_table(runs: Sequence[Run]) -> Table:
    """The settings that one looks for first; a setting that no run states is left out."""
    wanted: tuple[tuple[str, str], ...] = (
        ("Network", "model.kind"),
        ("Depth", "model.depth"),
        ("Features", "model.features"),
        ("Field of view (z, y, x)", "model.fov"),
        ("Step (z, y, x)", "model.deltas"),
        ("Steps", "training.steps"),
        ("Optimizer", "optimizer.name"),
        ("Base learning rate", "optimizer.lr"),
        ("Scaling of the rate", "schedule.scale"),
        ("Warm-up steps", "schedule.warmup_steps"),
        ("Allreduce", "comm.algorithm"),
        ("Whose gradients make an update", "comm.mode"),
        ("Seed", "run.seed"),
    )
    rows = []
    for name, key in wanted:
        values = [_text(_look_up(run.config, key)) for run in runs]
        if any(value != "-" for value in values):
            rows.append((name, *values))
    rows.append(("Volumes", *(_volumes(run) for run in runs)))
    for name, key in (
        ("Ranks", "ranks"),
        ("Walkers", "walkers"),
        ("Parameters", "parameters"),
        ("Examples in an epoch", "examples_per_epoch"),
        ("Imbalance of the walkers' shards", "shard_imbalance"),
        ("Threads a rank", "threads"),
        ("Kernels", "kernels"),
        ("Transport", "transport"),
    ):
        values = [_text(run.start.get(key)) for run in runs]
        if any(value != "-" for value in values):
            rows.append((name, *values))
    rows.append(
        (
            "Last step in the log",
            *(_text(run.train[-1]["step"] if run.train else None) for run in runs),
        )
    )
    return Table(("", *(run.name for run in runs)), tuple(rows))


def score_table(runs: Sequence[Run]) -> Table | None:
    """Scores of the segmentations, a row each; None if no run has any."""
    rows = [(run, row) for run in runs for row in run.scores]
    keys = [key for key in _SCORES if any(key in row for _, row in rows)]
    if not keys:
        return None
    return Table(
        ("", *(_SCORES[key] for key in keys)),
        tuple(
            (
                str(row["name"]) if len(runs) == 1 else f"{run.name}: {row['name']}",
                *(_text(row.get(key)) for key in keys),
            )
            for run, row in rows
        ),
    )


def validation_table(run: Run) -> Table:
    """The last validation beside the trivial predictors."""
    last = run.validation[-1]
    columns: list[tuple[str, Record]] = []
    for part, trivial, title in curves.PARTS:
        columns.append((title, last.get(part, {})))
        predictors = last.get(trivial, {})
        columns += [(label, predictors.get(name, {})) for name, label, _ in curves.TRIVIAL]
    rows = [
        (
            f"{name} ({'higher' if more else 'lower'} is better)",
            *(_text(values.get(key)) for _, values in columns),
        )
        for key, name, more in curves.METRICS
    ]
    return Table((f"step {last['step']}", *(name for name, _ in columns)), tuple(rows))


def _pictures(run: Run) -> dict[str, Any]:
    read = planes.read_planes(run)
    grown = growth.read_growth(run.folder)
    parts = ((planes.FILE, read), (growth.FILE, grown))
    return {
        "name": run.name,
        "absent": [f"{file} is not there" for file, part in parts if not part],
        "planes": planes.planes_figure(read, run.voxel_size_nm) if read else None,
        "strip": growth.strip_figure(grown, run.voxel_size_nm) if grown else None,
        "frames": growth.frames(grown, run.voxel_size_nm) if grown else [],
    }


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' names; where two are alike, with their parents' names."""
    names = [folder.name for folder in folders]
    return [
        name if names.count(name) == 1 else f"{folder.parent.name}/{name}"
        for folder, name in zip(folders, names, strict=True)
    ]


def _look_up(config: Mapping[str, Any], dotted: str) -> object:
    value: object = config
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _volumes(run: Run) -> str:
    volumes = run.config.get("data", {}).get("volumes", [])
    return ", ".join(str(volume.get("name", volume.get("image", "?"))) for volume in volumes) or "-"


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return str(value)
