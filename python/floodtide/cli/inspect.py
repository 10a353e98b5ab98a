# SPDX-License-Identifier: Apache-2.0
"""`floodtide inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.cli import options as shared
from floodtide.comm import world

if TYPE_CHECKING:
    from floodtide.report.inspection import Inspection


@click.command()
@click.argument("image", metavar="IMAGE")
@click.option("--labels", metavar="LABELS", help="Labels of the image: one id for each object.")
@click.option(
    "--voxel-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="Voxel size in nm; default: what the file states.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("inspect.html"),
    show_default=True,
    help="HTML file to write.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    image: str,
    labels: str | None,
    voxel_nm: tuple[float, float, float] | None,
    out: Path,
    as_json: bool,
) -> None:
    """Write a page about IMAGE and its labels, before any training.

    The page shows three planes, the histogram with a proposed mean and standard deviation, bad sections, drift of the
    contrast, sizes of the objects, whether the labels lie on the image, and whether a segmentation fits into memory. A
    volume of more than 2^26 voxels is sampled in columns along z.

    \b
    Example:
      floodtide inspect stack.tif --labels labels.tif --voxel-nm 40,4,4
      floodtide inspect raw.h5:raw --labels truth.h5:stack --out raw.html --json
    """
    from floodtide.data import Volume
    from floodtide.report import inspection

    shared.require_same_arguments()
    with world.agreed():
        if world.rank() == 0:
            truth = Volume(labels) if labels else None
            found = inspection.write(Volume(image), truth, voxel_nm, out)
            report = {**found.as_dict(), "out": str(out)}
            click.echo(json.dumps(report) if as_json else _text(found, inspection.verdict(found)))
            if not as_json:
                click.echo(f"page: {out}")


def _text(found: Inspection, verdict: str) -> str:
    image, labels, aligned = found.image, found.labels, found.alignment
    lines = [
        f"image: {' x '.join(map(str, image.shape))} voxels of {image.dtype}, {image.minimum:g} to {image.maximum:g},"
        f" mean {image.mean:.2f}, standard deviation {image.std:.2f}",
        f"for the configuration: mean = {image.proposed_mean:.2f}, std = {image.proposed_std:.2f}"
        + (f" (without {image.left_out})" if image.left_out else ""),
    ]
    if labels is not None:
        lines.append(
            f"labels: {count_of(labels.objects, 'object', ',')}, {labels.at_least[3]:,} of at least 1,000 voxels,"
            f" {100 * labels.unlabelled:.2f} % unlabelled"
        )
    if aligned is not None and aligned.stored is not None:
        lines.append(
            f"alignment: {aligned.verdict}; boundaries of the labels differ by"
            f" {aligned.stored.difference:+.1f} grey levels from the inside of objects"
        )
    lines.append(verdict)
    lines += [f"{'mistake' if one.error else 'doubt'}: {one.text}" for one in found.problems]
    return "\n".join(lines)
