# SPDX-License-Identifier: Apache-2.0
"""How the affinities of a U-Net become segments: chosen on the validation box, and kept in the run directory.

Only labels of that box are read. The score of the box is too good afterwards, because the choice has seen it. So plans
hold out a third part, `validation.test_box`, where the labels allow it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base import notes, reading
from floodtide.base.data_options import TrainingVolume
from floodtide.base.files import replace_text
from floodtide.base.network_files import DECODING
from floodtide.base.outputs import reserved, starts_like
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import Config, SegmentOptions
from floodtide.config.segment_options import LINKAGES
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3, box_text, difference, grown, middle, parse_boxes, slices
from floodtide.data.no_label import cleared
from floodtide.data.patches import boxes_of
from floodtide.errors import Error, InvalidArgumentError, LockedError, StorageError
from floodtide.segment import linking, trained
from floodtide.segment.checkpoints import digest
from floodtide.segment.linking import STEP, AffinityOptions
from floodtide.segment.predict import predictor_of

_THRESHOLDS = tuple(round(STEP * n, 2) for n in range(2, 19))
_SMALL_SIZES = (0, 1000, 4000, 16000)
_MIN_SIZES = (1, 100)
_MOST_VOXELS = 1 << 20  # that are decoded: the choice takes a minute or two
_GROWN = 8  # voxels by which a box grows at a time
_DEFAULTS: dict[str, Any] = {
    "mirror": False,
    "method": "mean",
    "threshold": 0.8,
    "small_size": 4000,
    "min_size": 100,
}
_FEW_OBJECTS = 20  # of at least the default `min_size`: scores of fewer say too little
_SCORES = {"voi": "VOI", "rand": "adapted Rand error"}
_COLUMNS = (*_DEFAULTS, *_SCORES)
_MARK = '{"floodtide decoding": 1,'
_EXPECTED = "a choice of floodtide segment; remove the file for a new one"
_WAIT_S = 600.0  # for another job that chooses
MIRROR_MARGIN = 0.02
"""Share of its score by which mirroring must be better to be chosen.

Mirrored copies cost eight times the prediction. Where they helped, errors on FIB-25 fell by 8 to 27 %; thresholds from
0.3 to 0.6 differ by 7 %. So a gain below 2 % is not worth the time.
"""
THRESHOLD_MARGIN = 0.1
"""Share of the best score by which a higher threshold of the same linkage may be worse, and is chosen.

A validation box is small, and its score noisy. In the whole image, segments that one false merger joins are longer.
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
    """

    options: AffinityOptions = field(default_factory=AffinityOptions)
    mirror: tuple[int, ...] = ()
    source: str = ""


def decoding_of(checkpoint: Path, options: SegmentOptions) -> Decoding:
    """Return how `floodtide segment` decodes the affinities of a checkpoint; the first call chooses. Collective.

    Keys that `options` gives replace the choice. Rank 0 chooses, so all ranks have the same bits.
    """
    by = options.choose_by
    return world.from_rank_0(lambda: _settled(checkpoint, _given(options), by, choose=True))


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
    if given.keys() == _DEFAULTS.keys() and not predicted:
        why = "nothing is left to choose"
    elif reading.exists(checkpoint):
        kept, why = _kept(checkpoint, choose)
    row = _DEFAULTS | given
    if kept is not None:
        best = _best(kept["rows"], by, given.get("mirror"))
        boxes = f"the validation box {'; '.join(kept['boxes'])}"
        if math.isinf(best[by]):
            why = f"defaults, because no choice leaves a segment in {boxes}: train longer"
        else:
            row = {name: best[name] for name in _DEFAULTS} | given
            plain = next(one for one in kept["rows"] if _DEFAULTS.items() <= one.items())
            scores = f"{_SCORES[by]} {best[by]:.3f}, with the defaults {plain[by]:.3f}"
            why = f"chosen on {boxes} ({scores}), kept in {kept['file']}"
    if row["mirror"] and not predicted:
        settings = trained.stored_configuration(checkpoint)
        axes = () if settings is None else settings.augmentation.reflectable_axes
        if not axes:
            raise InvalidArgumentError(
                f'segment.mirror is "on", and the training of {checkpoint} reflected no axes, expected "off"'
            )
    shown = row | {"mirror": "on" if row["mirror"] else "off"}
    text = ", ".join(f"{name} {value}" for name, value in shown.items())
    fixed = [name for name in given if not predicted or name != "mirror"]
    said = f"{', '.join(fixed)} as given, " if fixed else ""
    options = AffinityOptions(**{name: row[name] for name in _DEFAULTS if name != "mirror"})
    return Decoding(options=options, mirror=axes, source=f"{text}: {said}{why}")


def _best(rows: list[Row], by: str, mirror: bool | None = None) -> Row:
    """Return the best candidate, with or without mirroring if given. Of equals, the nearest to the defaults wins.

    Mirroring wins only if it is better by MIRROR_MARGIN. Of thresholds within THRESHOLD_MARGIN, the highest wins.
    """
    rows = [one for one in rows if mirror is None or one["mirror"] == mirror] or rows
    usual = tuple(_DEFAULTS.items())

    def rank(row: Row) -> tuple[Any, ...]:
        far = [abs(row[name] - value) for name, value in usual if name != "method"]
        return row[by], far[0], LINKAGES.index(row["method"]), *far[1:]

    best = min(rows, key=rank)
    plain = min((row for row in rows if not row["mirror"]), key=rank, default=best)
    best = best if best[by] < (1.0 - MIRROR_MARGIN) * plain[by] else plain
    fixed = {name: best[name] for name in _DEFAULTS if name != "threshold"}.items()
    near = (1.0 + THRESHOLD_MARGIN) * best[by]
    alike = [row for row in rows if fixed <= row.items() and row[by] <= near]
    return max(alike, key=lambda row: row["threshold"])


def _kept(checkpoint: Path, choose: bool) -> tuple[dict[str, Any] | None, str]:
    """Return the choice that the run directory of a checkpoint keeps, a new one if `choose`; or None, and why."""
    settings, folder = trained.stored_configuration(checkpoint), checkpoint.absolute().parent
    if settings is None or not settings.task.affinity_offsets or folder.name != "checkpoints":
        return None, f"defaults, because {checkpoint} is in no run directory of affinities"
    file = folder.parent / DECODING
    network = trained.load(checkpoint)
    own = digest(network)
    known = _read(file)
    if known is not None and known["network"] == own:
        return known, ""
    if not choose:
        said = "keeps no choice" if known is None else f"keeps a choice of {known['checkpoint']}"
        return None, f"defaults, because {file.parent} {said}; `floodtide segment` makes one"
    try:
        check = starts_like("a choice of floodtide segment", _MARK.encode())
        with reserved("segment", file, check, wait_s=_WAIT_S):
            known = _read(file)
            if known is None or known["network"] != own:
                table = {"floodtide decoding": 1, "checkpoint": checkpoint.name, "network": own}
                replace_text(file, json.dumps(table | _chosen(settings, network, file)))
            return _read(file), ""
    except LockedError:
        raise
    except (StorageError, _Unknown) as error:  # cannot be written, or nothing to choose on
        return None, f"defaults, because {error}"


class _Unknown(Exception):
    """There is nothing to choose on."""


def _chosen(settings: Config, network: Any, file: Path) -> dict[str, Any]:
    """Decode the validation boxes with all candidates; return their boxes, columns and rows."""
    try:
        parts = list(_parts(settings))
        opened = [[Volume(one.image) for one in volume.inputs] for volume, _ in parts]
        truths = []
        for volume, (start, size) in parts:
            labels = Volume(volume.labels)
            own = labels.read((difference(start, volume.labels_box_start), size))
            truths.append(cleared(own, labels.name, settings.data.unlabelled))
    except Error as error:
        raise _Unknown(f"the validation data cannot be read: {error}") from None
    if not parts:
        raise _Unknown("the training has no validation.box or [[validation.volumes]] to choose on")
    least = _DEFAULTS["min_size"]
    sizes = [np.unique(one[one > 0], return_counts=True)[1] for one in truths]
    objects = sum(int(np.count_nonzero(one >= least)) for one in sizes)
    if objects < _FEW_OBJECTS:
        raise _Unknown(
            f"the validation box has {objects} objects of at least {least} voxels, expected {_FEW_OBJECTS} to choose by"
        )
    notes.show(f"segment: chooses threshold, linkage, sizes and mirroring, once ({file})")
    tables: dict[tuple[Any, ...], Any] = {}
    task: Any = settings.task
    axes = settings.augmentation.reflectable_axes
    mirrors = (False, True) if axes else (False,)
    total, done = len(parts) * len(mirrors), 0
    with bar("passes", "choose", line_every_s=10.0) as progress:
        work = zip(parts, opened, truths, strict=True)
        for number, ((volume, box), images, truth) in enumerate(work):
            around = _around(box, images[0].shape, task.affinity_offsets, len(parts))
            inside = slices(box, around[0])
            for mirror in mirrors:
                predictor = predictor_of(volume, network, task, axes if mirror else ())
                predicted = predictor.predicted(images, around)
                for method in LINKAGES:
                    for key, rows in _candidates(predicted, settings, method, truth, inside):
                        rows[:, :2] += (rows[:, :2] > 0) * np.uint64(number * _APART)
                        of_all = _core.evaluate.ContingencyTable()
                        tables.setdefault((mirror, *key), of_all).add_rows(rows)
                progress(done := done + 1, total)
    rows = []
    for key, table in tables.items():
        found = table.scores()
        scores = found["all_voi_split"] + found["all_voi_merge"], found["all_adapted_rand_error"]
        # To remove everything is no way to segment.
        rows.append([*key, *(scores if found["coverage"] > 0 else (math.inf, math.inf))])
    return {"boxes": [box_text(box) for _, box in parts], "columns": _COLUMNS, "rows": rows}


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


def _around(box: Box, shape: Vec3, offsets: Sequence[Vec3], boxes: int) -> Box:
    """Return a box of the image that is decoded to score `box`: its segments may meet outside of it.

    Args:
        shape: That of the image.
        offsets: Those of the affinities. A box does not grow along axes without one.
        boxes: Number of boxes that share the voxels.
    """
    by = as_vec3([_GROWN * any(offset[axis] for offset in offsets) for axis in range(3)])
    while (larger := grown(box, by, shape)) != box and boxes * math.prod(larger[1]) <= _MOST_VOXELS:
        box = larger
    return box


def _candidates(
    predicted: Any, settings: Config, method: str, truth: Any, inside: tuple[slice, slice, slice]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the values of each candidate except `mirror`, and the voxels of each pair of segment and object.

    Args:
        inside: The box of `truth` in the box of `predicted`.
    """
    found = list(linking.linked(predicted, settings.task.affinity_offsets, method, _THRESHOLDS))
    for index, (threshold, labels) in enumerate(found):
        table = _core.evaluate.ContingencyTable()
        table.add(np.ascontiguousarray(labels[inside]), np.ascontiguousarray(truth))
        pairs = table.rows()
        lower = found[index + 1 :][: len(linking.lower_thresholds(threshold))]
        sizes, groups = linking.groups_of(labels, (one for _, one in lower))
        for small in _SMALL_SIZES:
            segment = linking.merged_small(sizes, groups if small else [], small)
            voxels = np.bincount(segment, sizes, len(sizes))
            for least in _MIN_SIZES:
                rows, numbers = pairs.copy(), segment[pairs[:, 0].astype(np.intp)]
                rows[:, 0] = np.where(voxels[numbers] >= least, numbers, 0)
                yield (method, threshold, small, least), rows


def _read(file: Path) -> dict[str, Any] | None:
    """Return a choice, with rows as dictionaries; None if there is none."""
    if not reading.exists(file):
        return None
    table = reading.read_json(file, _EXPECTED)
    with reading.reading(file, _EXPECTED):
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in table["rows"]]
        texts = {name: table[name] for name in ("checkpoint", "network", "boxes")}
    return texts | {"rows": rows, "file": str(file)}
