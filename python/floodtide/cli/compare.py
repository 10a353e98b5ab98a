# SPDX-License-Identifier: Apache-2.0
"""`floodtide compare`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide import config
from floodtide.base import limits
from floodtide.base.counts import count_of
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError

if TYPE_CHECKING:
    from floodtide.data import Vec3, Volume
    from floodtide.evaluate import Difference
    from floodtide.segment.replay import Replay, Seeded


@click.command()
@click.argument("segmentation", metavar="FILE.h5:DATASET")
@click.argument("reference", metavar="REFERENCE.h5:DATASET")
@click.option(
    "--replay",
    is_flag=True,
    help="Also flood each object of REFERENCE that differs again, and name the network call where it leaves REFERENCE.",
)
@click.option(
    "--roundings",
    type=shared.Number(limits.COUNT_OR_NONE),
    default=4,
    show_default=True,
    help="With --replay: most replays with other roundings of the network, to reproduce an object that differs.",
)
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
    replay: bool,
    roundings: int,
    picture: str | None,
    voxel_nm: tuple[float, float, float] | None,
    as_json: bool,
) -> None:
    """Compare a segmentation of `floodtide segment` with another one of the same voxels, such as a published one.

    Ids are matched one to one. The command tells objects, network calls, the share of equal voxels, and which objects
    of REFERENCE differ. REFERENCE is an HDF5 file with origins (datasets origins/id, iters, start_zyx), as `floodtide
    segment` writes them. Image, network and options are those that FILE.h5 states.

    \b
    Example:
      floodtide compare out.h5:segmentation published.h5:segmentation --replay --picture differences.png
    """
    from floodtide import evaluate
    from floodtide.base.progress import bar
    from floodtide.data import Volume
    from floodtide.data.no_label import cleared
    from floodtide.segment.replay import read_origins

    shared.require_same_arguments()
    if voxel_nm and picture is None:
        raise click.UsageError("--voxel-nm has no effect without --picture")
    with contextlib.ExitStack() as held, world.agreed():
        if world.rank() > 0:
            return
        found, other = Volume(segmentation), Volume(reference)
        start = _require_same_box(found, other)
        mine, theirs = read_origins(segmentation), read_origins(reference)
        if picture is not None:
            held.enter_context(
                reserved("compare", picture, PICTURES[".png"], files_of([segmentation, reference]))
            )
        labels, stored = cleared(found.read(), found.name), cleared(other.read(), other.name)
        table = evaluate.ContingencyTable()
        table.add(labels, stored)
        differences = evaluate.differing_objects(table)
        replays: list[Replay] = []
        if replay:
            chosen = _chosen(differences, theirs)
            with bar("network calls", "compare", line_every_s=10.0) as progress:
                replays = _replays(found, stored, start, chosen, roundings, progress)
        report = {
            "matching": table.matching(),
            "network_calls": sum(origin.calls for origin in mine),
            "reference_network_calls": sum(origin.calls for origin in theirs),
            "differences": [dataclasses.asdict(difference) for difference in differences],
        }
        if replay:
            report["replays"] = [_plain(row) for row in replays]
        if picture is not None:
            from floodtide.report.differences import save_differences

            image = found.text("image")
            size = voxel_nm or found.geometry.voxel_size_nm or other.geometry.voxel_size_nm
            save_differences(labels, stored, differences, image, start, Path(picture), size)
        text = _text(report, differences, {o.id: o for o in theirs}, replays)
        click.echo(json.dumps(report) if as_json else text)


def _require_same_box(found: Volume, other: Volume) -> Vec3:
    """Return the first voxel of two segmentations of the same box."""
    from floodtide.data.volumes import require_same_size

    require_same_size("compare", found, other)
    starts = [v.geometry.offset or (0, 0, 0) for v in (found, other)]
    if starts[0] != starts[1] or found.shape != other.shape:
        raise ShapeError(
            f"compare: {found.name} has {found.shape} voxels from {starts[0]}, {other.name} {other.shape} from"
            f" {starts[1]}; expected the same voxels"
        )
    return starts[0]


def _chosen(differences: list[Difference], origins: list[Seeded]) -> list[Seeded]:
    """Return the origins of the objects that differ, those of few network calls first."""
    ids = {difference.object for difference in differences}
    return sorted((o for o in origins if o.id in ids), key=lambda origin: origin.calls)


def _replays(
    found: Volume,
    stored: Any,
    start: Vec3,
    chosen: list[Seeded],
    roundings: int,
    progress: Any,
) -> list[Replay]:
    from floodtide.data import Volume
    from floodtide.segment import Segmenter
    from floodtide.segment.canvas_image import difference
    from floodtide.segment.replay import replay

    name, image = found.text("options"), found.text("image")
    if not name or not image:
        raise InvalidFileError(
            f"{found.name}: states no image and options, expected a segmentation of `floodtide segment`"
        )
    document = {"segment": json.loads(name)}
    options = config.from_dict(document, f"{found.name}: options").segment
    if options.mask or options.masks or options.shift_mask:
        raise InvalidArgumentError(
            "compare: --replay of a segmentation with segment.mask, segment.masks or segment.shift_mask, expected one"
            " without masks"
        )
    volume = Volume(image)
    if options.reflect and found.shape != volume.shape:
        raise InvalidArgumentError(
            "compare: --replay of a box with segment.reflect, expected a segmentation of the whole image"
        )
    segmenter = Segmenter.load(dataclasses.replace(options, initial=""))
    voxels = Volume(volume.read((start, found.shape)), name=image)
    total = sum((1 + roundings) * origin.calls for origin in chosen)
    rows, before = [], 0

    def shown(calls: int, _: int) -> None:
        progress(before + calls, total)

    for origin in chosen:
        local = origin._replace(zyx=difference(origin.zyx, start))
        row = replay(segmenter, voxels, stored, local, roundings=roundings, progress=shown)
        rows.append(row.moved_by(start))
        before += (1 + roundings) * origin.calls
    return rows


def _plain(row: Replay) -> dict[str, Any]:
    values = dataclasses.asdict(row)
    return values | {"margin": None if math.isnan(row.margin) else row.margin}


def _text(
    report: dict[str, Any],
    differences: list[Difference],
    origins: dict[int, Seeded],
    replays: list[Replay],
) -> str:
    found = report["matching"]
    lines = [
        f"objects        {found['segments']} (reference {found['objects']})",
        f"network calls  {report['network_calls']} of objects (reference {report['reference_network_calls']})",
        f"equal voxels   {100 * found['same_voxels'] / found['voxels']:.4f} % of {found['voxels']}, ids matched one to"
        " one",
        f"equal objects  {found['identical']} of {found['objects']}, voxel for voxel",
    ]
    rows = {row.id: row for row in replays}
    for difference in differences:
        name = difference.object
        line = f"object {name}: {difference.missing} voxels missing, {difference.additional} additional"
        if name in rows:
            line += f"; {_replayed(rows[name], origins[name].calls)}"
        elif replays:
            line += "; without origin"
        lines.append(line)
    return "\n".join(lines)


def _replayed(row: Replay, calls: int) -> str:
    """Return what a replay tells about an object of this number of network calls."""
    made = count_of(row.calls, "call")
    if row.voxels == 0:
        return f"flooded again it is equal ({made}): an earlier object differs"
    text = (
        f"flooded again, it differs in {count_of(row.voxels, 'voxel')} ({made}, reference {calls})"
    )
    if row.visible_call > 0:
        where = _place(row.visible_zyx)
        text += f", visible from call {row.visible_call} at {where} on, {row.margin:.1e} from the threshold"
    if row.rounding == 0:
        return f"{text}; no other rounding reproduces it"
    if row.left_call == 0:
        return f"{text}; another rounding reproduces it, with the same calls"
    return f"{text}; another rounding reproduces it, which leaves in call {row.left_call} at {_place(row.left_zyx)}"


def _place(zyx: Vec3 | None) -> str:
    return "" if zyx is None else ",".join(map(str, zyx))
