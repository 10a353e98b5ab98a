# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` computes and draws: scores of objects, or of classes, with what was asked for."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from floodtide import evaluate
from floodtide.base import limits
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import evaluate_text
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import Vec3, Volume, parse_box
from floodtide.data.boxes import as_vec3
from floodtide.data.volumes import volume_exists
from floodtide.errors import ShapeError
from floodtide.evaluate import trivial
from floodtide.evaluate.classes import ClassReport, noted_classes, read_worst
from floodtide.evaluate.reporting import NERL, Report
from floodtide.evaluate.skeletons import RunLengths
from floodtide.evaluate.voxels import first_voxels
from floodtide.shapes.skeletons import skeletons_of

VoxelSize = tuple[float, float, float] | None

_OF_OBJECTS = ("before", "worst", "skeletons", "border_nm")
_OF_CLASSES = ("match", "unlabelled", "objects")
_IN_TABLE = ("trivial", "notes", "before", "intervals", "places")


def run(
    segmentation: str,
    truth: str,
    *,
    box: str,
    before: str,
    picture: str | None,
    image: str,
    worst: int | None,
    skeletons: int | None,
    border_nm: float | None,
    voxel_nm: VoxelSize,
    classes: bool,
    as_json: bool,
    **of_classes: Any,
) -> None:
    """Compare two volumes, and print the scores on rank 0. Collective."""
    needed = skeletons or picture or border_nm  # the voxel size
    if not needed:
        why = "has no effect without --skeletons, --border-nm or --picture"
        shared.refuse_given(("voxel_nm",), why)
    of_classes["match"] = _match(of_classes["match"])
    with contextlib.ExitStack() as held:
        with world.agreed():
            segments, objects, part = Volume(segmentation), Volume(truth), parse_box(box)
            classes = classes or noted_classes(segments) is not None
            if classes:
                why = "is about objects, and SEGMENTATION holds classes, expected none"
                shared.refuse_given(_OF_OBJECTS, why)
            else:
                shared.refuse_given(_OF_CLASSES, "is about classes, expected --classes with it")
            if image:
                Volume(image)  # fail now: a picture without the image would not explain why
            earlier = Volume(before) if before else None
            size = voxel_nm or (_stated_size([objects, segments], image) if needed else None)
            if picture is not None and world.rank() == 0:
                inputs = files_of([segmentation, truth, image, before])
                held.enter_context(reserved("evaluate", picture, PICTURES[".png"], inputs))
        found: ClassReport | Report | None
        if classes:
            found = evaluate.class_report(segments, objects, part, **of_classes)
        else:
            found = evaluate.report(
                segments,
                objects,
                part,
                before=earlier,
                image=image,
                worst=worst,
                border_nm=border_nm,
                voxel_nm=size,
            )
        with world.agreed():
            if found is None:
                return
            if isinstance(found, Report) and skeletons:
                pair = evaluate.Pair(segments, objects, part)
                _add_run_lengths(found, pair, earlier, size, skeletons)
            if picture and isinstance(found, ClassReport):
                _draw_classes(found, segments, objects, Path(picture), image, size)
            elif picture and isinstance(found, Report):
                start = evaluate.Pair(segments, objects, part).places[1]
                _draw(found, segments, truth, Path(picture), image, earlier, size, start)
    _print(found, as_json)


def _add_run_lengths(
    report: Report,
    pair: evaluate.Pair,
    before: Volume | None,
    voxel_nm: VoxelSize,
    merge_nodes: int,
) -> None:
    """Score the skeletons of the truth, in nm, or in voxels if the voxel size is unknown."""
    edges = voxel_nm or (1.0, 1.0, 1.0)
    labels, known = pair.read()
    skeletons = skeletons_of(known, voxel_size=edges)

    def runs(segments: NDArray[Any]) -> RunLengths:
        return evaluate.run_lengths(skeletons, segments, voxel_size=edges, merge_nodes=merge_nodes)

    report.runs, report.unit = runs(labels), "voxels" if voxel_nm is None else "nm"
    report.answers[trivial.ONE_OBJECT][NERL] = runs(np.broadcast_to(1, labels.shape)).normalised
    if report.pieces is not None:
        report.answers[trivial.GREY_LEVEL][NERL] = runs(report.pieces).normalised
    if before is not None and report.before is not None:
        earlier, _ = pair.of_same_voxels(before).read()
        report.before[NERL] = runs(earlier).normalised


def _print(found: ClassReport | Report, as_json: bool) -> None:
    report = found.as_dict()
    if as_json:
        shared.show(report, as_json)
    elif isinstance(found, ClassReport):
        click.echo(evaluate_text.of_classes(found))
    else:
        click.echo(f"{evaluate_text.compared(found)}\n")
        report = {name: value for name, value in report.items() if name not in _IN_TABLE}
        shared.show(report, as_json)


def _stated_size(volumes: list[Volume], image: str) -> VoxelSize:
    """Return the voxel size (z, y, x) in nm of the first volume whose file states one; the image comes last."""
    for volume in volumes:
        if volume.geometry.voxel_size_nm is not None:
            return volume.geometry.voxel_size_nm
    name = image or volumes[-1].text("image")
    return Volume(name).geometry.voxel_size_nm if name and (image or volume_exists(name)) else None


def _draw(
    report: Report,
    segments: Volume,
    truth: str,
    path: Path,
    image: str,
    before: Volume | None,
    voxel_nm: VoxelSize,
    start: Vec3,
) -> None:
    """Draw segments and truth, and beside it the surroundings of each mistake that the report lists.

    They are those of the second largest part: what should be joined, or cut off.
    """
    from floodtide.report import planes

    pairs = report.table.rows().astype(np.int64)  # segment, object, voxels
    drawn: dict[str, Any] = {"pairs": pairs, "start": start}
    read = planes.read_segmentation(segments, image, truth, voxel_nm, before=before, **drawn)
    planes.save_planes(read, path)
    for number, mistake in enumerate(report.mistakes or [], start=1):
        place = mistake.parts[1].zyx
        read = planes.read_segmentation(segments, image, truth, voxel_nm, place, **drawn)
        name = f"{path.stem}-{number:02}-{mistake.kind}-{mistake.id}.png"
        planes.save_planes(read, path.with_name(name))


def _draw_classes(
    report: ClassReport,
    segments: Volume,
    objects: Volume,
    path: Path,
    image: str,
    voxel_nm: VoxelSize,
) -> None:
    """Draw the section with the most wrong voxels: the image, and the image with outlines of both volumes."""
    from floodtide.report import planes

    predicted, true = read_worst(report, segments, objects)
    found = planes.covering(planes.opened(image or segments.text("image")), segments, None)
    grey = None
    if found is not None:
        start, first = report.worst[0], first_voxels(segments, objects)[0]
        corner = as_vec3([a - b + c for a, b, c in zip(start, first, found[1], strict=True)])
        grey = found[0].read((corner, report.worst[1]))[0]
    elif image:
        raise ShapeError(f"--image {image} does not cover {segments.name}, expected its image")
    else:
        report.notes.append("picture: the image is unknown (--image VOLUME)")
    title = f"z = {report.worst[0][0]}: {report.worst_voxels} wrong voxels"
    planes.save_classes(title, grey, true, predicted, voxel_nm, path)


def _match(text: str) -> dict[int, int]:
    """Return {value of the truth: class} of "VALUE=CLASS[,...]"."""
    found: dict[int, int] = {}
    for word in filter(None, text.split(",")):
        numbers = [shared.parse_number(part, whole=True) for part in word.split("=")]
        if len(numbers) != 2 or not all(n is not None and n in limits.LABEL for n in numbers):
            raise click.BadParameter(
                f"{text}, expected VALUE=CLASS[,...]: a value of TRUTH, and its class in SEGMENTATION",
                param_hint="--match",
            )
        found[int(numbers[0] or 0)] = int(numbers[1] or 0)
    return found
