# SPDX-License-Identifier: Apache-2.0
"""`floodtide mesh`."""

from __future__ import annotations

import click

from floodtide.cli import options as shared
from floodtide.comm import world


@click.command()
@click.argument("volume", metavar="precomputed://FOLDER")
@shared.switch("--skeletons", "Also add skeletons (kimimaro).")
def command(volume: str, skeletons: bool) -> None:
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
        made = [f"{add_meshes(volume, progress=progress)} meshes"]
    with world.agreed():
        if world.rank() == 0:
            if skeletons:
                made.append(f"{add_skeletons(volume)} skeletons")
            click.echo(f"{' and '.join(made)}: {volume}")
