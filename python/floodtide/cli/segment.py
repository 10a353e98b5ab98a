# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment`."""

from __future__ import annotations

from typing import Any

import click

from floodtide.cli import options as shared
from floodtide.cli import segment_modes


@click.command()
@click.argument("file", metavar="CONFIG.toml | IMAGE")
@shared.text("--model", "NETWORK", "With IMAGE: fib25, a checkpoint or a run directory.")
@shared.voxel_nm
@shared.text(
    "--out",
    "FILE.h5:DATASET | FOLDER",
    "Where to write the segmentation, or its subvolumes (segment.subvolume). Only --preview has a default.",
)
@click.option("--box", help="Box to segment, z0:z1,y0:y1,x0:x1 in voxels; replaces segment.box.")
@shared.text("--subvolumes", "A:B", "Only subvolumes A to B - 1, for the tasks of a job array.")
@shared.switch("--estimate", "Print memory, network calls and hours; segment nothing.")
@shared.switch("--preview", "With --model: segment a box in a few minutes, and draw it.")
@shared.overrides
@shared.as_json
def command(file: str, as_json: bool, **asked: Any) -> None:
    """Segment a box of a volume with the network that the [segment] section of CONFIG.toml names.

    With segment.subvolume, ranks share overlapping subvolumes, for `floodtide reconcile`. The same command continues
    after a crash, on any number of ranks. docs/segmentation.md explains segmentation, docs/published_network.md
    `--model` and `--preview`.

    \b
    Example:
      floodtide segment stack.tif --model fib25 --voxel-nm 8,8,8 --preview
      floodtide segment fib25.toml --out out.h5:segmentation --box 65:185,65:185,65:185
      mpiexec -n 16 floodtide segment brain.toml --out pieces --set segment.subvolume=[256,256,256]
    """
    shared.require_same_arguments()
    shared.show(segment_modes.run(file, **asked), as_json)
