# SPDX-License-Identifier: Apache-2.0
"""Run directories of U-Nets made up for the report's tests: logs as training leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

CONFIG = """\
[run]
seed = SEED
dir = "FOLDER"
[[data.volumes]]
name = "sample2"
image = "raw.h5:raw"
labels = "truth.h5:stack"
[data]
patch = [16, 128, 128]
[task]
kind = "TASK"
CLASSES
[model]
kind = "unet"
kernels = [[1, 3, 3], [3, 3, 3]]
pools = [[1, 2, 2]]
[training]
steps = 200
batch = 4
loss = "dice+cross_entropy"
"""


def dice_scores(quality: float) -> dict[str, Any]:
    """Scores of ten groups, of whom one has none."""
    groups = [quality * (1.0 - 0.02 * i) for i in range(9)] + [None]
    row = {
        "class": 1,
        "name": "liver",
        "dice_pooled": 1.01 * quality,
        "dice_mean": 0.92 * quality,
        "dice_groups": groups,
        "dice_everything": 0.31,
    }
    return {
        "classes": [row],
        "groups": [str(i) for i in range(10)],
        "confusion": [[950, 50], [20, 180]],
    }


def affinity_scores(quality: float) -> dict[str, Any]:
    """Scores of three affinities."""
    axis = {
        "average_precision": 0.9 + 0.09 * quality,
        "share_of_ones": 0.88,
        "boundary_average_precision": 0.12 + 0.7 * quality,
        "f1": 0.9,
        "mcc": 0.8 * quality,
    }
    return {"channels": {"z": axis, "y": axis, "x": axis}}


def soft(quality: float) -> dict[str, float]:
    """Scores of an output that is no probability."""
    return {"mean_squared_error": 0.2 * (1.0 - quality), "variance": 0.2, "voxels": 4096}


SCORES = {
    "classes": dice_scores,
    "affinities": affinity_scores,
    "lsd": lambda quality: {
        "channels": {
            **affinity_scores(quality)["channels"],
            "offset z": soft(quality),
            "size": soft(0.5 * quality),
        }
    },
    "distance": lambda quality: {"channels": {"distance": soft(quality)}},
}


def validation_record(task: str, step: int, time_s: float, quality: float) -> dict[str, Any]:
    """A validation record of a task, at a quality between 0 and 1."""
    return {
        "kind": "validation",
        "step": step,
        "time_s": time_s,
        "cross_entropy": 0.5 - 0.4 * quality,
        "samples": 97,
        **SCORES[task](quality),
    }


def make_unet_run(
    folder: Path,
    *,
    task: str = "classes",
    workers: int = 1,
    ranks: int | None = None,
    seed: int = 0,
    rate: float = 1.0,
    diverges: bool = False,
) -> Path:
    """A run of 200 steps, a record each 4: `rate` is that of the loss's fall to a tenth.

    A rank takes 0.1 s a patch and waits 2 % longer for each further rank; a worker has 4 patches a step.
    """
    ranks = workers if ranks is None else ranks
    folder.mkdir(parents=True)
    classes = 'classes = { 0 = "other", 1 = "liver" }' if task == "classes" else ""
    config = CONFIG.replace("FOLDER", str(folder)).replace("SEED", str(seed))
    config = config.replace("TASK", task).replace("CLASSES", classes)
    (folder / "config.toml").write_text(config)
    start = {"ranks": ranks, "walkers": workers, "unit": "patches", "examples_per_epoch": 400}
    records: list[dict[str, Any]] = [{"kind": "start", "step": 0, "time_s": 0.0, **start}]
    rng = np.random.default_rng(seed)
    step_s = 0.4 * workers / ranks * (1.0 + 0.02 * (ranks - 1))
    for step in range(4, 201, 4):
        fall = np.exp(-rate * workers**0.7 * step / 60)
        loss = (0.15 + 1.2 * fall) * rng.uniform(0.95, 1.05)
        if diverges and step > 80:
            loss = 0.3 + 0.01 * (step - 80)
        units = 16 * workers
        records.append(
            {
                "kind": "train",
                "step": step,
                "time_s": step * step_s,
                "loss": float(loss),
                "lr": 1e-3,
                "patches": units,
                "examples": units,
                "patches_per_s": units / (4 * step_s),
                "wait_data_s": 0.01,
                "wait_comm_s": 0.02,
                "tp": 100,
                "fp": 10,
                "fn": 5 + step,
                "tn": 1000,
            }
        )
        if step % 40 == 0:
            quality = 0.95 * (1.0 - fall) * rng.uniform(0.97, 1.0)
            records.append(validation_record(task, step, step * step_s, float(quality)))
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
