# SPDX-License-Identifier: Apache-2.0
"""`floodtide convert`: networks, volumes, and files of google/ffn."""

from __future__ import annotations

from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import convert_kinds
from floodtide.cli import options as shared


@click.command()
@click.argument("source")
@click.argument("destination")
@shared.number(
    "--fov",
    limits.FIELD_OF_VIEW,
    "Size z,y,x of the field of view in voxels (default: stored in SOURCE, else 33,33,33).",
    count=3,
)
@shared.number(
    "--deltas",
    limits.DELTA,
    "Distance z,y,x in voxels by which the field of view moves (default: stored in SOURCE, else 8,8,8).",
    count=3,
)
@shared.voxel_nm
@shared.number(
    "--resample-nm",
    limits.VOXEL_SIZE,
    "Write a volume at this voxel size z,y,x in nm: means of the voxels, or a linear interpolation.",
    count=3,
)
@shared.box
@shared.switch(
    "--labels",
    "The volume holds labels: precomputed states it, and --resample-nm takes the label with the largest share.",
)
@shared.number(
    "--erode",
    limits.DISTANCE,
    "With --labels: voxels at most so far from another object become 0, before --resample-nm.",
    default=0,
)
@shared.as_json
def command(source: str, destination: str, as_json: bool, **asked: Any) -> None:
    """Write a volume in another format, a network to another file, or what google/ffn reads and writes.

    \b
    DESTINATION decides what SOURCE is:
      network.h5     a network: the prefix of a TensorFlow checkpoint, a floodtide checkpoint, or a run directory. The
                     state of the optimizer and the walkers is left out.
      network.onnx   the same, as an ONNX model, for onnxruntime, OpenVINO and others.
      X.safetensors  the same, as weights for PyTorch. SOURCE may be such a file, too.
      plan.toml      a request of google/ffn (InferenceRequest in text format), for `floodtide segment plan.toml`.
      npz://FOLDER   a segmentation: google/ffn's FOLDER/X/Y/seg-X_Y_Z.npz is written.
      a volume       a volume: file.h5:dataset, volume.zarr/path, volume.n5/path, precomputed://folder or stack.tif.
                     Voxel size and offset are kept where the formats have them.

    \b
    Example:
      floodtide convert models/fib25/model.ckpt-27465036 fib25.h5
      floodtide convert fib25.h5 fib25.onnx
      floodtide convert stack.tif stack-10nm.zarr --voxel-nm 8,8,8 --resample-nm 10,10,10
    """
    shared.show(convert_kinds.convert(source, destination, **asked), as_json)
