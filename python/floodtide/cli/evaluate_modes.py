# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` computes: scores of objects with what was asked for, or Dice of classes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from floodtide import evaluate
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.base.progress import bar
from floodtide.cli import evaluate_text
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import Box, Volume, parse_box
from floodtide.evaluate.reporting import plain
from floodtide.evaluate.voxels import count_on_ranks

Outcome = tuple[dict[str, Any], str]
"""What is printed, and the table above it."""

_OF_OBJECTS = ("before", "picture", "worst", "skeletons")


def run(
    segmentation: str,
    truth: str,
    *,
    box: str,
    before: str,
    classes: int | None,
    picture: str | None,
    image: str,
    worst: int | None,
    skeletons: bool,
    merge_nodes: int,
    voxel_nm: tuple[float, float, float] | None,
) -> Outcome | None:
    """Compare two volumes. Collective. None on all ranks but 0."""
    if not (skeletons or picture):
        shared.refuse_given(("voxel_nm",), "has no effect without --skeletons or --picture")
    with contextlib.ExitStack() as held:
        with world.agreed():
            segments, objects, part = Volume(segmentation), Volume(truth), parse_box(box)
            number = classes or _classes_of(segments)
            if number is not None:
                shared.refuse_given(
                    _OF_OBJECTS, "is about objects, and SEGMENTATION holds classes, expected none"
                )
            if image:
                Volume(image)  # fail now: a picture without the image would not explain why
            earlier = Volume(before) if before else None
            if picture is not None and world.rank() == 0:
                inputs = files_of([segmentation, truth, image, before])
                held.enter_context(reserved("evaluate", picture, PICTURES[".png"], inputs))
        if number is not None:
            return _dice(segments, objects, part, number)
        report = evaluate.report(segments, objects, part, before=earlier, image=image, worst=worst)
        with world.agreed():
            if report is None:
                return None
            if skeletons or picture:
                from floodtide.cli import evaluate_extras

                size = voxel_nm or evaluate_extras.stated_size([objects, segments], image)
            if skeletons:
                pair = (segments, objects)
                evaluate_extras.add_run_lengths(report, pair, part, size, merge_nodes)
            if picture:
                names = (segmentation, truth)
                evaluate_extras.draw(
                    report, names, Path(picture), image=image, before=earlier, voxel_nm=size
                )
            facts = report.as_dict()
            if skeletons:
                facts["run_lengths"]["unit"] = report.unit
            return facts, evaluate_text.compared(report)


def _dice(segments: Volume, objects: Volume, box: Box | None, classes: int) -> Outcome | None:
    with bar("voxels", "evaluate") as progress:
        table = count_on_ranks(segments, objects, box, progress, classes=True)
    with world.agreed():
        if world.rank() > 0:
            return None
        rows = evaluate.dice_of_table(table, classes)
        return {"classes": [plain(row) for row in rows]}, ""


def _classes_of(segmentation: Volume) -> int | None:
    """Return the number of classes that `floodtide predict` has noted in a volume of classes."""
    noted = segmentation.text("classes")
    return int(noted) if noted.isdecimal() and len(noted) <= 3 else None
