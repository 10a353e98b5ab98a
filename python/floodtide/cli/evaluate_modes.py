# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` computes: scores of objects, or of classes, with what was asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from floodtide import evaluate
from floodtide.base import limits
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import evaluate_text
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import Box, Volume, parse_box
from floodtide.evaluate.classes import noted_classes

Outcome = tuple[dict[str, Any], str, Collection[str]]
"""The report, tables for a terminal, and what they show of it."""

_OF_OBJECTS = ("before", "worst", "skeletons")
_OF_CLASSES = ("match", "unlabelled", "objects")
_IN_TABLE = ("trivial", "notes", "before")


def run(
    segmentation: str,
    truth: str,
    *,
    box: str,
    before: str,
    picture: str | None,
    image: str,
    worst: int | None,
    skeletons: bool,
    merge_nodes: int,
    voxel_nm: tuple[float, float, float] | None,
    classes: bool,
    **of_classes: Any,
) -> Outcome | None:
    """Compare two volumes. Collective. None on all ranks but 0."""
    if not (skeletons or picture):
        shared.refuse_given(("voxel_nm",), "has no effect without --skeletons or --picture")
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
            if picture is not None and world.rank() == 0:
                inputs = files_of([segmentation, truth, image, before])
                held.enter_context(reserved("evaluate", picture, PICTURES[".png"], inputs))
        if classes:
            return _classes(segments, objects, part, picture, image, voxel_nm, of_classes)
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
            if all(len(set(values) - {0}) == 1 for values in report.table.rows()[:, :2].T.tolist()):
                report.notes.append(
                    "each volume has one value besides 0: --classes compares them as classes"
                )
            facts = report.as_dict()
            if skeletons:
                facts["run_lengths"]["unit"] = report.unit
            return facts, evaluate_text.compared(report) + "\n", _IN_TABLE


def _classes(
    segments: Volume,
    objects: Volume,
    box: Box | None,
    picture: str | None,
    image: str,
    voxel_nm: tuple[float, float, float] | None,
    options: dict[str, Any],
) -> Outcome | None:
    report = evaluate.class_report(segments, objects, box, **options)
    with world.agreed():
        if report is None:
            return None
        if picture:
            from floodtide.cli import evaluate_extras

            size = voxel_nm or evaluate_extras.stated_size([objects, segments], image)
            evaluate_extras.draw_classes(report, segments, objects, Path(picture), image, size)
        facts = report.as_dict()
        return facts, evaluate_text.of_classes(report), facts.keys()


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
