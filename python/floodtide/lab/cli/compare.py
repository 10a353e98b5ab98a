# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab compare`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import click

from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("segmentation", metavar="FILE.h5:DATASET")
@click.argument("reference", metavar="REFERENCE.h5:DATASET")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(segmentation: str, reference: str, as_json: bool) -> None:
    """Compare a segmentation of `floodtide segment` with another one of the same voxels, such as a published one.

    Ids are matched one to one. The command tells objects, network calls, the share of equal voxels, and which objects
    of REFERENCE differ. REFERENCE is an HDF5 file with origins (datasets origins/id, iters, start_zyx), as `floodtide
    segment` writes them.

    Example: floodtide lab compare out.h5:segmentation published.h5:segmentation
    """
    from floodtide.lab.compared import compared
    from floodtide.segment import read_origins

    shared.require_same_arguments()
    with world.agreed():
        if world.rank() > 0:
            return
        pair = compared(segmentation, reference)
        report = {
            "matching": pair.table.matching(),
            "network_calls": sum(origin.calls for origin in read_origins(segmentation)),
            "reference_network_calls": sum(origin.calls for origin in read_origins(reference)),
            "differences": [dataclasses.asdict(difference) for difference in pair.differences],
        }
        click.echo(json.dumps(report) if as_json else _text(report))


def _text(report: Mapping[str, Any]) -> str:
    found = report["matching"]
    return "\n".join(
        [
            f"objects        {found['segments']} (reference {found['objects']})",
            f"network calls  {report['network_calls']} of objects (reference {report['reference_network_calls']})",
            f"equal voxels   {100 * found['same_voxels'] / found['voxels']:.4f} % of {found['voxels']}, ids matched one"
            " to one",
            f"equal objects  {found['identical']} of {found['objects']}, voxel for voxel",
            *(
                f"object {one['object']}: {one['missing']} voxels missing, {one['additional']} additional"
                for one in report["differences"]
            ),
        ]
    )
