# SPDX-License-Identifier: Apache-2.0
"""`floodtide reconcile`."""

from __future__ import annotations

import click

from floodtide.cli import options as shared


@click.command()
@click.argument("folder")
@click.argument("out")
@shared.as_json
def command(folder: str, out: str, as_json: bool) -> None:
    """Make one segmentation OUT with global ids from the subvolumes in FOLDER, which `floodtide segment` has made.

    Two segments of neighbouring subvolumes are one object if enough of the voxels that both subvolumes have segmented
    lie in both segments, or if a large one lies inside the other one. OUT is a volume of any format. The ranks share
    the overlaps, and the blocks of OUT if OUT is a Zarr, N5 or precomputed volume. Rank 0 writes all other formats.

    \b
    Example:
      floodtide reconcile pieces brain.h5:segmentation
      mpiexec -n 8 floodtide reconcile pieces precomputed://brain
    """
    from floodtide.segment.commands import reconcile_subvolumes

    shared.require_same_arguments()
    shared.show(reconcile_subvolumes(folder, out), as_json)
