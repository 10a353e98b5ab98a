# SPDX-License-Identifier: Apache-2.0
"""`floodtide check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from floodtide import config
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data.look import Problem
from floodtide.errors import Error
from floodtide.nn.checkpoint_files import checkpoints


@click.command()
@click.argument("file", metavar="CONFIG.toml")
@shared.overrides
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(file: str, overrides: tuple[str, ...], as_json: bool) -> int:
    """Look for mistakes in the data of CONFIG.toml, as `train` and `segment` do before they start.

    Compares a sample of every volume with the configuration: mean and contrast, voxel size and order of the axes,
    labels that do not lie on the image, partitions of other labels or of another radius, validation on training data.
    A network to start from, or to segment with, is compared with the image too. If the configuration names no
    partitions, they are made in the run directory, where `train` uses them again.

    The exit status is 2 if there is an error, else 0.

    \b
    Example:
      floodtide check fib25.toml
      floodtide check fib25.toml --set data.volumes.0.mean=148 --json
    """
    shared.require_same_arguments()
    status = 0
    with world.agreed():
        settings = config.load(file, overrides)
    refused: Problem | None = None
    if _trains(settings):
        from floodtide.train.own_partitions import with_partitions

        try:
            settings = with_partitions(settings)
        except Error as error:  # on every rank alike
            refused = Problem(True, str(error))
    with world.agreed():
        if world.rank() == 0:
            report, found = _report(file, settings, refused)
            status = 2 if any(problem.error for problem in found) else 0
            click.echo(json.dumps(report) if as_json else _text(file, report))
    return int(world.broadcast_object(status))


def _report(
    file: str, settings: config.Config, refused: Problem | None
) -> tuple[dict[str, Any], list[Problem]]:
    """Return what was looked at and found. `refused`: why no partitions can be made."""
    found: list[Problem] = [] if refused is None else [refused]
    volumes: list[dict[str, Any]] = []
    trains = _trains(settings)
    if trains and refused is None:
        volumes, found = _of_training(settings)
    segments = bool(settings.segment.checkpoint) and not _to_be_trained(settings)
    if segments:
        found += _of_segmentation(file, settings)
    report = {
        "config": file,
        "training": trains,
        "segmentation": segments,
        "volumes": volumes,
        "errors": [problem.text for problem in found if problem.error],
        "warnings": [problem.text for problem in found if not problem.error],
    }
    return report, found


def _trains(settings: config.Config) -> bool:
    """Return True if the configuration has data to train on, and not only an image to segment."""
    return bool(settings.data.slices) or any(volume.labels for volume in settings.data.volumes)


def _to_be_trained(settings: config.Config) -> bool:
    """Return True if the network to segment with is that of this training, and has no checkpoint yet."""
    folder = Path(settings.run.dir)
    own = bool(settings.run.dir) and Path(settings.segment.checkpoint) == folder
    return own and not (folder.is_dir() and checkpoints(folder))


def _of_training(settings: config.Config) -> tuple[list[dict[str, Any]], list[Problem]]:
    from floodtide.train.data_checks import look_at, require_volumes_fit, training_problems
    from floodtide.train.parts import parts_of

    try:
        require_volumes_fit(settings)
        parts = parts_of(settings, world.size())
        looked = look_at(parts)
        found = training_problems(settings, parts, looked)
    except Error as error:  # what `train` would stop with
        return [], [Problem(True, str(error))]
    volumes = [
        {
            "name": one.name,
            "image": one.statistics.name,
            "shape": one.statistics.shape,
            "dtype": one.statistics.dtype,
            "sampled_voxels": one.statistics.sampled,
            "image_mean": one.statistics.mean,
            "image_std": one.statistics.std,
            "mean": one.reading.mean,
            "std": one.reading.std,
        }
        for one in looked
    ]
    return volumes, found


def _of_segmentation(file: str, settings: config.Config) -> list[Problem]:
    from floodtide.segment.settings import checked, resolved

    try:
        return checked(settings, resolved(file, settings, None))
    except Error as error:
        return [Problem(True, str(error))]


def _text(file: str, report: dict[str, Any]) -> str:
    lines = [
        f"{row['name']}: {row['image']}, {' x '.join(map(str, row['shape']))} voxels of {row['dtype']},"
        f" mean {row['image_mean']:.1f} and standard deviation {row['image_std']:.1f};"
        f" set: {row['mean']:g} and {row['std']:g}"
        for row in report["volumes"]
    ]
    lines += [f"error: {text}" for text in report["errors"]]
    lines += [f"warning: {text}" for text in report["warnings"]]
    errors, warnings = len(report["errors"]), len(report["warnings"])
    looked = " and ".join(name for name in ("training", "segmentation") if report[name])
    if not looked:
        lines.append(f"{file}: nothing to check: no labels to train on, and no segment.checkpoint")
    elif errors or warnings:
        lines.append(f"{file}: {errors} errors, {warnings} warnings ({looked})")
    else:
        lines.append(f"{file}: no mistake found ({looked})")
    return "\n".join(lines)
