# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab synth`."""

from __future__ import annotations

import json

import click

from floodtide import data
from floodtide.base import limits
from floodtide.base.outputs import hdf5_result, reserved
from floodtide.base.progress import bar
from floodtide.cli import options as shared
from floodtide.comm import world

COMMAND = "floodtide lab synth"


@click.command()
@click.argument("out")
@shared.number(
    "--shape",
    limits.SYNTH_EXTENT,
    "Size z,y,x of the volume in voxels.",
    count=3,
    default="128,128,128",
)
@shared.number("--seed", limits.FILE_SEED, "Random seed of the volume.", default=0)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(out: str, shape: data.Vec3, seed: int, as_json: bool) -> None:
    """Write a synthetic electron-microscopy volume to OUT, an HDF5 file.

    Datasets: `raw` (uint8 image) and `labels` (int64 object ids from 1; membranes are 0).

    Example: floodtide lab synth volume.h5 --shape 112,160,160 --seed 1
    """
    shared.require_same_arguments()
    with world.agreed():
        if world.rank() != 0:
            return
        with reserved("synth", out, hdf5_result(COMMAND, ("raw", "labels"))):
            with bar("stages", "synth") as progress:
                image, labels = data.synth(shape, seed=seed, progress=progress)
            data.write_volume(out, {"raw": image, "labels": labels}, command=COMMAND)
    figures = {
        "out": out,
        "shape": list(image.shape),
        "cells": int(labels.max()),
        "image_mean": float(image.mean()),
        "image_std": float(image.std()),
    }
    if as_json:
        click.echo(json.dumps(figures))
    else:
        click.echo(
            f"{out}: {figures['cells']} cells,"
            f" image mean {figures['image_mean']:.1f}, std {figures['image_std']:.1f}"
        )
