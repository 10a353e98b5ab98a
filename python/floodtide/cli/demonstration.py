# SPDX-License-Identifier: Apache-2.0
"""The demonstration: make a synthetic volume, train on it, segment a held-out part, and report scores."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, cast

import click
from numpy.typing import NDArray

from floodtide import _core, config, data, evaluate, nn, report
from floodtide.base import notes
from floodtide.base.outputs import reserved
from floodtide.base.progress import bar
from floodtide.cli.evaluate_modes import compared
from floodtide.cli.training_lines import TrainingLines
from floodtide.comm import world
from floodtide.data.boxes import total
from floodtide.data.formats.geometry import Geometry, size_text
from floodtide.errors import Error, on_all_ranks
from floodtide.evaluate import trivial
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.segment.affinities import write_segments
from floodtide.train import Trainer

SHAPE = (256, 160, 160)  # z, y, x
TRAINING_BOX = "0:192,0:160,0:160"
TUNING_BOX = "136:192,0:160,0:160"  # of the training box: as large as the held-out one
HELD_OUT_BOX = "200:256,0:160,0:160"  # further from the training box than half a field of view
# Part of a box that is scored. Voxels nearer to the faces cannot be the centre of a field of view.
INNER = (slice(8, -8),) * 3
LOM_RADIUS = (8, 8, 8)
THRESHOLDS = (0.2, 0.4, 0.6, 0.8)  # with more classes, most would hold only slivers of objects
WALKERS = 8
AVERAGE = 0.995  # without averaging, the parameters alternate between merging and splitting objects
LEARNING_RATE = 1e-3  # falls to three tenths after three quarters of the steps
MEAN, STD = 128.0, 33.0  # the network receives (image - MEAN) / STD
# Candidates for segment.move_threshold; the best one on the tuning box is used. Low thresholds merge cells, high
# thresholds split or miss cells. The training target inside objects is 0.95.
MOVE_THRESHOLDS = (0.92, 0.93, 0.94, 0.95, 0.96)
# How the segmenter floods. Mean and standard deviation are those of the training volume.
SEGMENT: dict[str, Any] = {
    "init_activation": 0.99,
    "move_threshold": MOVE_THRESHOLDS[2],
    "segment_threshold": 0.7,
    "disco_seed_threshold": -1.0,  # later fields of view may correct errors at the faces of earlier ones
    "min_segment_size": trivial.MIN_VOXELS,
}


def run(directory: Path, *, steps: int, seed: int = 1) -> Path | None:
    """Run the demonstration in `directory`; return the path of report.html on rank 0, None on others. Collective."""
    result, page = f"{directory / 'segmentation.h5'}:segmentation", None
    with contextlib.ExitStack() as held:
        _announce(1, f"make a volume of {size_text(SHAPE)} voxels, and partition it")
        volume = _volume(directory)
        with world.agreed():
            if world.rank() == 0:
                directory.mkdir(parents=True, exist_ok=True)
                # Reserving the file that is written last keeps a second demonstration away from all files.
                page_file = directory / "report.html"
                held.enter_context(reserved("report", page_file, report.page.REPORT))
                image, labels = data.synth(SHAPE, seed=seed)
                data.write_volume(directory / "volume.h5", {"raw": image, "labels": labels})
        with bar("voxels", "partition") as progress:
            given: dict[str, Any] = {"lom_radius": LOM_RADIUS, "thresholds": THRESHOLDS}
            out = volume["partitions"]
            data.partition(volume["labels"], out, min_size=500, progress=progress, **given)
        _announce(2, f"train {notes.count_of(steps, 'step')}")
        model = _trained(directory, steps, seed)
        count = len(MOVE_THRESHOLDS)
        _announce(3, f"segment with {count} move thresholds, then the held-out part with the best")
        with world.agreed():
            if world.rank() == 0:
                _core.set_num_threads(_core.available_cores())  # the other ranks wait
                _segment(volume, model, result)
        with world.agreed():
            segments, truth = data.Volume(result), data.Volume(volume["labels"])
        found = evaluate.report(segments, truth)
        with world.agreed():
            if found is not None:
                click.echo(compared(found))
                page = report.write([directory])
    return page


def _announce(stage: int, what: str) -> None:
    if notes.speaks():
        notes.line(f"stage {stage} of 3: {what}")


def _volume(directory: Path) -> dict[str, str]:
    """Return the names of image, labels and partitions, by their keys."""
    file = directory / "volume.h5"
    partitions = f"{directory / 'partitions.h5'}:af"
    return {"image": f"{file}:raw", "labels": f"{file}:labels", "partitions": partitions}


def _trained(directory: Path, steps: int, seed: int) -> nn.FFN:
    settings = config.from_dict(_configuration(directory, steps, seed))
    # The partitions of the demonstration have a smaller radius than its network reaches, on purpose.
    with notes.no_warnings():
        trainer = Trainer.from_config(settings, callbacks=[TrainingLines()], progress=True)
        trainer.run()
    if not trainer.complete:
        stopped = f"stopped at step {trainer.steps_done}: the same command resumes"
        raise on_all_ranks(Error(stopped))  # a signal stops the training on all ranks
    # Without the trainer, whose watchdog would end the job if rank 0 segments for long.
    return cast(nn.FFN, trainer.result)


def _configuration(directory: Path, steps: int, seed: int) -> dict[str, Any]:
    volume = {"name": "synthetic", "box": TRAINING_BOX, "mean": MEAN, "std": STD}
    return {
        "run": {"dir": str(directory), "seed": seed, "log_every_s": 5.0},
        "data": {"volumes": [volume | _volume(directory)]},
        "augmentation": {"permutable_axes": [0, 1, 2]},
        "model": {"depth": 4, "features": 16, "fov": [17, 17, 17], "deltas": [6, 6, 6]},
        "training": {"steps": steps, "walkers": WALKERS, "average": AVERAGE},
        "optimizer": {"name": "adam", "lr": LEARNING_RATE},
        "schedule": {"name": "step", "milestones": str(round(0.75 * steps)), "decay": 0.3},
        "validation": {"box": HELD_OUT_BOX, "every": 400, "centres": 39},
        "segment": SEGMENT,
    }


def _segment(volume: dict[str, str], model: nn.FFN, out: str) -> None:
    """Segment the held-out part at the best move threshold, and write the part of it that is scored."""
    image = data.Volume(volume["image"])
    known = data.Volume(volume["labels"]).read(TUNING_BOX)[INNER]

    def segment(what: str, threshold: float, box: str) -> NDArray[Any]:
        options = SegmentOptions(**{**SEGMENT, "move_threshold": threshold}, mean=MEAN, std=STD)
        with bar("seeds", f"segment {what} at move threshold {threshold:g}") as progress:
            found = Segmenter(model, options).segment(image, data.parse_box(box), progress)
            return found.segmentation[INNER]

    def error(threshold: float) -> float:
        found = segment("tuning box", threshold, TUNING_BOX)
        return evaluate.scores(found, known)[trivial.ERROR]

    threshold = min(MOVE_THRESHOLDS, key=error)
    click.echo(f"move threshold {threshold:g}: the best of {MOVE_THRESHOLDS} on the tuning box")
    found = segment("held-out part", threshold, HELD_OUT_BOX)
    start, _ = data.parse_box(HELD_OUT_BOX) or ((0, 0, 0), SHAPE)
    geometry = Geometry(offset=total(start, [part.start for part in INNER]))
    stated = {"image": image.name}
    write_segments(
        found, out, geometry, command="floodtide segment", notes=stated, inputs=image.name
    )
