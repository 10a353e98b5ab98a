# SPDX-License-Identifier: Apache-2.0
"""How the affinities of a U-Net become segments: chosen on the validation box, and kept in the run directory.

Only labels of that box are read. The score of the box is too good afterwards, because the choice has seen it. So plans
hold out a third part, `validation.test_box`, where the labels allow it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base import notes, reading
from floodtide.base.data_options import TrainingVolume
from floodtide.base.files import replace_text
from floodtide.base.outputs import reserved, starts_like
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import Config, SegmentOptions
from floodtide.config.segment_options import LINKAGES
from floodtide.data import Box, Volume, parse_box
from floodtide.data.boxes import box_text, difference, intersection, middle, parse_boxes
from floodtide.data.no_label import cleared
from floodtide.data.patches import boxes_of
from floodtide.errors import Error, InvalidArgumentError, LockedError, StorageError
from floodtide.segment import trained
from floodtide.segment.identity import digest
from floodtide.segment.linking import AffinityOptions, linked
from floodtide.segment.predict import predictor_of

FILE = "decoding.json"
"""Name of the file of a run directory that keeps the choice, with the scores of all candidates."""

_THRESHOLDS = tuple(round(0.05 * n, 2) for n in range(2, 20))
_MIN_SIZES = (1, 25, 100, 400)
_MOST_VOXELS = 1 << 20  # that are decoded: the choice takes a minute or two
_SCORES = {"voi": "VOI", "rand": "adapted Rand error"}
_DEFAULTS: dict[str, Any] = {"mirror": False, "method": "mean", "threshold": 0.5, "min_size": 100}
_COLUMNS = (*_DEFAULTS, *_SCORES)
_MARK = '{"floodtide decoding": 1,'
_WAIT_S = 600.0  # for another job that chooses
MIRROR_MARGIN = 0.02
"""Share of its score by which mirroring must be better to be chosen.

Mirrored copies cost eight times the prediction. Where they helped, errors fell by 8 to 27 %; thresholds from 0.3 to 0.6
differ by 7 % (docs/real_em.md, "A network trained in an evening"). So a gain below 2 % is not worth the time.
"""
_APART = 1 << 40  # between the ids of two boxes

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How affinities become segments.

    Attributes:
        options: The agglomeration.
        mirror: Axes of the mirrored copies whose predictions are averaged.
        source: Where the settings come from, a sentence; empty if the task has no such settings.
        boxes: Boxes of the training's image on which they were chosen.
    """

    options: AffinityOptions = field(default_factory=AffinityOptions)
    mirror: tuple[int, ...] = ()
    source: str = ""
    boxes: tuple[Box, ...] = ()

    def source_for(self, box: Box) -> str:
        """Return `source`, with a warning if the settings were chosen on a part of this box of the training's image."""
        if any(intersection(box, one) for one in self.boxes):
            return f"{self.source}; the score of this box is optimistic, because it was chosen on"
        return self.source


def decoding_of(checkpoint: Path, options: SegmentOptions) -> Decoding:
    """Return how `floodtide segment` decodes the affinities of a checkpoint; the first call chooses. Collective.

    Keys that `options` gives replace the choice. Rank 0 chooses, so all ranks have the same bits.
    """
    return world.from_rank_0(
        lambda: _settled(checkpoint, _given(options), options.choose_by, choose=True)
    )


def kept_decoding(checkpoint: Path, options: SegmentOptions) -> Decoding:
    """Return what `decoding_of` returns, but choose nothing: without a kept choice, the defaults. Not collective."""
    return _settled(checkpoint, _given(options), options.choose_by, choose=False)


def decoding_of_file(checkpoint: str, mirrored: bool, given: Row) -> Decoding:
    """Return how `floodtide agglomerate` decodes affinities: as given, else as `segment` has chosen. Collective.

    Args:
        checkpoint: The checkpoint that the affinities state; empty: none.
        mirrored: They are a mean over mirrored copies.
        given: Fields of AffinityOptions.
    """
    given = {**given, "mirror": mirrored}
    return world.from_rank_0(
        lambda: _settled(Path(checkpoint), given, "voi", choose=False, predicted=True)
    )


def _given(options: SegmentOptions) -> Row:
    given = {name: getattr(options, name) for name in _DEFAULTS}
    given = {name: value for name, value in given.items() if value not in (None, "chosen")}
    if "mirror" in given:
        given["mirror"] = given["mirror"] == "on"
    return given


def _settled(
    checkpoint: Path, given: Row, by: str, *, choose: bool, predicted: bool = False
) -> Decoding:
    axes: tuple[int, ...] = ()
    why, kept = "no checkpoint is known", None
    if given.get("method") == "mutex":
        why = "the choice is for other methods"
    elif given.keys() == _DEFAULTS.keys() and not predicted:
        why = "nothing is left to choose"
    elif reading.exists(checkpoint):
        kept, why = _kept(checkpoint, choose)
    row, boxes = _DEFAULTS | given, list[str]()
    if kept is not None:
        best = _best(kept["rows"], by, given)
        row, boxes = {name: best[name] for name in _DEFAULTS} | given, kept["boxes"]
        plain = next(one for one in kept["rows"] if _DEFAULTS.items() <= one.items())
        name, where = _SCORES[by], "; ".join(kept["boxes"])
        why = (
            f"chosen on the validation box {where} ({name} {best[by]:.3f}, with the defaults"
            f" {plain[by]:.3f}), kept in {kept['file']}"
        )
    if row["mirror"] and not predicted:
        settings = trained.stored_configuration(checkpoint)
        axes = () if settings is None else settings.augmentation.reflectable_axes
        if not axes:
            raise InvalidArgumentError(
                f'segment.mirror is "on", and the training of {checkpoint} reflected no axes, expected "off"'
            )
    text = ", ".join(f"{name} {_shown(value)}" for name, value in row.items())
    fixed = [name for name in given if not predicted or name != "mirror"]
    said = f"{', '.join(fixed)} as given, " if fixed else ""
    options = AffinityOptions(**{name: row[name] for name in ("method", "threshold", "min_size")})
    parts = tuple(part for box in boxes if (part := parse_box(box)) is not None)
    return Decoding(options=options, mirror=axes, source=f"{text}: {said}{why}", boxes=parts)


def _shown(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else f"{value}"


def _best(rows: list[Row], by: str, given: Row) -> Row:
    """Return the best candidate that has the given values. Of equals, the settings nearest to the defaults win.

    Mirroring wins only if it is better by MIRROR_MARGIN.
    """
    for name, value in given.items():
        rows = [one for one in rows if one[name] == value] or rows
    usual = tuple(_DEFAULTS.items())

    def rank(row: Row) -> tuple[Any, ...]:
        far = [abs(row[name] - value) for name, value in usual if name != "method"]
        return row[by], far[0], LINKAGES.index(row["method"]), *far[1:]

    best = min(rows, key=rank)
    plain = min((row for row in rows if not row["mirror"]), key=rank, default=best)
    return best if best[by] < (1.0 - MIRROR_MARGIN) * plain[by] else plain


def _kept(checkpoint: Path, choose: bool) -> tuple[dict[str, Any] | None, str]:
    """Return the choice that the run directory of a checkpoint keeps, a new one if `choose`; or None, and why."""
    settings = trained.stored_configuration(checkpoint)
    if settings is None or not settings.task.affinity_offsets:
        return None, f"defaults, because {checkpoint} has no training that says what to choose on"
    file = checkpoint.absolute().parent.parent / FILE
    if checkpoint.absolute().parent.name != "checkpoints":
        return None, f"defaults, because {checkpoint} is in no run directory"
    network = trained.load(checkpoint)
    own = digest(network)
    known = _read(file) if reading.exists(file) else None
    if known is not None and known["network"] == own:
        return known, ""
    if not choose:
        said = "keeps no choice" if known is None else f"keeps a choice of {known['checkpoint']}"
        return None, f"defaults, because {file.parent} {said}; `floodtide segment` makes one"
    try:
        check = starts_like("a choice of floodtide segment", _MARK.encode())
        with reserved("segment", file, check, wait_s=_WAIT_S):
            known = _read(file) if reading.exists(file) else None
            if known is not None and known["network"] == own:
                return known, ""
            if known is not None:
                old = known["checkpoint"]
                notes.show(f"{file}: was chosen for {old}; chosen again for {checkpoint.name}")
            table = {"checkpoint": checkpoint.name, "network": own}
            table |= _chosen(settings, network, file)
            replace_text(file, _text(table))
            return table | {"file": str(file)}, ""
    except LockedError:
        raise
    except (StorageError, _Unknown) as error:  # cannot be written, or nothing to choose on
        return None, f"defaults, because {error}"


class _Unknown(Exception):
    """There is nothing to choose on."""


def _chosen(settings: Config, network: Any, file: Path) -> dict[str, Any]:
    """Decode the validation boxes with all candidates; return boxes and rows."""
    try:
        parts = list(_parts(settings))
        opened = [
            ([Volume(one.image) for one in volume.inputs], Volume(volume.labels))
            for volume, _ in parts
        ]
    except Error as error:
        raise _Unknown(f"the validation data cannot be read: {error}") from None
    if not parts:
        raise _Unknown("the training has no validation.box or [[validation.volumes]] to choose on")
    notes.show(f"segment: chooses threshold, linkage, size filter and mirroring, once ({file})")
    tables: dict[tuple[Any, ...], Any] = {}
    task: Any = settings.task
    axes = settings.augmentation.reflectable_axes
    mirrors = (False, True) if axes else (False,)
    total, done = len(parts) * len(mirrors) * (1 + len(LINKAGES)), 0
    with bar("passes", "choose", line_every_s=10.0) as progress:
        for number, ((volume, box), (images, labels)) in enumerate(zip(parts, opened, strict=True)):
            place = difference(box[0], volume.labels_box_start), box[1]
            truth = cleared(labels.read(place), labels.name, settings.data.unlabelled)
            for mirror in mirrors:
                predictor = predictor_of(volume, network, task, axes if mirror else ())
                predicted = predictor.predicted(images, box)
                progress(done := done + 1, total)
                for method in LINKAGES:
                    for key, rows in _candidates(predicted, settings, method, truth):
                        rows[:, :2] += np.where(rows[:, :2] > 0, number * _APART, 0).astype(
                            rows.dtype
                        )
                        tables.setdefault(
                            (mirror, *key), _core.evaluate.ContingencyTable()
                        ).add_rows(rows)
                    progress(done := done + 1, total)
    rows = []
    for key, table in tables.items():
        found = table.scores()
        voi = found["all_voi_split"] + found["all_voi_merge"]
        if not math.isfinite(voi):
            raise _Unknown("the validation box has no labelled voxel")
        rows.append(dict(zip(_COLUMNS, (*key, voi, found["all_adapted_rand_error"]), strict=True)))
    return {"boxes": [box_text(box) for _, box in parts], "rows": rows}


def _parts(settings: Config) -> Iterator[tuple[TrainingVolume, Box]]:
    """Yield the validation boxes with their volumes; of many voxels, only the middle of each box."""
    held = settings.validation
    found = [(volume, box) for volume in held.volumes for box in boxes_of(volume)]
    for volume in settings.data.volumes:
        if held.box and held.volume in ("", volume.name):
            found = [(volume, box) for box in parse_boxes(held.box)]
            break
    voxels = sum(math.prod(size) for _, (_, size) in found)
    factor = min(1.0, (_MOST_VOXELS / max(1, voxels)) ** (1 / 3))
    for volume, box in found:
        yield volume, middle(box, [max(1, int(n * factor)) for n in box[1]])


def _candidates(
    predicted: Any, settings: Config, method: str, truth: Any
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (method, threshold, min_size) of each candidate, and the voxels of each pair of segment and object."""
    offsets = settings.task.affinity_offsets
    for threshold, labels in linked(predicted, offsets, method, _THRESHOLDS):
        sizes = np.bincount(labels.ravel().astype(np.int64))
        table = _core.evaluate.ContingencyTable()
        table.add(np.ascontiguousarray(labels), np.ascontiguousarray(truth))
        pairs = table.rows()
        for least in _MIN_SIZES:
            rows = pairs.copy()
            rows[sizes[rows[:, 0].astype(np.int64)] < least, 0] = 0
            yield (method, threshold, least), rows


def _text(table: Row) -> str:
    """Return a choice as JSON, with a line for each candidate."""
    head = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in table.items() if k != "rows")
    rows = ",\n".join(f"  {json.dumps([one[name] for name in _COLUMNS])}" for one in table["rows"])
    return f'{_MARK}\n{head},\n "columns": {json.dumps(_COLUMNS)},\n "rows": [\n{rows}\n ]}}\n'


def _read(file: Path) -> dict[str, Any]:
    """Return a choice, with rows as dictionaries."""
    expected = "a choice of floodtide segment; remove the file for a new one"
    table = reading.read_json(file, expected)
    with reading.reading(file, expected):
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        known = [{name: row[name] for name in _COLUMNS} for row in rows]
        texts = {name: table[name] for name in ("checkpoint", "network", "boxes")}
    return texts | {"rows": known, "file": str(file)}
