# SPDX-License-Identifier: Apache-2.0
"""The scores of a segmentation, next to those of an earlier one and of trivial answers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.data import Box, Volume
from floodtide.data.boxes import difference
from floodtide.data.places import read_places
from floodtide.data.volumes import volume_exists
from floodtide.errors import InvalidFileError, ShapeError, UnsupportedError
from floodtide.evaluate import trivial
from floodtide.evaluate.looking import Looked, looked_at
from floodtide.evaluate.mistakes import Mistake, worst_mistakes
from floodtide.evaluate.skeletons import RunLengths
from floodtide.evaluate.voxels import (
    ContingencyTable,
    Pair,
)

Scores = Mapping[str, float]

_MOST_VOXELS = (
    1 << 25
)  # of a box that is read whole, for grey level and places: about a GiB of memory


@dataclasses.dataclass
class Report:
    """The scores of a segmentation, next to those of an earlier one and of trivial answers.

    Attributes:
        table: Voxels of each pair of segment and object.
        before: Scores of an earlier segmentation, if there is one.
        answers: {name: scores} of the trivial answers.
        level: The grey level of the answer `best grey level`; None if it is not among the answers.
        notes: Sentences about the answers.
        runs: Run lengths on skeletons; None: not asked for.
        unit: Their unit.
        mistakes: The worst mistakes; None: not asked for.
        looked: Mistakes among the places of the table beside the segmentation; None: there is no table.
    """

    table: ContingencyTable
    answers: dict[str, Scores]
    before: Scores | None = None
    level: trivial.GreyLevel | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    runs: RunLengths | None = None
    unit: str = "nm"
    mistakes: list[Mistake] | None = None
    looked: Looked | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the scores by name, and the other parts under a name each, as JSON can hold them."""
        found = plain(self.table.scores())
        answers = {name: plain(scores) for name, scores in self.answers.items()}
        if self.level is not None:
            answers[trivial.GREY_LEVEL] |= self.level._asdict()
        found |= {"trivial": answers, "notes": self.notes}
        if self.before is not None:
            found["before"] = plain(self.before)
        if self.runs is not None:
            found["run_lengths"] = dataclasses.asdict(self.runs) | {"unit": self.unit}
        if self.mistakes is not None:
            found["worst"] = [dataclasses.asdict(mistake) for mistake in self.mistakes]
        if self.looked is not None:
            names = ("mistakes", "random_order", "smallest_first")
            first = {n: dict(zip(names, row, strict=True)) for n, row in self.looked.first.items()}
            found["places"] = dataclasses.asdict(self.looked) | {"first": first}
        return found


def plain(scores: Scores) -> dict[str, Any]:
    """Return scores with None for undefined ones, as JSON can hold them."""
    return {name: None if math.isnan(value) else value for name, value in scores.items()}


def report(
    segmentation: Volume,
    truth: Volume,
    box: Box | None = None,
    *,
    before: Volume | None = None,
    image: str = "",
    worst: int | None = None,
) -> Report | None:
    """Compare a segmentation with the truth, as `floodtide evaluate` does. Collective: ranks share the counting.

    Args:
        segmentation: Segment ids; 0: no segment.
        truth: Object ids; 0: ignored.
        box: (start, size) in voxels of the whole volume; None: what both volumes cover.
        before: An earlier segmentation of the same voxels.
        image: Name of the image for the grey level; "": the image that the segmentation states.
        worst: Number of splits and of mergers to list; None: none.

    Returns:
        The report on rank 0, None on the other ranks.

    Raises:
        floodtide.errors.Error: If a volume cannot be read, or the volumes do not fit.
    """
    pair = Pair(segmentation, truth, box)
    with bar("voxels", "evaluate") as progress:
        table = pair.table_on_ranks(progress)
    found: Report | None = None
    with world.agreed():
        if world.rank() == 0:
            found = Report(table, {trivial.ONE_OBJECT: trivial.one_object(table)})
            if before is not None:
                found.before = Pair(before, truth, box).table().scores()
            if pair.assumed_place:
                found.notes.append(pair.assumed_place)
            _add_grey_level(found, image, pair)
            _add_places(found, pair)
            if all(len(set(values) - {0}) == 1 for values in table.rows()[:, :2].T.tolist()):
                found.notes.append(
                    "each volume has one value besides 0: --classes compares them as classes"
                )
            if worst is not None:
                with bar("voxels", "evaluate") as progress:
                    found.mistakes = worst_mistakes(
                        pair, count=worst, table=table, progress=progress
                    )
    return found


def _add_places(report: Report, pair: Pair) -> None:
    """Judge the places of the table beside the segmentation, if there is one, or note why not."""
    name = pair.segmentation.name
    region, start, _ = pair.places
    places = read_places(name, difference(start, region[0])) if volume_exists(name) else None
    if places is None:
        return
    if math.prod(region[1]) > _MOST_VOXELS:
        report.notes.append(
            f"places: left out for more than {_MOST_VOXELS} voxels (--box compares a part)"
        )
        return
    report.looked = looked_at(name, places, *pair.read(), report.table)


def _add_grey_level(report: Report, image: str, pair: Pair) -> None:
    """Add the answer of the best grey level, or a note why it is missing."""
    name = image or pair.segmentation.text("image")
    if not name or (not image and not volume_exists(name)):
        report.notes.append(f"{trivial.GREY_LEVEL}: unknown without the image (--image VOLUME)")
        return
    voxels = int(report.table.rows()[:, 2].sum())
    if voxels > _MOST_VOXELS:
        report.notes.append(
            f"{trivial.GREY_LEVEL}: left out for {voxels} voxels, more than {_MOST_VOXELS} (--box compares a part)"
        )
        return
    try:
        _, grey = Pair(pair.segmentation, Volume(name), pair.box).read(image=True)
    except (InvalidFileError, ShapeError, UnsupportedError) as error:
        if image:
            raise
        report.notes.append(f"{trivial.GREY_LEVEL}: {error}")
        return
    _, known = pair.read()
    level, report.answers[trivial.GREY_LEVEL] = trivial.of_grey_level(grey, known)
    report.level = level
    side = f"pieces {'above' if level.above else 'below'} {level.level:.4g}"
    report.notes.append(f"{trivial.GREY_LEVEL}: {side}, chosen with the truth")
