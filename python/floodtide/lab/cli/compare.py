# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab compare`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from floodtide.base import limits
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.errors import InvalidArgumentError


@click.command()
@click.argument("segmentation", metavar="FILE.h5:DATASET")
@click.argument("reference", metavar="REFERENCE.h5:DATASET")
@click.option(
    "--picture",
    metavar="FILE.png",
    help="Also draw, for each of the objects that differ most, the plane with most of the voxels that differ.",
)
@click.option(
    "--voxel-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="With --picture: voxel size in nanometres. Without: as a file says, else the scale bar is in voxels.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    segmentation: str,
    reference: str,
    picture: str | None,
    voxel_nm: tuple[float, float, float] | None,
    as_json: bool,
) -> None:
    """Compare a segmentation of `floodtide segment` with another one of the same voxels, such as a published one.

    Ids are matched one to one. The command tells objects, network calls, the share of equal voxels, and which objects
    of REFERENCE differ. REFERENCE is an HDF5 file with origins (datasets origins/id, iters, start_zyx), as `floodtide
    segment` writes them.

    Example: floodtide lab compare out.h5:segmentation published.h5:segmentation --picture differences.png
    """
    from floodtide.evaluate import compared
    from floodtide.segment import read_origins

    shared.require_same_arguments()
    with contextlib.ExitStack() as held, world.agreed():
        if world.rank() > 0:
            return
        if voxel_nm and picture is None:
            raise InvalidArgumentError("--voxel-nm has no effect without --picture")
        if picture is not None:
            inputs = files_of([segmentation, reference])
            held.enter_context(reserved("compare", picture, PICTURES[".png"], inputs))
        pair = compared(segmentation, reference)
        report = {
            "matching": pair.table.matching(),
            "network_calls": sum(origin.calls for origin in read_origins(segmentation)),
            "reference_network_calls": sum(origin.calls for origin in read_origins(reference)),
            "differences": [dataclasses.asdict(difference) for difference in pair.differences],
        }
        if picture is not None:
            from floodtide.report import differences

            differences.save_differences(pair, Path(picture), voxel_nm)
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
