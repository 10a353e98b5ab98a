# SPDX-License-Identifier: Apache-2.0
"""The scores of a segmentation, next to those of an earlier one and of trivial answers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.data import Box, Volume
from floodtide.data.boxes import difference
from floodtide.data.places import read_places
from floodtide.data.volumes import as_volume, settled_size, volume_exists
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError, UnsupportedError
from floodtide.evaluate import trivial
from floodtide.evaluate.intervals import LEAST_BODIES, MOST_PAIRS, intervals
from floodtide.evaluate.looking import Looked, looked_at
from floodtide.evaluate.mistakes import Mistake, worst_mistakes
from floodtide.evaluate.skeletons import RunLengths
from floodtide.evaluate.trained_voxels import note_of
from floodtide.evaluate.voxels import ContingencyTable, Pair

Scores = dict[str, float]

NERL = "normalised_run_length"
"""The normalised expected run length, among the scores of an earlier segmentation and of trivial answers."""

_CHECKED = Arguments(border_nm=limits.NANOMETRES, voxel_nm=limits.VOXEL_SIZE)
# Voxels of a box that is read whole, for grey level and places: about a GiB of memory.
_MOST_VOXELS = 1 << 25


@dataclasses.dataclass
class Report:
    """The scores of a segmentation, next to those of an earlier one and of trivial answers.

    Attributes:
        table: Voxels of each pair of segment and object.
        before: Scores of an earlier segmentation, if there is one.
        answers: {name: scores} of the trivial answers.
        intervals: {name: (low, high)}, the 95 % intervals of scores by bootstrap over bodies; None: `notes` says why.
        level: The grey level of the answer `best grey level`; None if it is not among the answers.
        pieces: Segments of this answer.
        first: Sentences to read before the scores: about voxels of the training, and about places.
        too_good: The network has seen compared voxels in its training.
        notes: Sentences about the answers.
        runs: Run lengths on skeletons; None: not asked for.
        unit: Their unit.
        mistakes: The worst mistakes; None: not asked for.
        looked: Mistakes among the places of the table beside the segmentation; None: there is no table.
    """

    table: ContingencyTable
    answers: dict[str, Scores]
    before: Scores | None = None
    intervals: dict[str, tuple[float, float]] | None = None
    level: trivial.GreyLevel | None = None
    pieces: NDArray[np.int32] | None = None
    first: list[str] = dataclasses.field(default_factory=list)
    too_good: bool = False
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
        notes = [*self.first, *self.notes]
        found |= {"intervals": self.intervals, "trivial": answers, "notes": notes}
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
    segmentation: NDArray[Any] | Volume,
    truth: NDArray[Any] | Volume,
    box: Box | None = None,
    *,
    before: NDArray[Any] | Volume | None = None,
    image: str = "",
    worst: int | None = None,
    border_nm: float | None = None,
    voxel_nm: Sequence[float] | None = None,
) -> Report | None:
    """Compare a segmentation with the truth, as `floodtide evaluate` does. Collective: ranks share the counting.

    Args:
        segmentation: Segment ids; 0: no segment.
        truth: Object ids; 0: ignored.
        box: (start, size) in voxels of the whole volume; None: what both volumes cover.
        before: An earlier segmentation of the same voxels.
        image: Name of the image for the grey level; "": the image that the segmentation states.
        worst: Number of splits and of mergers to list; None: none.
        border_nm: Truth this near to a border in its section does not count, as in CREMI; None: all counts.
        voxel_nm: Voxel size (z, y, x) in nm; needed for `border_nm`.

    Returns:
        The report on rank 0, None on the other ranks.

    Raises:
        floodtide.errors.Error: If a volume cannot be read, the volumes do not fit, or no voxel is left to compare.
    """
    with world.agreed():
        segmentation, truth = as_volume(segmentation), as_volume(truth)
        for volume in (segmentation, truth):
            settled_size(volume, voxel_nm, "voxel_nm (--voxel-nm)")
        pair = Pair(segmentation, truth, box, _border(border_nm, voxel_nm))
        earlier = None if before is None else pair.of_same_voxels(as_volume(before))
    with bar("voxels", "evaluate") as progress:
        table = pair.table_on_ranks(progress)
    found: Report | None = None
    with world.agreed():
        if world.rank() == 0:
            found = Report(table, {trivial.ONE_OBJECT: trivial.one_object(table)})
            if border_nm is not None:
                _add_border(found, border_nm)
            if earlier is not None:
                found.before = earlier.table().scores()
            seen = note_of(pair)
            found.too_good = bool(seen)
            found.first += [text for text in (seen, pair.assumed_place) if text]
            _add_grey_level(found, image, pair)
            _add_intervals(found)
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


def _border(
    border_nm: float | None, voxel_nm: Sequence[float] | None
) -> tuple[float, float] | None:
    """Return a distance in nm as voxels along y and x."""
    if border_nm is None:
        return None
    if voxel_nm is None:
        raise InvalidArgumentError(
            "evaluate: the distance from borders needs the voxel size, which no file states; expected voxel_nm"
            " (--voxel-nm Z,Y,X)"
        )
    _CHECKED.check("evaluate", border_nm=border_nm, voxel_nm=list(voxel_nm))
    return border_nm / voxel_nm[1], border_nm / voxel_nm[2]


def _add_border(report: Report, border_nm: float) -> None:
    """Note which voxels do not count; raise if none is left."""
    if not (report.table.rows()[:, 1] > 0).any():
        raise InvalidArgumentError(
            f"evaluate: every voxel of an object is at most {border_nm:g} nm from a border, expected a smaller"
            " border_nm (--border-nm)"
        )
    report.notes.append(
        f"voxels up to {border_nm:g} nm from a border in their section do not count"
    )


def _add_intervals(report: Report) -> None:
    """Add the 95 % intervals, or a note why they are missing."""
    report.intervals = intervals(report.table)
    if report.intervals is None:
        report.notes.append(
            f"95 % intervals: left out, expected at least {LEAST_BODIES} objects, and at most {MOST_PAIRS} pairs of"
            " segment and object"
        )


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
    try:
        report.looked = looked_at(name, places, *pair.read(), report.table)
    except InvalidFileError as error:  # another program has replaced the segmentation
        report.notes.append(f"places: {error}")


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
        grey = pair.read_image(Volume(name))
    except (InvalidFileError, ShapeError, UnsupportedError) as error:
        if image:
            raise
        report.notes.append(f"{trivial.GREY_LEVEL}: {error}")
        return
    _, known = pair.read()
    level, report.answers[trivial.GREY_LEVEL], report.pieces = trivial.of_grey_level(grey, known)
    report.level = level
    side = f"pieces {'above' if level.above else 'below'} {level.level:.4g}"
    report.notes.append(f"{trivial.GREY_LEVEL}: {side}, chosen with the truth")
