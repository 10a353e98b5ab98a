# SPDX-License-Identifier: Apache-2.0
"""`floodtide mesh`."""

from __future__ import annotations

import json
from typing import Any

import click

from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("volume", metavar="precomputed://FOLDER")
@click.option("--skeletons", is_flag=True, help="Also add skeletons (kimimaro).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(volume: str, skeletons: bool, as_json: bool) -> None:
    """Add surface meshes to a precomputed segmentation, for Neuroglancer. Ranks share the volume.

    \b
    Example:
      floodtide convert out.h5:segmentation precomputed://out
      floodtide mesh precomputed://out --skeletons
    """
    from floodtide.base.progress import bar
    from floodtide.shapes.precomputed import add_meshes, add_skeletons

    shared.require_same_arguments()
    with bar("blocks", "mesh") as progress:
        report: dict[str, Any] = {"meshes": add_meshes(volume, progress=progress)}
    with world.agreed():
        if world.rank() == 0:
            if skeletons:
                report["skeletons"] = add_skeletons(volume)
            made = " and ".join(f"{count} {name}" for name, count in report.items())
            click.echo(json.dumps(report) if as_json else f"{made}: {volume}")
