# SPDX-License-Identifier: Apache-2.0
"""`floodtide agglomerate`."""

from __future__ import annotations

import json
from typing import Any

import click

from floodtide.base.counts import count_of
from floodtide.base.outputs import files_of, refuse_inputs
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import Vec3
from floodtide.errors import InvalidArgumentError
from floodtide.segment.affinities import AffinityFile, AffinityOptions


@click.command()
@click.argument("affinities", metavar="AFFINITIES.h5:DATASET")
@click.argument("out", metavar="OUT")
@shared.of_fields(AffinityOptions)
@click.option("--box", default="", help="Only this box, z0:z1,y0:y1,x0:x1 in voxels of the image.")
@click.option(
    "--offsets",
    metavar="JSON",
    help="Offsets [[z, y, x], ...] of the channels, for files that do not state them.",
)
@click.option(
    "--subvolume",
    metavar="Z,Y,X",
    help="Cut the box into overlapping subvolumes of this size, which ranks share; OUT is a folder then, for"
    " `floodtide reconcile`.",
)
@click.option(
    "--overlap",
    metavar="Z,Y,X",
    default="32,32,32",
    show_default=True,
    help="Smallest overlap of subvolumes in voxels.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    affinities: str,
    out: str,
    box: str,
    offsets: str | None,
    subvolume: str | None,
    overlap: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn affinities into segments. `floodtide predict` makes affinities.

    The affinity of a voxel for an offset says whether the voxel and the one at the offset belong to one object. A mutex
    watershed needs far offsets besides the nearest neighbours (`model.offsets`). OUT is a volume of any format.

    \b
    Example:
      floodtide predict runs/affinities raw.h5:raw affinities.h5:affinities
      floodtide agglomerate affinities.h5:affinities segments.h5:segments
    """
    from floodtide.data import parse_box
    from floodtide.data.boxes import parse_vec3
    from floodtide.data.formats import format_of

    shared.require_same_arguments()
    with world.agreed():
        settings = AffinityOptions(**options)
        source = AffinityFile(affinities, _offsets(offsets), box=parse_box(box))
        refuse_inputs("agglomerate", [out], files_of([affinities]))
        if subvolume is None:
            format_of(out)
        elif ":" in out:
            raise InvalidArgumentError(
                f"{out}: names a dataset, expected a folder with --subvolume"
            )
        size = None if subvolume is None else parse_vec3(subvolume, "--subvolume")
        shared_voxels = parse_vec3(overlap, "--overlap")
    report = _run(source, settings, out, size, shared_voxels)
    if world.rank() == 0:
        click.echo(json.dumps(report) if as_json else _text(report))


def _run(
    source: AffinityFile,
    settings: AffinityOptions,
    out: str,
    size: Vec3 | None,
    overlap: Vec3,
) -> dict[str, Any]:
    from floodtide.agglomerate import agglomerate_on_ranks, write_segments
    from floodtide.base.progress import bar

    if size is not None:
        with bar("subvolumes", "agglomerate", line_every_s=10.0) as progress:
            pieces = agglomerate_on_ranks(
                out, source, settings, subvolume=size, overlap=overlap, progress=progress
            )
        return {"subvolumes": len(pieces.cut), "out": out}
    report: dict[str, Any] = {}
    with world.agreed():
        if world.rank() == 0:
            segments, coverage = write_segments(source, settings, out)
            report = {"segments": segments, "coverage": coverage, "out": out}
    return report


def _offsets(text: str | None) -> list[list[int]] | None:
    if text is None:
        return None
    try:
        return [[int(z), int(y), int(x)] for z, y, x in json.loads(text)]
    except (ValueError, TypeError):
        raise click.UsageError(
            f"--offsets {text[:60]}: expected [[z, y, x], ...], for example [[-1,0,0],[0,-1,0],[0,0,-1]]"
        ) from None


def _text(report: dict[str, Any]) -> str:
    if "segments" in report:
        found = count_of(report["segments"], "segment")
        return f"{found}, {100 * report['coverage']:.1f} % of the voxels: {report['out']}"
    cut = count_of(report["subvolumes"], "subvolume")
    return f"{cut}: {report['out']}; `floodtide reconcile` makes one segmentation of them"
