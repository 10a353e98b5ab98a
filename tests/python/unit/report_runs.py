# SPDX-License-Identifier: Apache-2.0
"""Run directories made up for the report's tests: files as training leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from floodtide.report.growth import Snapshots

TRIVIAL = {
    "all_object": {"f1_50": 0.62, "mcc_50": 0.0, "accuracy_50": 0.45},
    "best_constant": {"f1_50": 0.0, "mcc_50": 0.0, "cross_entropy": 0.66},
}

CONFIG = """\
[run]
seed = 7
[[data.volumes]]
name = "synthetic"
image = "FOLDER/volume.h5:raw"
labels = "FOLDER/volume.h5:labels"
voxel_size_nm = [20.0, 10.0, 10.0]
[model]
kind = "ffn"
depth = 4
fov = [17, 17, 17]
deltas = [4, 4, 4]
[optimizer]
name = "adam"
lr = 1e-3
"""


def metrics(quality: float) -> dict[str, float]:
    """The six validation figures at a quality between 0 and 1."""
    return {
        "cross_entropy": 0.7 - 0.5 * quality,
        "f1_50": quality,
        "f1_90": 0.9 * quality,
        "mcc_50": 0.95 * quality,
        "mcc_90": 0.85 * quality,
        "average_precision": 0.5 + 0.5 * quality,
    }


def training_record(step: int, loss: float) -> dict[str, Any]:
    """One `train` record of the log."""
    counts = {"tp": 100 + step, "fp": 50, "tn": 1000, "fn": 60}
    return {
        "kind": "train",
        "step": step,
        "time_s": 0.1 * step,
        "loss": loss,
        "lr": 1e-3 * min(1.0, (step + 1) / 100),
        "fovs_per_s": 20.0 + 3.0 * np.sin(step),
        "wait_data_s": 0.001,
        "wait_comm_s": 0.004 + 0.002 * np.cos(step),
        **counts,
    }


def validation_record(step: int, quality: float) -> dict[str, Any]:
    """One `validation` record of the log."""
    return {
        "kind": "validation",
        "step": step,
        "time_s": 0.1 * step,
        "first_pass": metrics(0.9 * quality),
        "moves": metrics(quality),
        "trivial": TRIVIAL,
        "trivial_moves": TRIVIAL,
        "moves_made": 12,
    }


def write_log(folder: Path, steps: int = 400, rate: float = 1.0) -> None:
    """A log of training and validation records."""
    rng = np.random.default_rng(1)
    records: list[dict[str, Any]] = [
        {
            "kind": "start",
            "step": 0,
            "ranks": 2,
            "threads": 1,
            "kernels": "avx2_direct",
            "processor": "one",
            "cores": 1,
        }
    ]
    for step in range(0, steps, 4):
        loss = 0.15 + 0.5 * np.exp(-rate * step / 120) * rng.uniform(0.7, 1.3)
        records.append(training_record(step, float(loss)))
        if step % 100 == 0:
            quality = 1.0 - np.exp(-rate * (step + 10) / 150)
            records.append(validation_record(step, quality))
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def write_segmentation(folder: Path) -> None:
    """Cells around random points with dark membranes; one object cut in two, one left out."""
    shape, rng = (40, 72, 96), np.random.default_rng(2)
    points = rng.uniform((0, 0, 0), shape, (30, 3))
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1)[..., None, :]
    distance = np.sort(np.linalg.norm(grid - points, axis=-1), axis=-1)
    truth = np.linalg.norm(grid - points, axis=-1).argmin(-1) + 1
    membrane = distance[..., 1] - distance[..., 0] < 1.5
    image = np.where(membrane, 70.0, 150.0) + rng.normal(0.0, 18.0, shape)
    segmentation = np.where(membrane, 0, truth + 100)
    middle = truth[20, 36, 48]
    segmentation[(truth == middle) & (grid[..., 0, 2] > 48)] = 99
    segmentation[truth == truth[20, 10, 10]] = 0
    start = (2, 3, 5)
    margin = [(n, 0) for n in start]
    with h5py.File(folder / "volume.h5", "w") as file:
        file["raw"] = np.pad(image.clip(0, 255).astype(np.uint8), margin)
        file["labels"] = np.pad(truth.astype(np.uint64), margin)
    with h5py.File(folder / "segmentation.h5", "w") as file:
        file["segmentation"] = segmentation.astype(np.uint32)
        file["segmentation"].attrs["box_start"] = start


def growing_ball(snapshots: int = 8) -> Snapshots:
    """A ball whose visited part grows."""
    side = 41
    grid = np.stack(np.meshgrid(*[np.arange(side) - side // 2] * 3, indexing="ij"), -1)
    radius = np.linalg.norm(grid * np.array([1.0, 1.0, 0.7]), axis=-1)
    rng = np.random.default_rng(3)
    canvas = np.full((snapshots, side, side, side), np.nan, np.float32)
    for index in range(snapshots):
        reach = 8 + 2 * index
        inside = np.abs(grid).max(-1) <= reach
        canvas[index][inside] = 1 / (1 + np.exp(np.clip(radius[inside] - 12.0, -6, 6)))
    image = np.where(np.abs(radius - 13) < 1.2, 70.0, 150.0) + rng.normal(0.0, 15.0, radius.shape)
    return Snapshots(canvas, np.arange(snapshots) * 3 + 1, image, (20, 20, 20))


def make_trained(folder: Path) -> Path:
    """A run directory with settings and log, but without volumes and a segmentation."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG.replace("FOLDER", str(folder)))
    write_log(folder)
    return folder


def make_run(folder: Path) -> Path:
    """A complete run directory."""
    make_trained(folder)
    write_segmentation(folder)
    return folder
