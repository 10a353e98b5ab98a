# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab replay`."""

from __future__ import annotations

import json

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("segmentation", metavar="FILE.h5:DATASET")
@click.argument("reference", metavar="REFERENCE.h5:DATASET")
@click.option(
    "--roundings",
    type=shared.number_type(limits.COUNT_OR_NONE),
    default=4,
    show_default=True,
    help="Most replays with other roundings of the network, to reproduce an object that differs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each replay.")
def command(segmentation: str, reference: str, roundings: int, as_json: bool) -> None:
    """Flood each object of REFERENCE that differs again, and name the network call where it leaves REFERENCE.

    `floodtide lab compare` tells which objects differ. REFERENCE is an HDF5 file with origins, as `floodtide segment`
    writes them. Image, network and options are those that FILE.h5 states.

    Example: floodtide lab replay out.h5:segmentation published.h5:segmentation
    """
    from floodtide.base.progress import bar
    from floodtide.lab.replay import replays

    shared.require_same_arguments()
    with world.agreed():
        if world.rank() > 0:
            return
        with bar("network calls", "replay", line_every_s=10.0) as progress:
            for row, origin in replays(segmentation, reference, roundings, progress):
                told = f"object {row.id}: {row.told(origin.calls)}"
                click.echo(json.dumps(row.row()) if as_json else told)
