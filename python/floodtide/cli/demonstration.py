# SPDX-License-Identifier: Apache-2.0
"""The demonstration: make a synthetic volume, train on it, segment a held-out part, and report scores."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from floodtide import _core, config, data, evaluate, nn, report
from floodtide.base import notes
from floodtide.base.files import replace_text
from floodtide.base.outputs import reserved, starts_like
from floodtide.base.progress import bar
from floodtide.cli.training_lines import TrainingLines
from floodtide.comm import world
from floodtide.errors import Error
from floodtide.evaluate import trivial
from floodtide.report import growth
from floodtide.segment import Segmentation, Segmenter, SegmentOptions
from floodtide.train import Trainer
from floodtide.train.kinds.task import Model

Array = NDArray[Any]

SHAPE = (256, 160, 160)  # z, y, x
TRAINING_BOX = "0:192,0:160,0:160"
TUNING_BOX = "136:192,0:160,0:160"  # of the training box: as large as the held-out one
HELD_OUT_BOX = "200:256,0:160,0:160"  # further from the training box than half a field of view
# Part of a box that is scored. Voxels nearer to the faces cannot be the centre of a field of view.
INNER = (slice(8, -8),) * 3
LOM_RADIUS = (8, 8, 8)
THRESHOLDS = (
    0.2,
    0.4,
    0.6,
    0.8,
)  # few classes: with many, most classes would hold only slivers of objects
WALKERS = 8
AVERAGE = 0.995  # without averaging, the parameters alternate between merging and splitting objects
PHASES = ((0.75, 1e-3), (1.0, 3e-4))  # share of the steps, learning rate
MIN_SEGMENT_VOXELS = trivial.MIN_VOXELS
MEAN, STD = 128.0, 33.0  # the network receives (image - MEAN) / STD
# Candidates for segment.move_threshold; the best one on the tuning box is used. Low thresholds merge cells, high
# thresholds split or miss cells. The training target inside objects is 0.95.
MOVE_THRESHOLDS = (0.92, 0.93, 0.94, 0.95, 0.96)
_SCORES = starts_like("a list of scores", b'"adapted_rand_error"')
GREY_LEVELS = tuple(range(80, 150, 5))


def run(directory: Path, *, steps: int, seed: int = 1) -> Path | None:
    """Run the demonstration in `directory`. Collective.

    Returns:
        Path of report.html on rank 0, None on other ranks.
    """
    with contextlib.ExitStack() as held:
        return _run(directory, steps, seed, held)


def _run(directory: Path, steps: int, seed: int, held: contextlib.ExitStack) -> Path | None:
    volume = directory / "volume.h5"
    with world.agreed():
        if world.rank() == 0:
            directory.mkdir(parents=True, exist_ok=True)
            # Reserving the file that is written last keeps a second demonstration away from all files.
            held.enter_context(reserved("demo", directory / "scores.json", _SCORES))
            image, labels = data.synth(SHAPE, seed=seed)
            data.write_volume(volume, {"raw": image, "labels": labels})
    with bar("voxels", "partition") as progress:
        data.partition(
            f"{volume}:labels",
            f"{directory / 'partitions.h5'}:af",
            lom_radius=LOM_RADIUS,
            thresholds=THRESHOLDS,
            min_size=500,
            progress=progress,
        )
    for share, lr in PHASES:  # the second phase resumes from the checkpoint of the first
        settings = config.from_dict(_configuration(directory, round(share * steps), lr, seed))
        # The partitions of the demonstration have a smaller radius than its network reaches, on purpose.
        with notes.no_warnings():
            trainer = Trainer.from_config(settings, callbacks=[TrainingLines()])
        with bar("steps", f"train at rate {lr:g}") as progress, notes.no_warnings():
            trainer.run(progress)
        if not trainer.complete:
            stopped = Error(f"stopped at step {trainer.steps_done}: the same command resumes")
            stopped.agreed = True  # the signal stopped the training on all ranks
            raise stopped
    model = trainer.result
    del trainer  # its watchdog would end the job if rank 0 segments for longer than comm.timeout_s
    page = None
    if world.rank() == 0:
        _core.set_num_threads(_core.available_cores())  # the other ranks wait at the barrier
        scores = _segment_and_score(directory, model, f"{volume}:raw", f"{volume}:labels")
        replace_text(directory / "scores.json", json.dumps(scores, indent=2) + "\n")
        _print_table(scores)
        page = report.write([directory])
    world.current().barrier()
    return page


def _configuration(directory: Path, steps: int, lr: float, seed: int) -> dict[str, Any]:
    return {
        "run": {"dir": str(directory), "seed": seed, "log_every_s": 5.0},
        "data": {
            "permutable_axes": [0, 1, 2],
            "volumes": [
                {
                    "name": "synthetic",
                    "image": f"{directory / 'volume.h5'}:raw",
                    "labels": f"{directory / 'volume.h5'}:labels",
                    "partitions": f"{directory / 'partitions.h5'}:af",
                    "box": TRAINING_BOX,
                    "mean": MEAN,
                    "std": STD,
                }
            ],
        },
        "model": {"depth": 4, "features": 16, "fov": [17, 17, 17], "deltas": [6, 6, 6]},
        "training": {"steps": steps, "walkers": WALKERS, "average": AVERAGE},
        "optimizer": {"name": "adam", "lr": lr},
        "validation": {"box": HELD_OUT_BOX, "every": 400, "centres": 39},
    }


def _segment_and_score(
    directory: Path, model: Model, image_name: str, labels_name: str
) -> list[dict[str, Any]]:
    """Return scores of the trained network, an untrained one and trivial answers. Writes the data for pictures."""
    image, labels = data.Volume(image_name), data.Volume(labels_name)
    tuning, held_out = data.parse_box(TUNING_BOX), data.parse_box(HELD_OUT_BOX)
    known, truth = labels.read(tuning), labels.read(held_out)
    assert isinstance(model, nn.FFN)

    def segment(what: str, network: nn.FFN, threshold: float, box: data.Box | None) -> Segmentation:
        with bar("seeds", f"segment {what} at move threshold {threshold:g}") as progress:
            return _segmenter(network, threshold).segment(image, box, progress)

    threshold = min(
        MOVE_THRESHOLDS,
        key=lambda value: _error(segment("tuning box", model, value, tuning).segmentation, known),
    )
    click.echo(f"move threshold {threshold:g}: the best of {MOVE_THRESHOLDS} on the tuning box")
    result = segment("held-out part", model, threshold, held_out)
    result.save(f"{directory / 'segmentation.h5'}:segmentation")
    largest = max(result.origins, key=lambda origin: origin.voxels, default=None)
    if largest is not None:
        seed = [a - b for a, b in zip(largest.start_zyx, result.start_zyx, strict=True)]
        growth.record_growth(directory, _segmenter(model, threshold), image.read(held_out), seed)
    untrained = nn.FFN(
        depth=model.depth, fov=model.fov, deltas=model.deltas, features=model.features
    )
    smooth = trivial.smoothed(image.read(tuning))
    level = min(GREY_LEVELS, key=lambda value: _error(_pieces_above(value, smooth), known))
    answers = {
        "trained network": result.segmentation,
        "untrained network": segment(
            "with an untrained network", untrained, threshold, held_out
        ).segmentation,
        f"pieces above grey {level}": _pieces_above(level, trivial.smoothed(image.read(held_out))),
        "everything is one object": np.ones_like(truth),
    }
    return [{"name": name, **_scores(answer, truth)} for name, answer in answers.items()]


def _segmenter(network: nn.FFN, move_threshold: float) -> Segmenter:
    options = SegmentOptions(
        mean=MEAN,
        std=STD,
        init_activation=0.99,
        move_threshold=move_threshold,
        segment_threshold=0.7,
        disco_seed_threshold=-1.0,  # later fields of view may correct errors at the faces of earlier ones
        min_segment_size=MIN_SEGMENT_VOXELS,
    )
    return Segmenter(network, options)


def _scores(segmentation: Array, truth: Array) -> dict[str, Any]:
    """Return the scores over INNER, with None for undefined scores."""
    inner = (np.ascontiguousarray(labels[INNER]) for labels in (segmentation, truth))
    scores = evaluate.scores(*inner)
    return {name: None if np.isnan(value) else value for name, value in scores.items()}


def _error(segmentation: Array, truth: Array) -> float:
    """Return the adapted Rand error of all voxels, with unsegmented voxels as one segment.

    This score improves neither by merging objects nor by leaving voxels unsegmented.
    """
    return float(_scores(segmentation, truth)["all_adapted_rand_error"])


def _pieces_above(level: int, smooth: Array) -> Array:
    """Return the connected components above a grey level: a baseline that has only the level to learn."""
    return trivial.pieces(smooth, trivial.GreyLevel(level, above=True))


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Print the verdict, and the scores over all voxels of the held-out part."""
    columns = {
        "all_adapted_rand_error": "Rand error",
        "coverage": "coverage",
        "all_voi_split": "VOI split",
        "all_voi_merge": "VOI merge",
        "adapted_rand_error": "Rand error*",
    }
    if found := trivial.verdict(rows[0], {row["name"]: row for row in rows[1:]}, "the network"):
        click.echo(found.text)
    head = "".join(title.rjust(13) for title in columns.values())
    click.echo("all held-out voxels".ljust(26) + head)
    for row in rows:
        values = ("-" if row[column] is None else f"{row[column]:.3f}" for column in columns)
        click.echo(row["name"].ljust(26) + "".join(value.rjust(13) for value in values))
    click.echo("* over the segmented voxels only")
