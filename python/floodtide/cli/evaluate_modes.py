# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` computes, draws and prints: scores of objects, or of classes, next to trivial answers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from floodtide import evaluate
from floodtide.base.notes import count_of
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import Volume, parse_box
from floodtide.data.boxes import difference, total
from floodtide.errors import ShapeError
from floodtide.evaluate import Pair, trivial
from floodtide.evaluate.classes import ClassReport, noted_classes, read_worst
from floodtide.evaluate.mistakes import Looked
from floodtide.evaluate.reporting import NERL, Report
from floodtide.evaluate.skeletons import RunLengths
from floodtide.evaluate.voxels import first_voxels
from floodtide.shapes.arrays import skeletons_of

VoxelSize = tuple[float, float, float] | None

_OF_OBJECTS = ("worst", "skeletons", "border_nm")
_OF_CLASSES = ("unlabelled", "objects")
_IN_TABLE = ("trivial", "notes", "intervals", "places")
_COLUMNS = {
    "all_adapted_rand_error": "Rand error",
    "coverage": "coverage",
    "all_voi_split": "VOI split",
    "all_voi_merge": "VOI merge",
}
_SCORES = {"dice": "Dice", "iou": "IoU"}  # the others have the names of their keys
_DETECTION = {
    "true": "truth",
    "predicted": "prediction",
    "matched": "IoU > 0.5",
    "f1": "F1",
    "average_precision_50": "AP at 0.5",
    "average_precision": "AP at 0.5 to 0.95",
}


def run(
    segmentation: str,
    truth: str,
    *,
    box: str,
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
    with contextlib.ExitStack() as held:
        with world.agreed():
            pair = Pair(Volume(segmentation), Volume(truth), parse_box(box))
            volumes = pair.segmentation, pair.truth
            classes = classes or noted_classes(volumes[0]) is not None
            why = "is about classes, expected --classes with it"
            if classes:
                why = "is about objects, and SEGMENTATION holds classes, expected none"
            shared.refuse_given(_OF_OBJECTS if classes else _OF_CLASSES, why)
            # Fail now: a picture without the image would not explain why.
            given = [Volume(image)] if image else []
            if needed and voxel_nm is None:
                stated = (
                    one.whole.voxel_size_nm for one in (pair.truth, pair.segmentation, *given)
                )
                voxel_nm = next(filter(None, stated), None)
            if picture is not None and world.rank() == 0:
                inputs = files_of([segmentation, truth, image])
                held.enter_context(reserved("evaluate", picture, PICTURES[".png"], inputs))
        found: ClassReport | Report | None
        if classes:
            found = evaluate.class_report(*volumes, pair.box, **of_classes)
        else:
            asked: dict[str, Any] = {"worst": worst, "border_nm": border_nm, "voxel_nm": voxel_nm}
            found = evaluate.report(*volumes, pair.box, image=image, **asked)
        with world.agreed():
            if found is None:
                return
            if isinstance(found, Report) and skeletons:
                _add_run_lengths(found, pair, voxel_nm, skeletons)
            if picture and isinstance(found, ClassReport):
                _draw_classes(found, pair, Path(picture), image, voxel_nm)
            elif picture and isinstance(found, Report):
                _draw(found, pair, truth, Path(picture), image, voxel_nm)
    report = found.as_dict()
    if isinstance(found, Report) and not as_json:
        click.echo(f"{compared(found)}\n")
        report = {name: value for name, value in report.items() if name not in _IN_TABLE}
    if isinstance(found, ClassReport) and not as_json:
        click.echo(compared_classes(found))
    else:
        shared.show(report, as_json)


def _add_run_lengths(report: Report, pair: Pair, voxel_nm: VoxelSize, merge_nodes: int) -> None:
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


def _draw(
    report: Report, pair: Pair, truth: str, path: Path, image: str, voxel_nm: VoxelSize
) -> None:
    """Draw segments and truth, and beside it the surroundings of each mistake that the report lists.

    They are those of the second largest part: what should be joined, or cut off.
    """
    from floodtide.report import planes

    pairs = report.table.rows().astype(np.int64)  # segment, object, voxels
    drawn = {path: None} | {
        path.with_name(f"{path.stem}-{number:02}-{one.kind}-{one.id}.png"): one.parts[1].zyx
        for number, one in enumerate(report.mistakes or [], start=1)
    }
    for file, place in drawn.items():
        start = pair.places[1]
        read = planes.read_segmentation(
            pair.segmentation, image, truth, voxel_nm, place, pairs=pairs, start=start
        )
        planes.save_planes(read, file)


def _draw_classes(
    report: ClassReport, pair: Pair, path: Path, image: str, voxel_nm: VoxelSize
) -> None:
    """Draw the section with the most wrong voxels: the image, and the image with outlines of both volumes."""
    from floodtide.report import planes

    segments, (start, size) = pair.segmentation, report.worst
    predicted, true = read_worst(report, segments, pair.truth)
    found = planes.covering(planes.opened(image or segments.text("image")), segments, None)
    grey = None
    if found is not None:
        corner = total(difference(start, first_voxels(segments, pair.truth)[0]), found[1])
        grey = found[0].read((corner, size))[0]
    elif image:
        raise ShapeError(f"--image {image} does not cover {segments.name}, expected its image")
    else:
        report.notes.append("picture: the image is unknown (--image VOLUME)")
    title = f"z = {start[0]}: {report.worst_voxels} wrong voxels"
    planes.save_classes(title, grey, true, predicted, voxel_nm, path)


def compared(report: Report) -> str:
    """Return the verdict, and a table of the scores and of the scores of trivial answers, for a terminal."""
    scores, columns = report.table.scores(), dict(_COLUMNS)
    interval = (report.intervals or {}).get(trivial.ERROR)
    found = trivial.verdict(scores, report.answers, interval)
    lines = [*report.first, ""] if report.first else []
    if found:
        text = found.text
        if report.too_good and found.better:
            text = f"Too good a score, of voxels of the training: {text[0].lower()}{text[1:]}"
        lines += [text, ""]
    if report.runs is not None:
        columns[NERL], scores[NERL] = "NERL", report.runs.normalised
    rows = {"segmentation": scores, **report.answers}
    cells = [[name, *(_text(row[key]) for key in columns)] for name, row in rows.items()]
    if report.intervals is not None:
        ends = [report.intervals.get(key, ()) for key in columns]
        cells.insert(1, ["  95 % interval", *("-".join(map(_text, end)) for end in ends)])
    lines += [*aligned(["all voxels", *columns.values()], cells), *report.notes]
    return "\n".join([*lines, *_looked(report.looked)])


def _looked(found: Looked | None) -> list[str]:
    """Return a table of the mistakes among the first places."""
    if found is None:
        return []
    wrong, judged = count_of(found.mistakes, "mistake"), count_of(found.judged, "place")
    title = f"{found.table}: {wrong} among {judged} of known truth"
    head = ["first places", "mistakes", "in random order", "smallest first"]
    rows = [
        [str(n), str(row["mistakes"]), f"{row['random_order']:.1f}", str(row["smallest_first"])]
        for n, row in found.first.items()
    ]
    return ["", title, *aligned(head, rows)]


def _text(value: float) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4f}"
    return str(value)


def compared_classes(report: ClassReport) -> str:
    """Return tables of the scores of classes, of the objects of classes, and of the confusion, for a terminal."""
    mean = report.mean()
    names = {number: f"{number} {row['name']}".rstrip() for number, row in report.classes.items()}
    rows = [
        [
            names[number],
            *(_text(row[name]) for name in (*mean, "true_voxels", "predicted_voxels")),
            _text(row["everything"]["dice"]),
        ]
        for number, row in report.classes.items()
    ]
    rows.append(["mean without 0", *map(_text, mean.values()), "", "", ""])
    head = ["class", *_titles(mean, _SCORES), "truth", "prediction", "Dice of all"]
    lines = [*report.first, ""] if report.first else []
    lines += [*aligned(head, rows), ""]
    lines.append("Truth and prediction in voxels. Dice of all: if every voxel were of the class.")
    if report.sections is not None:
        where = "in each section" if report.sections else "in 3-D"
        lines += ["", f"objects: voxels of a class that are connected by their faces, {where}"]
        found = {n: row["objects"] for n, row in report.classes.items() if "objects" in row}
        rows = [[names[number], *map(_text, row.values())] for number, row in found.items()]
        head = ["class", *_titles(next(iter(found.values())), _DETECTION)]
        lines += aligned(head, rows)
    counts = zip(names.values(), report.confusion.tolist(), strict=True)
    rows = [[name, *map(str, row)] for name, row in counts]
    lines += ["", *aligned(["truth \\ prediction", *names.values()], rows), ""]
    lines.append(
        f"{int(report.confusion.sum())} voxels compared, {report.unlabelled} without a label;"
        f" most wrong ones: {report.worst_voxels} in section z = {report.worst[0][0]}"
    )
    return "\n".join([*lines, *report.notes])


def _titles(scores: Mapping[str, float], known: Mapping[str, str]) -> list[str]:
    return [known.get(name, name.replace("_", " ")) for name in scores]


def aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table; the first column is aligned on the left, the others on the right."""
    first, *others = zip(head, *rows, strict=True)
    width = max(map(len, first))
    columns = [[cell.ljust(width) for cell in first]]
    for column in others:
        width = max(map(len, column))
        columns.append([cell.rjust(width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
