# SPDX-License-Identifier: Apache-2.0
"""`floodtide partition`."""

from __future__ import annotations

import json

import click

from floodtide import data
from floodtide.base import limits
from floodtide.base.progress import bar
from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("labels")
@click.argument("out")
@click.option(
    "--thresholds",
    type=shared.Numbers(limits.FRACTION),
    default=",".join(map(str, data.THRESHOLDS)),
    show_default=True,
    help="Ascending fractions between the partitions.",
)
@click.option(
    "--lom-radius",
    default="24,24,24",
    show_default=True,
    help="Half the size z,y,x of the box around a voxel: half the field of view plus the step.",
)
@click.option(
    "--min-size",
    default=10000,
    type=shared.Number(limits.VOXELS),
    show_default=True,
    help="Objects of fewer voxels count as background.",
)
@click.option("--box", default="", help="Part to use, z0:z1,y0:y1,x0:x1; the rest gets 255.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    labels: str,
    out: str,
    thresholds: tuple[float, ...],
    lom_radius: str,
    min_size: int,
    box: str,
    as_json: bool,
) -> None:
    """Sort the voxels of LABELS (file:dataset) into partitions, written to OUT (file:dataset).

    A voxel's partition says which fraction of the box around it its own object fills: 1 below the
    first threshold, and so on; 0 is background, 255 too close to the faces. Also under mpiexec.

    Example: floodtide partition groundtruth.h5:stack partitions.h5:af --lom-radius 24,24,24
    """
    shared.require_same_arguments()
    with bar("blocks", "partition") as progress:
        counts = data.partition(
            labels,
            out,
            thresholds=thresholds,
            lom_radius=data.parse_vec3(lom_radius, "lom radius"),
            min_size=min_size,
            box=data.parse_box(box),
            progress=progress,
        )
    if world.rank() != 0:
        return
    if as_json:
        click.echo(json.dumps({"out": out, "partition_counts": counts}))
        return
    click.echo("partition       voxels")
    for value, voxels in counts.items():
        click.echo(f"{value:9d} {voxels:12d}")
