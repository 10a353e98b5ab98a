# SPDX-License-Identifier: Apache-2.0
"""`floodtide partition`."""

from __future__ import annotations

from typing import Any

import click

from floodtide import data
from floodtide.base import limits
from floodtide.base.progress import bar
from floodtide.cli import options as shared
from floodtide.data.partitions import THRESHOLDS


@click.command()
@click.argument("labels")
@click.argument("out")
@shared.number(
    "--thresholds",
    limits.FRACTION,
    "Local object fractions that separate the partitions, in ascending order.",
    count=0,
    default=",".join(map(str, THRESHOLDS)),
)
@shared.number(
    "--lom-radius",
    limits.RADIUS,
    "Radius z,y,x in voxels of the box around each voxel: half the field of view plus its step.",
    count=3,
    default="24,24,24",
)
@shared.number(
    "--min-size", limits.VOXELS, "Objects with fewer voxels count as background.", default=10000
)
@shared.box
@shared.as_json
def command(labels: str, out: str, box: str, as_json: bool, **asked: Any) -> None:
    """Classify the voxels of LABELS (file:dataset) into partitions and write them to OUT (file:dataset).

    The local object fraction of a voxel is the fraction of the box around it that belongs to the same object. Partition
    1 means a fraction below the first threshold, and so on. Partition 0 is background. Partition 255 marks voxels too
    close to the faces of the volume.

    Example: floodtide partition groundtruth.h5:stack partitions.h5:af --lom-radius 24,24,24
    """
    shared.require_same_arguments()
    with bar("blocks", "partition") as progress:
        part = data.parse_box(box)
        counts = data.partition(labels, out, box=part, progress=progress, **asked)
    shared.show({"out": out, "partition_counts": counts}, as_json)
