# SPDX-License-Identifier: Apache-2.0
"""`floodtide coordinates`."""

from __future__ import annotations

import json

import click

from floodtide import data
from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.base.progress import bar
from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("partitions", nargs=-1, required=True)
@click.argument("out")
@click.option(
    "--margin",
    default="0,0,0",
    show_default=True,
    help="Distance z,y,x in voxels that centres keep from the faces of every volume.",
)
@click.option(
    "--seed",
    default=0,
    type=shared.Number(limits.FILE_SEED),
    show_default=True,
    help="Random seed for the order of the centres.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(partitions: tuple[str, ...], out: str, margin: str, seed: int, as_json: bool) -> None:
    """Write example centres to OUT, an HDF5 file, with the same number of centres from every partition.

    PARTITIONS are volumes made by `floodtide partition`: file:dataset or name=file:dataset. The name is
    that of the training volume (default: the file name without extension). Training can also draw
    balanced centres directly from the partition volumes. A file fixes their order, for other programs.

    Example: floodtide coordinates sample2=partitions.h5:af coordinates.h5
    """
    shared.require_same_arguments()
    with bar("rows", "coordinates") as progress:
        counts = data.coordinates(
            partitions,
            out,
            margin=data.parse_vec3(margin, "margin"),
            seed=seed,
            progress=progress,
        )
    if world.rank() != 0:
        return
    rows = len(counts) * max(counts.values())
    if as_json:
        click.echo(json.dumps({"out": out, "rows": rows, "partition_counts": counts}))
        return
    click.echo(
        f"{count_of(rows, 'centre')}: {count_of(len(counts), 'partition')}, {max(counts.values())} of each"
    )
