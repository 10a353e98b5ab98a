# SPDX-License-Identifier: Apache-2.0
"""`floodtide predict`."""

from __future__ import annotations

from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared


@click.command()
@click.argument("model", metavar="RUN-OR-CHECKPOINT")
@click.argument("image", metavar="IMAGE")
@click.argument("out", metavar="OUT.h5:DATASET")
@shared.box
@shared.number("--mean", limits.INTENSITY, "Mean of the image; default: that of the training.")
@shared.number("--std", limits.DEVIATION, "Its standard deviation; default: that of the training.")
@shared.voxel_nm
@shared.switch(
    "--probabilities",
    "Also write the probabilities of the classes: DATASET_probabilities (classes, z, y, x).",
)
@shared.switch(
    "--mirror",
    "Average the predictions of the image and of its mirror images, along the axes that training reflected. Takes"
    " up to eight times as long, and makes fewer mistakes.",
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="VOLUME",
    help="A further channel of the image, in the order of the training; give the option once for each.",
)
@shared.as_json
def command(model: str, image: str, out: str, voxel_nm: Any, as_json: bool, **asked: Any) -> None:
    """Apply a U-Net to a volume (z, y, x) of any size.

    Writes the value of the most likely class of each voxel, affinities (float32, (offsets, z, y, x)), or the distance,
    block by block. Ranks share the blocks. If a run directory is given, its newest checkpoint is used.

    \b
    Example:
      floodtide predict runs/liver liver_validation.h5:image liver_predicted.h5:labels
      floodtide predict runs/affinities raw.h5:raw affinities.h5:affinities --box 190:250,0:250,0:250
    """
    from floodtide.segment import predict_volume

    shared.require_same_arguments()
    shared.show(predict_volume(model, image, out, voxel_size_nm=voxel_nm, **asked), as_json)
