# SPDX-License-Identifier: Apache-2.0
"""The commands that trials run on the sample files, and what is compared of what they leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.hdf5_damage import datasets

Outcome = Callable[[Path, str], Any]


@dataclass(frozen=True)
class Command:
    """A command line on the sample files.

    Attributes:
        line: Words after `floodtide`, separated by spaces.
        outcome: From the folder and what was printed, what must be the same when files are undamaged.
        outputs: Beginnings of the names that it may make.
        whole: Outputs that are there exactly when it succeeds.
        changes: Beginnings of the names that it may change or remove.
        problem: A word that it prints where it exits with 1 and says nothing on standard error.
    """

    line: str
    outcome: Outcome
    outputs: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    problem: str = ""


def hdf5_outcome(*leave_out: str) -> Outcome:
    """Every dataset of out.h5 but the ones named, as text: name, type, shape and a checksum of the values."""

    def outcome(folder: Path, _: str) -> list[str]:
        return sorted(
            _described(name, value)
            for name, value in datasets(folder / "out.h5")
            if "@" not in name and not name.startswith(leave_out or ("\0",))
        )

    return outcome


def _described(name: str, value: Any) -> str:
    import hashlib

    array = np.asarray(value)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    odd = array.dtype.kind == "f" and not np.isfinite(array).all()
    return f"{name} {array.dtype} {array.shape} {digest}{' NOT FINITE' if odd else ''}"


def scores(_: Path, printed: str) -> Any:
    """What is printed as JSON, without the time that it took and without trivial answers.

    The grey level is left out if the image cannot be found; `notes` says so.
    """
    rows = json.loads(printed)
    rows.pop("seconds", None)
    rows.pop("trivial", None)
    rows.pop("notes", None)
    return rows


def scores_and_picture(folder: Path, printed: str) -> Any:
    """The same, and a checksum of the picture."""
    import hashlib

    return [scores(folder, printed), hashlib.sha256((folder / "out.png").read_bytes()).hexdigest()]


def lines(_: Path, printed: str) -> Any:
    """What is printed."""
    return printed


def nothing(_: Path, __: str) -> Any:
    """Nothing that could be compared."""
    return None


def losses(run: str) -> Outcome:
    """The losses of a run's log, and its newest parameters."""

    def outcome(folder: Path, _: str) -> Any:
        records = [
            json.loads(line) for line in (folder / run / "log.jsonl").read_text().splitlines()
        ]
        figures = [
            r["loss"] for r in records if r.get("kind") == "train"
        ]  # a record may be damaged
        steps = max(r["step"] for r in records)
        parameters = [
            _described(name, value)
            for name, value in datasets(folder / run / "checkpoints" / f"step-{steps}.h5")
            if name.startswith("parameters/") and "@" not in name
        ]
        return [steps, figures[-2:], sorted(parameters)]

    return outcome


def _train(line: str) -> Command:
    return Command(f"train {line} --set run.dir=out", losses("out"), outputs=("out",))


def _resume(line: str, run: str) -> Command:
    return Command(f"train {line}", losses(run), outputs=(run,), changes=(run,))


FORMATS = {
    "zarr": "{0}_zarr/volume.zarr",
    "n5": "{0}_n5/volume.n5",
    "precomputed": "precomputed://{0}_precomputed",
    "tif": "{0}_tif/stack.tif",
    "nifti": "{0}_nifti/volume.nii.gz",
    "slices": "{0}_slices/*.tif",
    "png": "{0}_png/*.png",
    "ome_zarr": "{0}_ome_zarr/volume.zarr",
    "ome_tif": "{0}_ome_tif/stack.ome.tif",
    "imagej": "{0}_imagej/stack.tif",
}
"""Names of the sample volumes "raw" and "labels" in each format, each in a folder of its own."""
OF_OTHERS = ("nifti", "slices", "png", "ome_zarr", "ome_tif", "imagej")
"""Formats of FORMATS that another library writes, with what it states about axes and voxels."""


def _of_formats() -> dict[str, Command]:
    commands = {}
    for name, pattern in FORMATS.items():
        commands[f"segment-{name}"] = Command(
            "segment segment.toml --out out.h5:segmentation --json --set data.volumes.0.image="
            + pattern.format("raw"),
            hdf5_outcome("origins/walltime_s", "counters"),
            outputs=("out.h5",),
            whole=("out.h5",),
        )
        commands[f"partition-{name}"] = Command(
            f"partition {pattern.format('labels')} out.h5:af --lom-radius 3,3,3 --min-size 10 --json",
            hdf5_outcome(),
            outputs=("out.h5",),
            whole=("out.h5",),
        )
    return commands


COMMANDS = {
    "partition": Command(
        "partition volume.h5:labels out.h5:af --lom-radius 3,3,3 --min-size 10 --json",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "segment": Command(
        "segment segment.toml --out out.h5:segmentation --json",
        hdf5_outcome("origins/walltime_s", "counters"),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "segment-tensorflow": Command(
        "segment segment.toml --out out.h5:segmentation --json --set segment.checkpoint=model.ckpt "
        "--set segment.fov=[7,7,7] --set segment.deltas=[2,2,2]",
        hdf5_outcome("origins/walltime_s", "counters"),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "segment-seeds": Command(
        "segment segment.toml --out out.h5:segmentation --json --set segment.seeds=segmentation.h5 "
        "--set segment.initial=segmentation.h5:segmentation",
        hdf5_outcome("origins/walltime_s", "counters"),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "segment-listed": Command(
        "segment segment.toml --out out.h5:segmentation --json --set segment.seeds=seeds.txt",
        hdf5_outcome("origins/walltime_s", "counters"),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "segment-request": Command(
        "convert request.pbtxt out.toml --json",
        lines,
        outputs=("out.toml",),
        whole=("out.toml",),
    ),
    "segment-origins": Command(
        "segment segment.toml --out out.h5:segmentation --json --set segment.seeds=npz/0/0/seg-0_0_0.npz",
        hdf5_outcome("origins/walltime_s", "counters"),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "segment-preview": Command(
        "segment volume.h5:raw --model network.h5 --preview --voxel-nm 8,8,8 --box 0:20,0:22,0:24 --out out.h5:preview"
        " --set segment.min_segment_size=5",
        nothing,
        outputs=("out.",),
    ),
    "init": Command(
        "init volume.h5:raw --labels volume.h5:labels --task affinities --voxel-nm 8,8,8 --out out.toml",
        nothing,
        outputs=("out.toml",),
        whole=("out.toml",),
    ),
    "resample": Command(
        "convert volume.h5:raw out.h5:raw --voxel-nm 8,8,8 --resample-nm 12,12,12",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "segment-checkpoint": Command(
        "segment segment.toml --out out.h5:segmentation --json --set segment.checkpoint_interval=1000",
        hdf5_outcome("origins/walltime_s", "counters"),
        outputs=("out.h5",),
        whole=("out.h5",),
        changes=("out.h5.segmentation.checkpoint",),
    ),
    "segment-pieces": Command(
        "segment segment.toml --out pieces --set segment.subvolume=[14,14,14]",
        nothing,
        outputs=("pieces",),
        changes=("pieces",),
    ),
    "reconcile": Command(
        "reconcile pieces out.h5:segmentation --json",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "agglomerate": Command(
        "agglomerate affinities.h5:affinities out.h5:segments --min-size 2 --json",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "resegment": Command(
        "agglomerate segment.toml segmentation.h5:segmentation --pairs pairs --json",
        nothing,
        outputs=("pairs",),
        changes=("pairs",),
    ),
    "partition-foreign": Command(
        "partition foreign.h5:volumes/labels out.h5:af --lom-radius 3,3,3 --min-size 10 --json",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "evaluate-foreign": Command(
        "evaluate segmentation.h5:segmentation foreign.h5:volumes/chunked --json", scores
    ),
    "segment-foreign": Command(
        "segment segment.toml --out out.h5:segmentation --json "
        "--set data.volumes.0.image=foreign.h5:volumes/raw",
        hdf5_outcome("origins/walltime_s", "counters"),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "predict-foreign": Command(
        "predict affinities_run foreign.h5:volumes/raw out.h5:affinities --box 2:8,0:16,0:16",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "evaluate": Command("evaluate segmentation.h5:segmentation volume.h5:labels --json", scores),
    "compare": Command(
        "lab compare segmentation.h5:segmentation segmentation.h5:segmentation --json", scores
    ),
    "evaluate-picture": Command(
        "evaluate segmentation.h5:segmentation volume.h5:labels --picture out.png --json",
        scores_and_picture,
        outputs=("out.png",),
        whole=("out.png",),
    ),
    "evaluate-classes": Command(
        "evaluate slices.h5:mask slices.h5:mask --classes --objects --picture out.png --image slices.h5:image --json",
        scores_and_picture,
        outputs=("out.png",),
        whole=("out.png",),
    ),
    "predict": Command(
        "predict slices_run slices.h5:image out.h5:labels --probabilities",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "predict-affinities": Command(
        "predict affinities_run volume.h5:raw out.h5:affinities --box 2:8,0:16,0:16",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "convert": Command(
        "convert network.h5 out.h5 --json", hdf5_outcome(), outputs=("out.h5",), whole=("out.h5",)
    ),
    "convert-run": Command(
        "convert run/checkpoints/step-4.h5 out.h5 --json",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "convert-tensorflow": Command(
        "convert model.ckpt out.h5 --fov 7,7,7 --deltas 2,2,2 --json",
        hdf5_outcome(),
        outputs=("out.h5",),
        whole=("out.h5",),
    ),
    "train": _train("train.toml"),
    "train-slices": _train("slices.toml"),
    "train-affinities": _train("affinities.toml"),
    "train-from": _train("train.toml --set model.initial_weights=network.h5"),
    "resume": _resume("train.toml --set training.steps=6", "run"),
    "resume-slices": _resume("slices.toml --set training.steps=4", "slices_run"),
    "report": Command(
        "report run", nothing, outputs=("run/report.html",), whole=("run/report.html",)
    ),
    "report-slices": Command(
        "report slices_run",
        nothing,
        outputs=("slices_run/report.html",),
        whole=("slices_run/report.html",),
    ),
    "report-affinities": Command(
        "report affinities_run",
        nothing,
        outputs=("affinities_run/report.html",),
        whole=("affinities_run/report.html",),
    ),
    "report-two": Command(
        "report run run2 --out out.html --figures out_figures",
        nothing,
        outputs=("out.html", "out_figures"),
        whole=("out.html",),
    ),
    "study": Command(
        "lab study sweep --out out.html --figures out_figures",
        nothing,
        outputs=("out.html", "out_figures"),
        whole=("out.html",),
    ),
    "progress": Command(
        "lab progress sweep --out out_figures --published", nothing, outputs=("out_figures",)
    ),
    "sweep-list": Command("lab sweep sweep.toml --list", lines),
    "check": Command("inspect train.toml --json", lines),
    "inspect": Command(
        "inspect volume.h5:raw --labels volume.h5:labels --out out.html",
        lines,
        outputs=("out.html",),
        whole=("out.html",),
    ),
    "simulate": Command("lab simulate run --ranks 1,2 --steps 50", lines),
    "simulate-samples": Command(
        "lab simulate --samples samples.txt --ranks 1,2 --steps 50 --network 10gbe", lines
    ),
    "simulate-allreduce": Command(
        "lab simulate --compute-s 0.1 --allreduce allreduce.jsonl --algorithm ring --ranks 1,2,5 --steps 50",
        lines,
    ),
    "machine": Command(
        "info --machine train.toml --set run.dir=out", nothing, outputs=("out",), problem="problem"
    ),
    "job": Command(
        "job slurm train.toml --nodes 2 --time 01:00:00 --out out.slurm",
        nothing,
        outputs=("out.slurm",),
        whole=("out.slurm",),
    ),
    **_of_formats(),
}
