# SPDX-License-Identifier: Apache-2.0
"""The demonstration: synthetic volume, training, segmentation of held-out voxels, scores beside
trivial ones, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from floodtide import _comm, _core, config, data, evaluate, nn, report
from floodtide.cli.progress import bar
from floodtide.cli.train import print_record
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.train import Trainer

SHAPE = (112, 160, 160)  # z, y, x
TRAINING_BOX = "0:64,0:160,0:160"
HELD_OUT_BOX = "72:112,0:160,0:160"  # further from the training box than half a field of view
LOM_RADIUS = (8, 8, 8)
THRESHOLDS = (0.2, 0.4, 0.6, 0.8)  # few classes: slivers of objects would be most of many
WALKERS = 8
MIN_SEGMENT_VOXELS = 200
PHASES = ((0.75, 1e-3), (1.0, 3e-4))  # share of the steps, learning rate


def run(directory: Path, *, steps: int, seed: int) -> Path | None:
    """Run the demonstration in `directory`; the path of report.html on rank 0, None elsewhere. Collective."""
    volume = directory / "volume.h5"
    with _comm.agreed():
        if _comm.rank() == 0:
            directory.mkdir(parents=True, exist_ok=True)
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
    for share, lr in PHASES:  # the second resumes from the first one's checkpoint
        settings = config.from_dict(_configuration(directory, round(share * steps), lr, seed))
        trainer = Trainer(settings, callbacks=[print_record])
        with bar("steps", f"train at rate {lr:g}") as progress:
            trainer.run(progress)
    page = None
    if _comm.rank() == 0:
        _core.set_num_threads(_core.available_cores())  # the other ranks sleep at the barrier
        scores = _segment_and_score(trainer, f"{volume}:raw", f"{volume}:labels")
        (directory / "scores.json").write_text(json.dumps(scores, indent=2) + "\n")
        _print_table(scores)
        page = report.write([directory])
    _comm.current().barrier()
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
                }
            ],
        },
        "model": {"depth": 4, "features": 16, "fov": [17, 17, 17], "deltas": [8, 8, 8]},
        "training": {"steps": steps, "walkers": WALKERS},
        "optimizer": {"name": "adam", "lr": lr},
        "validation": {"box": HELD_OUT_BOX, "every": 400, "centres": 39},
    }


def _segment_and_score(trainer: Trainer, image_name: str, labels_name: str) -> list[dict[str, Any]]:
    """Scores of the trained network, an untrained one and the trivial answer; leaves the pictures' data."""
    image, box = data.Volume(image_name), data.parse_box(HELD_OUT_BOX)
    truth = data.Volume(labels_name).read(box)
    volume = trainer.config.data.volumes[0]
    options = SegmentOptions(
        mean=volume.mean,
        std=volume.std,
        move_threshold=0.95,  # a network this young merges cells at the usual 0.9
        segment_threshold=0.5,
        min_segment_size=MIN_SEGMENT_VOXELS,
    )
    model = trainer.model
    untrained = nn.FFN(
        depth=model.depth, fov=model.fov, deltas=model.deltas, features=model.features
    )
    rows = []
    for name, network in (("trained network", model), ("untrained network", untrained)):
        with bar("seeds", f"segment with the {name}") as progress:
            result = Segmenter(network, options).segment(image, box, progress=progress)
        if network is model:
            result.save(f"{trainer.directory / 'segmentation.h5'}:segmentation")
            largest = max(result.origins, key=lambda origin: origin.voxels, default=None)
            if largest is not None:
                seed = [a - b for a, b in zip(largest.start_zyx, result.start_zyx, strict=True)]
                report.record_growth(
                    trainer.directory, Segmenter(network, options), image.read(box), seed
                )
        rows.append({"name": name, **evaluate.scores(result.segmentation, truth)})
    rows.append({"name": "everything is one object", **evaluate.scores(np.ones_like(truth), truth)})
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    columns = ("adapted_rand_error", "voi_split", "voi_merge", "coverage")
    click.echo("held-out voxels".ljust(26) + "".join(column.rjust(20) for column in columns))
    for row in rows:
        click.echo(
            row["name"].ljust(26) + "".join(f"{row[column]:.3f}".rjust(20) for column in columns)
        )
