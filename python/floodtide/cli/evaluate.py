# SPDX-License-Identifier: Apache-2.0
"""`floodtide evaluate`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide.base import limits
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import options as shared
from floodtide.errors import StorageError

if TYPE_CHECKING:
    from floodtide.data import Volume
    from floodtide.evaluate import Mistake

ROWS = (
    ("adapted Rand error", "adapted_rand_error", "0 is perfect"),
    ("Rand precision", "rand_precision", "mergers lower it"),
    ("Rand recall", "rand_recall", "splits lower it"),
    ("VOI split (bits)", "voi_split", "H(segmentation | truth)"),
    ("VOI merge (bits)", "voi_merge", "H(truth | segmentation)"),
    ("voxels", "voxels", "with truth > 0"),
    ("segments", "segments", ""),
    ("objects", "objects", ""),
)


@click.command()
@click.argument("segmentation", metavar="SEGMENTATION")
@click.argument("truth", metavar="TRUTH")
@click.option(
    "--box",
    default="",
    help="Box to compare, z0:z1,y0:y1,x0:x1 in voxels of the whole volume.",
)
@click.option(
    "--picture",
    metavar="FILE.png",
    help="Also draw image, ground truth, segmentation and differences in three planes.",
)
@click.option(
    "--image",
    default="",
    metavar="VOLUME",
    help="Image for --picture and --pictures; default: the image from which SEGMENTATION was made.",
)
@click.option(
    "--worst",
    type=shared.Number(limits.COUNT),
    metavar="N",
    help="Also list the N worst splits and the N worst mergers, with sizes and positions.",
)
@click.option(
    "--pictures",
    metavar="FOLDER",
    help="With --worst: also draw the surroundings of each, a PNG file in FOLDER.",
)
@click.option(
    "--matching",
    is_flag=True,
    help="Also match ids one to one, to compare with another segmentation: equal voxels, identical objects.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    segmentation: str,
    truth: str,
    box: str,
    picture: str | None,
    image: str,
    worst: int | None,
    pictures: str | None,
    matching: bool,
    as_json: bool,
) -> None:
    """Compare SEGMENTATION with the ground truth TRUTH: volumes of any format, such as file:dataset.

    Voxels with truth 0 are ignored. Each score is computed twice: for the segmented voxels (id > 0),
    and for all voxels, with all unsegmented voxels as one segment (in JSON with the prefix all_). A
    segmentation of a box is compared with the same box of the truth. In JSON, a score that no voxel
    contributes to is null.

    \b
    Example:
      floodtide evaluate out.h5:segmentation groundtruth.h5:stack --picture out.png
    """
    from floodtide import evaluate
    from floodtide.base.progress import bar
    from floodtide.data import Volume, parse_box

    if image and picture is None and pictures is None:
        raise click.UsageError("--image has no effect without --picture, expected --picture too")
    if pictures is not None and worst is None:
        raise click.UsageError("--pictures has no effect without --worst, expected --worst too")
    if image:
        Volume(image)  # fail now: a picture without the image would not explain why
    with contextlib.ExitStack() as held:
        if picture is not None:
            inputs = files_of([segmentation, truth, image])
            held.enter_context(reserved("evaluate", picture, PICTURES[".png"], inputs))
        with bar("voxels", "evaluate") as progress:
            table = evaluate.count_volumes(
                Volume(segmentation), Volume(truth), parse_box(box), progress
            )
        scores = table.scores()
        mistakes = []
        if worst is not None:
            with bar("voxels", "evaluate") as progress:
                mistakes = evaluate.worst_mistakes(
                    Volume(segmentation),
                    Volume(truth),
                    parse_box(box),
                    count=worst,
                    progress=progress,
                )
        if picture is not None:
            from floodtide.report import planes

            read = planes.read_segmentation(Volume(segmentation), image, truth, None)
            planes.save_planes(read, None, Path(picture))
        if pictures is not None:
            _draw(mistakes, Path(pictures), Volume(segmentation), image, truth)
    if as_json:
        plain: dict[str, Any] = {
            name: None if math.isnan(value) else value for name, value in scores.items()
        }
        if matching:
            plain["matching"] = table.matching()
        if worst is not None:
            plain["worst"] = [dataclasses.asdict(mistake) for mistake in mistakes]
        click.echo(json.dumps(plain))
        return
    click.echo(f"{'':20}{'segmented':>12}{'all voxels':>12}")
    for title, name, note in ROWS:
        values = (_text(scores[name]), _text(scores["all_" + name]))
        click.echo(f"{title:20}{values[0]:>12}{values[1]:>12}  {note}".rstrip())
    click.echo(f"{'coverage':20}{_text(scores['coverage']):>12}")
    for mistake in mistakes:
        click.echo(_line(mistake))
    if matching:
        found = table.matching()
        click.echo(
            f"ids matched one to one: {100 * found['same_voxels'] / found['voxels']:.4f} % of {found['voxels']} voxels"
            f" are the same; {found['identical']} of {found['objects']} objects are equal in every voxel"
        )


def _draw(
    mistakes: Sequence[Mistake], folder: Path, segmentation: Volume, image: str, truth: str
) -> None:
    """Draw the surroundings of the second largest part of each mistake: what should be joined, or cut off."""
    from floodtide.report import planes

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be made: {error.strerror}") from None
    for number, mistake in enumerate(mistakes, start=1):
        read = planes.read_segmentation(segmentation, image, truth, None, mistake.parts[1].zyx)
        planes.save_planes(read, None, folder / f"{number:02}-{mistake.kind}-{mistake.id}.png")


def _line(mistake: Mistake) -> str:
    whole = "object" if mistake.kind == "split" else "segment"
    parts = ", ".join(
        f"{part.voxels} in {part.segment if mistake.kind == 'split' else part.object} at"
        f" {','.join(map(str, part.zyx))}"
        for part in mistake.parts
    )
    return f"{mistake.kind} of {whole} {mistake.id}: {mistake.voxels} voxels beside the largest part: {parts}"


def _text(value: float) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
