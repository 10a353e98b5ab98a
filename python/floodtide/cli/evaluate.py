# SPDX-License-Identifier: Apache-2.0
"""`floodtide evaluate`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import evaluate_text
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.errors import InvalidFileError, ShapeError, StorageError, UnsupportedError
from floodtide.evaluate import trivial

if TYPE_CHECKING:
    from floodtide.data import Box, Vec3, Volume
    from floodtide.evaluate import ContingencyTable, Mistake, RunLengths
    from floodtide.evaluate.trivial import GreyLevel
    from floodtide.report.planes import Plane

_MOST_GREY = 1 << 25  # voxels of a box for which the grey level is computed: about a GiB of memory


@click.command()
@click.argument("segmentation", metavar="SEGMENTATION")
@click.argument("truth", metavar="TRUTH")
@click.option(
    "--box",
    default="",
    help="Box to compare, z0:z1,y0:y1,x0:x1 in voxels of the whole volume.",
)
@click.option(
    "--before",
    default="",
    metavar="VOLUME",
    help="An earlier segmentation of the same voxels, for example before fine-tuning or agglomeration: its scores"
    " and its picture stand beside those of SEGMENTATION.",
)
@click.option(
    "--classes",
    type=shared.Number(limits.MASK_CLASSES),
    metavar="N",
    help="The volumes hold classes 0 to N - 1, not ids of objects: print Dice. Default: as `floodtide predict` has"
    " noted in SEGMENTATION.",
)
@click.option(
    "--picture",
    metavar="FILE.png",
    help="Also draw image, ground truth, segmentation and mistakes in three planes.",
)
@click.option(
    "--image",
    default="",
    metavar="VOLUME",
    help="Image for the grey level and the pictures; default: the image from which SEGMENTATION was made.",
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
    "--skeletons",
    is_flag=True,
    help="Also skeletonize the true objects (kimimaro), and tell the expected run length.",
)
@click.option(
    "--merge-nodes",
    type=shared.Number(limits.SOME_VOXELS),
    default=1,
    show_default=True,
    help="With --skeletons: a segment merges objects if it has this many nodes of each of two skeletons.",
)
@click.option(
    "--voxel-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="Edges of a voxel for --skeletons and for scale bars; default: the edges that the file of the truth, the"
    " segmentation or the image states, in this order; else voxels.",
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
    before: str,
    classes: int | None,
    picture: str | None,
    image: str,
    worst: int | None,
    pictures: str | None,
    skeletons: bool,
    merge_nodes: int,
    voxel_nm: tuple[float, float, float] | None,
    matching: bool,
    as_json: bool,
) -> None:
    """Compare SEGMENTATION with the ground truth TRUTH: volumes of any format, such as file:dataset.

    Voxels with truth 0 (or -1, as other programs write) are ignored. Each score is computed twice: for all voxels, with
    all unsegmented voxels as one segment (in JSON with the prefix all_), and for the segmented voxels (id > 0). The box
    that both volumes cover is compared, as far as the files state offsets. Different voxel sizes are refused. In JSON,
    a score that no voxel contributes to is null.

    The first table also shows two trivial answers: everything is one object, and the connected pieces of the image on
    one side of the best grey level. That level is chosen with the truth. A segmentation that is no better has no value.

    \b
    Example:
      floodtide evaluate out.h5:segmentation groundtruth.h5:stack --picture out.png
    """
    from floodtide import evaluate
    from floodtide.base.progress import bar
    from floodtide.data import Volume, parse_box

    shared.require_same_arguments()
    with contextlib.ExitStack() as held:
        with world.agreed():
            if voxel_nm and not (skeletons or picture or pictures):
                raise click.UsageError(
                    "--voxel-nm has no effect without --skeletons, --picture or --pictures"
                )
            if pictures and not worst:
                raise click.UsageError(
                    "--pictures has no effect without --worst, expected --worst too"
                )
            segments, objects, part = Volume(segmentation), Volume(truth), parse_box(box)
            number = classes or _classes_of(segments)
            if number is not None:
                _refuse_with_classes(before, picture, worst, skeletons, matching)
            if image:
                Volume(image)  # fail now: a picture without the image would not explain why
            earlier = Volume(before) if before else None
            if picture is not None and world.rank() == 0:
                inputs = files_of([segmentation, truth, image, before])
                held.enter_context(reserved("evaluate", picture, PICTURES[".png"], inputs))
        with bar("voxels", "evaluate") as progress:
            table = evaluate.count_on_ranks(
                segments, objects, part, progress, classes=number is not None
            )
        with world.agreed():
            if world.rank() > 0:
                return
            if number is not None:
                rows = evaluate.dice_of_table(table, number)
                as_text = evaluate_text.dice_json if as_json else evaluate_text.dice_text
                click.echo(as_text(rows))
                return
            others: dict[str, evaluate_text.Scores] = {}
            if earlier is not None:
                others["before"] = evaluate.score_volumes(earlier, objects, part)
            report = evaluate_text.Report(
                table, others, {trivial.ONE_OBJECT: trivial.one_object(table)}
            )
            if place := evaluate.assumed_place(segments, objects, part):
                report.notes.append(place)
            _add_grey_level(report, image, segments, objects, part)
            stated = voxel_nm or _stated_size([objects, segments], image)
            if skeletons:
                report.runs = _run_lengths(segments, objects, part, stated, merge_nodes)
                report.unit = "voxels" if stated is None else "nm"
            if worst is not None:
                with bar("voxels", "evaluate") as progress:
                    report.mistakes = evaluate.worst_mistakes(
                        segments, objects, part, count=worst, table=table, progress=progress
                    )
            from floodtide.report import planes

            if picture is not None:
                read = planes.read_segmentation(
                    segments, image, truth, stated, before=earlier, pairs=_pairs(table)
                )
                planes.save_planes(read, stated, Path(picture))
            if pictures is not None:
                _draw(
                    report.mistakes or [],
                    Path(pictures),
                    lambda voxel: planes.read_segmentation(
                        segments, image, truth, stated, voxel, pairs=_pairs(table)
                    ),
                    stated,
                )
            click.echo(report.json(matching) if as_json else report.text(matching))


def _stated_size(volumes: Sequence[Volume], image: str) -> tuple[float, float, float] | None:
    """Return the voxel size (z, y, x) in nm of the first volume whose file states one; the image comes last."""
    from floodtide.data import Volume
    from floodtide.data.volumes import volume_exists

    sizes = (volume.geometry.voxel_size_nm for volume in volumes)
    stated = next((size for size in sizes if size is not None), None)
    name = image or volumes[-1].text("image")
    if stated is None and name and (image or volume_exists(name)):
        return Volume(name).geometry.voxel_size_nm
    return stated


def _classes_of(segmentation: Volume) -> int | None:
    """Return the number of classes that `floodtide predict` has noted in a volume of classes."""
    noted = segmentation.text("classes")
    return int(noted) if noted.isdecimal() and len(noted) <= 3 else None


def _refuse_with_classes(
    before: str, picture: str | None, worst: int | None, skeletons: bool, matching: bool
) -> None:
    """Refuse options that are about objects."""
    for given, name in (
        (before, "--before"),
        (picture, "--picture"),
        (worst, "--worst"),
        (skeletons, "--skeletons"),
        (matching, "--matching"),
    ):
        if given:
            raise click.UsageError(
                f"{name} is about objects, and SEGMENTATION holds classes, expected no {name}"
            )


def _add_grey_level(
    report: evaluate_text.Report, image: str, segments: Volume, objects: Volume, box: Box | None
) -> None:
    """Add the answer of the best grey level, or a note why it is missing."""
    from floodtide import evaluate
    from floodtide.data import Volume
    from floodtide.data.volumes import volume_exists

    name = image or segments.text("image")
    if not name or (not image and not volume_exists(name)):
        report.notes.append(f"{trivial.GREY_LEVEL}: unknown without the image (--image VOLUME)")
        return
    voxels = int(report.table.rows()[:, 2].sum())
    if voxels > _MOST_GREY:
        report.notes.append(
            f"{trivial.GREY_LEVEL}: left out for {voxels} voxels, more than {_MOST_GREY} (--box compares a part)"
        )
        return
    try:
        _, grey = evaluate.read_both(segments, Volume(name), box, image=True)
    except (InvalidFileError, ShapeError, UnsupportedError) as error:
        if image:
            raise
        report.notes.append(f"{trivial.GREY_LEVEL}: {error}")
        return
    _, known = evaluate.read_both(segments, objects, box)
    level = trivial.best_grey_level(grey, known)
    answer = trivial.pieces(trivial.smoothed(grey), level)
    report.level = level
    report.answers[trivial.GREY_LEVEL] = evaluate.scores(answer, known)
    report.notes.append(f"{trivial.GREY_LEVEL}: {_side(level)}, chosen with the truth")


def _side(level: GreyLevel) -> str:
    return f"pieces {'above' if level.above else 'below'} {level.level:.4g}"


def _pairs(table: ContingencyTable) -> NDArray[np.int64]:
    """Return the rows (segment, object, voxels) of a table, as the pictures take them."""
    return table.rows().astype(np.int64)


def _draw(
    mistakes: Sequence[Mistake],
    folder: Path,
    read: Callable[[Vec3], list[Plane]],
    voxel_nm: tuple[float, float, float] | None,
) -> None:
    """Draw the surroundings of the second largest part of each mistake: what should be joined, or cut off."""
    from floodtide.report import planes

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be made: {error.strerror}") from None
    for number, mistake in enumerate(mistakes, start=1):
        path = folder / f"{number:02}-{mistake.kind}-{mistake.id}.png"
        planes.save_planes(read(mistake.parts[1].zyx), voxel_nm, path)


def _run_lengths(
    segments: Volume,
    objects: Volume,
    box: Box | None,
    voxel_nm: tuple[float, float, float] | None,
    merge_nodes: int,
) -> RunLengths:
    from floodtide import evaluate
    from floodtide.shapes.skeletons import skeletons_of

    size = voxel_nm or (1.0, 1.0, 1.0)
    labels, truth = evaluate.read_both(segments, objects, box)
    found = skeletons_of(truth, voxel_size=size)
    return evaluate.run_lengths(found, labels, voxel_size=size, merge_nodes=merge_nodes)
