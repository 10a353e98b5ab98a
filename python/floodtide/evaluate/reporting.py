# SPDX-License-Identifier: Apache-2.0
"""Scores of a segmentation beside the scores of trivial answers, and which compared voxels its network has seen."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import errors
from floodtide.base import limits
from floodtide.base.data_options import TrainingVolume, volume_name
from floodtide.base.network_files import DECODING
from floodtide.base.progress import bar
from floodtide.base.reading import exists
from floodtide.comm import world
from floodtide.config.reader import stored
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import box_text, difference, intersection, parse_boxes, total
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.table import format_of
from floodtide.data.patches import boxes_of
from floodtide.data.places import places_in, table_of
from floodtide.data.resampling import original_of
from floodtide.data.volumes import as_volume, settled_size, volume_exists
from floodtide.evaluate import trivial
from floodtide.evaluate.mistakes import Looked, Mistake, looked_at, worst_mistakes
from floodtide.evaluate.skeletons import RunLengths
from floodtide.evaluate.voxels import LEAST_BODIES, MOST_PAIRS, ContingencyTable, Pair, intervals

Scores = dict[str, float]

NERL = "normalised_run_length"
"""The normalised expected run length, among the scores of trivial answers."""

# Voxels of a box that is read whole, for grey level and places: about a GiB of memory.
_MOST_VOXELS = 1 << 25


@dataclasses.dataclass
class Report:
    """Scores of a segmentation beside the scores of trivial answers.

    Attributes:
        table: Voxels of each pair of segment and object.
        answers: {name: scores} of the trivial answers.
        intervals: {name: (low, high)}, the 95 % intervals of scores by bootstrap over bodies; None: `notes` says why.
        pieces: Segments of the answer `best grey level`; None if it is not among the answers.
        first: Sentences to read before the scores: about voxels of the training, and about the compared part.
        too_good: The network has seen compared voxels in its training.
        notes: Sentences about the answers.
        runs: Run lengths on skeletons; None: not asked for.
        unit: Their unit.
        mistakes: The worst mistakes; None: not asked for.
        looked: Mistakes among the places of the table beside the segmentation; None: there is no table.
    """

    table: ContingencyTable
    answers: dict[str, Scores]
    intervals: dict[str, tuple[float, float]] | None = None
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
        found: dict[str, Any] = self.table.scores() | {
            "intervals": self.intervals,
            "trivial": self.answers,
            "notes": [*self.first, *self.notes],
        }
        if self.runs is not None:
            found["run_lengths"] = dataclasses.asdict(self.runs) | {"unit": self.unit}
        if self.mistakes is not None:
            found["worst"] = [dataclasses.asdict(mistake) for mistake in self.mistakes]
        if self.looked is not None:
            found["places"] = self.looked._asdict()
        as_json: dict[str, Any] = plain(found)
        return as_json


def plain(value: Any) -> Any:
    """Return nested scores with None for undefined ones, as JSON can hold them."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def report(
    segmentation: NDArray[Any] | Volume,
    truth: NDArray[Any] | Volume,
    box: Box | None = None,
    *,
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
        border = None
        if border_nm is not None:
            if voxel_nm is None:
                raise errors.InvalidArgumentError(
                    "evaluate: the distance from borders needs the voxel size, which no file states; expected voxel_nm"
                    " (--voxel-nm Z,Y,X)"
                )
            limits.NANOMETRES.check(border_nm, "evaluate: border_nm")
            limits.VOXEL_SIZE.check(list(voxel_nm), "evaluate: voxel_nm")
            border = border_nm / voxel_nm[1], border_nm / voxel_nm[2]
        pair = Pair(segmentation, truth, box, border)
    with bar("voxels", "evaluate") as progress:
        table = pair.table_on_ranks(progress)
    with world.agreed():
        if world.rank() > 0:
            return None
        found = Report(table, {trivial.ONE_OBJECT: trivial.one_object(table)}, intervals(table))
        if border_nm is not None:
            if not (table.rows()[:, 1] > 0).any():
                raise errors.InvalidArgumentError(
                    f"evaluate: every voxel of an object is at most {border_nm:g} nm from a border, expected a smaller"
                    " border_nm (--border-nm)"
                )
            found.notes.append(
                f"voxels up to {border_nm:g} nm from a border in their section do not count"
            )
        seen = note_of(pair)
        found.too_good = bool(seen)
        found.first = [text for text in (seen, pair.compared_part) if text]
        _add_grey_level(found, image, pair)
        if found.intervals is None:
            found.notes.append(
                f"95 % intervals: left out, expected at least {LEAST_BODIES} objects, and at most {MOST_PAIRS} pairs of"
                " segment and object"
            )
        _add_places(found, pair)
        if all(len(set(values) - {0}) == 1 for values in table.rows()[:, :2].T.tolist()):
            found.notes.append(
                "each volume has one value besides 0: --classes compares them as classes"
            )
        if worst is not None:
            with bar("voxels", "evaluate") as progress:
                found.mistakes = worst_mistakes(pair, count=worst, table=table, progress=progress)
        return found


def _add_places(report: Report, pair: Pair) -> None:
    """Judge the places of the table beside the segmentation, if there is one, or note why not."""
    name, (region, start, _) = pair.segmentation.name, pair.places
    places = places_in(pair.segmentation, start)
    if places is None:
        return
    if math.prod(region[1]) > _MOST_VOXELS:
        report.notes.append(
            f"places: left out for more than {_MOST_VOXELS} voxels (--box compares a part)"
        )
        return
    places = [one.moved(lambda voxel: difference(voxel, region[0])) for one in places]
    report.looked = looked_at(table_of(name), places, *pair.read(), report.table)


def _add_grey_level(report: Report, image: str, pair: Pair) -> None:
    """Add the answer of the best grey level, or a note why it is missing."""
    name, voxels = image or pair.segmentation.text("image"), math.prod(pair.places[0][1])
    if not name or (not image and not volume_exists(name)):
        note = "unknown without the image (--image VOLUME)"
    elif voxels > _MOST_VOXELS:
        note = f"left out for {voxels} voxels, more than {_MOST_VOXELS} (--box compares a part)"
    else:
        try:
            grey, (_, known) = pair.read_image(Volume(name)), pair.read()
            level, scores, report.pieces = trivial.of_grey_level(grey, known)
            report.answers[trivial.GREY_LEVEL] = scores | level._asdict()
            side = "above" if level.above else "below"
            note = f"pieces {side} {level.level:.4g}, chosen with the truth"
        except (errors.InvalidFileError, errors.ShapeError, errors.UnsupportedError) as error:
            if image:
                raise
            note = str(error)
    report.notes.append(f"{trivial.GREY_LEVEL}: {note}")


def note_of(pair: Pair) -> str:
    """Return a sentence if the network of a segmentation has seen compared voxels in its training; "" if not.

    Also "" if the segmentation does not name its checkpoint, or a file that is needed to know cannot be read.
    """
    try:
        return _note(pair)
    except (errors.Error, OSError, ValueError):
        return ""


def _note(pair: Pair) -> str:
    checkpoint = pair.segmentation.text("checkpoint")
    settings = stored(checkpoint) if checkpoint else None
    if settings is None or settings.validation.share > 0:  # else any section may be held out
        return ""
    section = settings.validation
    learnt, chosen, test = list[Box](), list[Box](), list[Box]()
    named = section.volume or next((one.name for one in settings.data.volumes), "")
    for volume in settings.data.volumes:
        if (place := _place(pair, volume)) is not None:
            learnt += _moved(parse_boxes(volume.box) or boxes_of(volume), *place)
            if volume.name == named:
                chosen += _moved(parse_boxes(section.box), *place)
                test += _moved(parse_boxes(section.test_box), *place)
    for volume in section.volumes:
        if (place := _place(pair, volume)) is not None:
            chosen += _moved(parse_boxes(volume.box) or boxes_of(volume), *place)
    if not exists(Path(checkpoint).absolute().parent.parent / DECODING):
        # No threshold was chosen on the validation box.
        chosen, test = [], test or chosen
    of_choice = "are in the validation box, on which thresholds were chosen"
    said = list[str]()
    for boxes, text in ((learnt, "were trained on"), (chosen, of_choice)):
        if share := _share(pair.places[0], boxes):
            said.append(f"{share} % {'' if said else 'of these voxels '}{text}")
    if not said:
        return ""
    advice = f"; held out is {box_text(test[0])}" if test else ""
    return f"note: {', and '.join(said)}: this score is too good{advice}"


def _place(pair: Pair, volume: TrainingVolume) -> tuple[Vec3, Sequence[float]] | None:
    """Return where a training volume is in the whole volume; None: it is neither the image nor the truth.

    That is the place of its first voxel, and its voxel size divided by that of the whole volume.
    """
    image, name = pair.segmentation.text("image"), volume_name(volume.image)
    ratio = [1.0, 1.0, 1.0]
    if not image or not _same(name, image):
        if volume.labels and _same(volume_name(volume.labels), pair.truth.name):
            return difference(pair.places[2], volume.labels_box_start), ratio
        original = original_of(Volume(name)) if image and volume_exists(name) else None
        size: SizeNm | None = Volume(name).geometry.voxel_size_nm if original else None
        if original is None or size is None or not _same(original[0], image):
            return None
        ratio = [new / old for new, old in zip(size, original[1], strict=True)]
    return pair.start_of(Volume(image)), ratio


def _same(a: str, b: str) -> bool:
    try:
        return format_of(a).place(a) == format_of(b).place(b)
    except errors.Error:
        return a == b


def _moved(boxes: Iterable[Box], first: Vec3, ratio: Sequence[float]) -> list[Box]:
    """Return boxes of a training volume, of which `_place` says the place, in voxels of the whole volume."""

    def to(voxel: Vec3) -> Vec3:
        return total(first, [round(n * r) for n, r in zip(voxel, ratio, strict=True)])

    return [(to(start), difference(to(total(start, size)), to(start))) for start, size in boxes]


def _share(region: Box, boxes: Sequence[Box]) -> int:
    """Return the share of a box that boxes without common voxels cover, in whole percent: 0 only for no voxel."""
    parts = [part[1] for box in boxes if (part := intersection(region, box))]
    share = round(100 * sum(map(math.prod, parts)) / math.prod(region[1]))
    return min(100, max(1, share)) if parts else 0
