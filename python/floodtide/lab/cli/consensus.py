# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab consensus`."""

from __future__ import annotations

import json

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("a")
@click.argument("b")
@click.argument("out")
@click.option(
    "--min-size",
    type=shared.Number(limits.VOXELS),
    default=1000,
    show_default=True,
    help="Smaller parts, in voxels, are discarded.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(a: str, b: str, out: str, min_size: int, as_json: bool) -> None:
    """Write the oversegmentation consensus OUT of the segmentations A and B of the same voxels.

    Two voxels have the same id only if both segmentations give them the same id. So a merger of one segmentation is
    split unless the other one has it too. The largest part of a segment of A keeps its id. Unsegmented voxels of B
    count as one segment, those of A stay unsegmented. The volumes are read block by block and may have any format.

    \b
    Example:
      floodtide lab consensus forward.h5:segmentation other.h5:segmentation both.h5:segmentation
    """
    from floodtide.base.progress import bar
    from floodtide.data import Volume
    from floodtide.segment import write_consensus

    shared.require_same_arguments()
    with world.agreed():
        if world.rank() == 0:
            with bar("voxels", "consensus") as progress:
                largest = write_consensus(Volume(a), Volume(b), out, min_size, progress)
            report = {"largest_id": largest, "out": out}
            click.echo(json.dumps(report) if as_json else f"ids up to {largest}: {out}")
