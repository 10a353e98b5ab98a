# SPDX-License-Identifier: Apache-2.0
"""From the segments of a flood-filling network to objects: pairs are erased and flooded again, to see which are one.

Pairs are flooded in batches. The scores of a batch are a file that appears when it is complete (docs/formats.md). So
any number of processes can work on one directory, and after a crash only the batches under way are lost.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, config
from floodtide.base import limits, reading
from floodtide.base.files import make_folder, replace_text
from floodtide.base.outputs import WAIT_S, files_in, files_of, refuse_inputs, reserved, unchecked
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.config.segment_options import ResegmentOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, difference, grown, intersection, is_inside, slices, total
from floodtide.data.copies import write_blocks
from floodtide.data.formats.table import container, format_of
from floodtide.data.formats.writers import Plan, blocks
from floodtide.data.volumes import as_volume, note_place, require_same_size
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError
from floodtide.segment import Segmenter
from floodtide.segment.blocks import voxels_of, work_on_ranks
from floodtide.segment.canvas import placed, read_canvas, read_labels
from floodtide.segment.checkpoints import digest, options_of, other_work
from floodtide.segment.commands import Flooding
from floodtide.segment.flooding import Image

_COMMAND = "agglomerate"
_COLUMNS = ("a", "b", "z", "y", "x", "distance", "merged")
_RULE = ("min_iou", "min_share", "max_deleted")  # the scores do not depend on them
PLAN = "pairs.json"
_FORMAT = "floodtide pairs 1"
_EXPECTED = "the plan of a resegmentation"
_BATCH = 16  # pairs
_BLOCK = 256  # voxels along each axis of a block, without what surrounds it
# Of a block: labels as they are stored and as 64 bits, grown labels, distances, queue.
_BYTES_PER_VOXEL = 60

Scores = dict[str, Any]
"""Scores of a pair, as `resegment_pair` returns them."""


class DecisionPoint(NamedTuple):
    """Where two segments come closest to each other."""

    a: int  # the smaller id
    b: int
    point_zyx: Vec3  # a voxel between the segments, in voxels of the segmentation
    distance: float  # about half of the gap between the segments, in nm


def prepare(directory: Path, settings: Mapping[str, Any]) -> None:
    """Note in a new directory what all scores depend on. Refuse a directory of other scores, or with other files.

    Args:
        settings: Image, segmentation, network and options, as JSON values.

    Raises:
        InvalidArgumentError: If the directory is for something else.
        InvalidFileError: If its plan is damaged.
    """
    make_folder(directory)
    path, wanted = directory / PLAN, json.loads(json.dumps(settings))
    with reserved("resegment", path, unchecked, wait_s=WAIT_S):
        if not reading.exists(path):
            if any(not name.startswith(".") for name in os.listdir(directory)):
                raise InvalidArgumentError(
                    f"{directory}: has files but no {PLAN}, expected a new directory or one of a resegmentation"
                )
            replace_text(path, json.dumps({"format": _FORMAT, "settings": wanted}))
    stored = reading.read_json(path, _EXPECTED)
    with reading.reading(path, _EXPECTED):
        if stored["format"] != _FORMAT:
            raise InvalidFileError(f"{path}: format {stored['format']!r}, expected {_FORMAT!r}")
        found = stored["settings"]
    if found != wanted:
        raise other_work(f"{directory}: its pairs were flooded", "settings", wanted, found)


@dataclass(eq=False)
class Pairs:
    """Pairs of segments, and the directory of their scores. A file that cannot be written is a StorageError."""

    directory: Path
    points: list[DecisionPoint]

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self.points) // _BATCH)

    def path(self, batch: int) -> Path:
        """Return the file of the scores of a batch."""
        return self.directory / f"scores_{batch:06d}.json"

    def done(self, batch: int) -> bool:
        """Return True if the scores of a batch are there."""
        return self.path(batch).exists()

    def of_batch(self, batch: int) -> list[DecisionPoint]:
        """Return the pairs of a batch. Pairs of one segment are in different batches, which take similar times."""
        return self.points[batch :: len(self)]

    def write_scores(self, batch: int, scores: Iterable[Scores | None]) -> None:
        """Write the scores of the pairs of a batch; None for a pair that has none."""
        pairs = zip(self.of_batch(batch), scores, strict=True)
        rows = [{"a": point.a, "b": point.b, "scores": row} for point, row in pairs]
        replace_text(self.path(batch), json.dumps(rows, indent=1))

    def read_scores(self) -> list[Scores | None]:
        """Return the scores of all pairs, in the order of `points`.

        Raises:
            InvalidFileError: If a batch of pairs is not flooded yet, or its file is damaged.
        """
        found: list[Scores | None] = [None] * len(self.points)
        for batch in range(len(self)):
            path = self.path(batch)
            rows = reading.read_json(path, "scores of pairs")
            with reading.reading(path, "scores of pairs"):
                pairs = [(row["a"], row["b"]) for row in rows]
                if pairs != [(point.a, point.b) for point in self.of_batch(batch)]:
                    raise InvalidFileError(f"{path}: has the scores of other pairs")
                found[batch :: len(self)] = [row["scores"] for row in rows]
        return found


def decision_points(
    segmentation: Volume | NDArray[np.integer[Any]],
    *,
    voxel_size: Sequence[float] = (1.0, 1.0, 1.0),
    max_distance: float,
) -> list[DecisionPoint]:
    """Return a decision point for each pair of segments that come close, in the order of their ids. Collective.

    All segments grow at the same speed into the empty space, up to `max_distance`. Where two of them touch with the
    smallest mean distance, at the place nearest to the centroid of all such places, is the decision point of the pair.
    The volume is read in blocks, which the ranks share; the result does not depend on their number. If a pair comes
    close in several blocks, the place with the smallest distance counts. Source: google/ffn, decision_point.py.

    Args:
        segmentation: Labels (z, y, x) of integers; values <= 0 are unsegmented voxels.
        voxel_size: Edges of a voxel (z, y, x) in nm, or in another unit.
        max_distance: In the unit of `voxel_size`.
    """
    volume = as_volume(segmentation)
    if not np.issubdtype(volume.dtype, np.integer):
        raise InvalidArgumentError(
            f"decision points: {volume.name} holds {volume.dtype}, expected integers"
        )
    most = int(limits.EXTENT.maximum)
    halo = [min(math.ceil(max_distance / edge) + 1, most) for edge in voxel_size]
    cores = list(blocks(volume.shape, (_BLOCK, _BLOCK, _BLOCK), _BLOCK**3))
    found = []
    with world.agreed():
        for core in cores[world.rank() :: world.size()]:
            found += _in_block(volume, core, halo, voxel_size, max_distance)
    nearest: dict[tuple[int, int], DecisionPoint] = {}
    everyone = [point for points in allgather_object(found) for point in points]
    for point in sorted(everyone, key=lambda one: (one.a, one.b, one.distance, one.point_zyx)):
        nearest.setdefault((point.a, point.b), point)
    return list(nearest.values())


def _in_block(
    volume: Volume, core: Box, halo: Sequence[int], voxel_size: Sequence[float], max_distance: float
) -> list[DecisionPoint]:
    low, size = box = grown(core, halo, volume.shape)
    limits.require_memory(
        f"decision points: {' x '.join(map(str, size))} voxels need",
        _BYTES_PER_VOXEL * math.prod(size),
        "a smaller max_distance",
    )
    labels = np.ascontiguousarray(np.maximum(volume.read(box), 0), dtype=np.uint64)
    start = difference(core[0], low)
    rows = _core.agglomerate.decision_points(labels, list(voxel_size), max_distance, start, core[1])
    return [DecisionPoint(a, b, total(zyx, low), distance) for a, b, zyx, distance in rows]


def resegment(
    file: str,
    segmentation: str,
    out: str | None = None,
    *,
    pairs: str | None = None,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Flood every pair of neighbouring segments again, and merge a pair that is one object. Collective.

    The same call continues after a crash, on any number of ranks.

    Args:
        file: Name of the configuration (TOML). Its table [segment] names image, network and thresholds, and
            [resegment] has the rule.
        segmentation: Name of a volume of segments of the whole image.
        out: Name of the volume of objects to write; None: only scores and merges are written.
        pairs: Folder for the scores of all pairs and the merges; None: beside the segmentation, with its name
            without suffix and `.pairs`.
        overrides: Changed values, as `["resegment.min_iou=0.7"]`.

    Returns:
        The report, empty on all ranks but 0: `pairs`, `scored`, `merged_pairs`, `merged_segments`, `objects_of_them`,
        `network_calls`, `folder`, `out`.

    Raises:
        floodtide.errors.Error: If an input cannot be read or does not fit, or an output cannot be written.
    """
    with world.agreed():
        settings = config.load(file, overrides)
        work = Flooding.load(file, settings)
        segmenter, volume = work.segmenter, work.image
        folder = Path(pairs) if pairs else container(segmentation).with_suffix(".pairs")
        inputs: list[str | Path] = [*files_of([segmentation]), *work.inputs]
        inputs += files_in(work.options.checkpoint)
        refuse_inputs(_COMMAND, [folder], inputs)
        if out is not None:
            format_of(out)
        labels = Volume(segmentation)
        require_same_size(_COMMAND, labels, volume)
        start = placed(labels, volume)
        if not is_inside((start, labels.shape), volume.shape):
            raise ShapeError(
                f"{_COMMAND}: {labels.name} has {labels.shape} voxels from {start}, expected a segmentation inside the"
                f" image of {volume.shape}"
            )
        note_place(_COMMAND, labels, volume, start)
    with bar("pairs", _COMMAND, line_every_s=10.0) as progress:
        found = resegment_on_ranks(
            folder, segmenter, volume, labels, settings.resegment, progress=progress
        )
    report: dict[str, Any] = {}
    with world.agreed():
        if world.rank() == 0:
            merged = merge(found, settings.resegment)
            if out is not None:
                with bar("voxels", _COMMAND) as progress:
                    write_merged(labels, merged, out, progress)
            report = {
                "pairs": len(found.points),
                "scored": merged.scored,
                "merged_pairs": sum(merged.merged),
                "merged_segments": len(merged.objects),
                "objects_of_them": len(set(merged.objects.values())),
                "network_calls": merged.network_calls,
                "folder": str(folder),
                "out": out,
            }
    return report


def resegment_pair(
    segmenter: Segmenter,
    volume: Image,
    segmentation: Image,
    point: DecisionPoint,
    options: ResegmentOptions,
) -> Scores | None:
    """Flood two segments again and compare, within the analysis radius around their decision point. Not collective.

    Around the decision point, both segments are erased; all other segments are obstacles. Each segment is flooded from
    the voxel that is farthest from its surface. If the object lacks a part of its own segment, further seeds are
    tried. The image ends at the faces of the volume and of the segmentation. Source: google/ffn, resegmentation.py.

    Args:
        segmenter: The network and the thresholds.
        volume: The image (z, y, x).
        segmentation: Labels that cover the surroundings of the point, placed as in `Segmenter.segment`.
        point: The pair; `point_zyx` in voxels of the segmentation.
        options: How the pair is flooded.

    Returns:
        The scores as JSON values; None if a segment has no voxel near the point, or if no field of view fits.
        `voxels_a`, `voxels_b`: of the segments. `max_distance_a`, `max_distance_b`: largest distance in nm in the
        segment to its surface. `iou`: voxels of both floodings divided by voxels of either; None if one is missing.
        `network_calls`. `from_a`, `from_b`: of the floodings; None if there is no place for a seed, or the flooding was
        left out. These have `start`, the last seed in voxels of the image; `attempts`, seeds tried; `recovered`, the
        object has enough of its segment; `voxels` of the object (probability of at least 0.5); `deleted`, voxels that
        were object for a while, counted in each network call; `share_of_a` and `share_of_b`, shares of the segments
        that the object has; `max_distance`, in the object.
    """
    volume, segmentation = as_volume(volume), as_volume(segmentation)
    fov, offset = segmenter.model.fov, placed(segmentation, volume)
    centre = total(point.point_zyx, offset)
    radius = options.radius or [3 * size // 2 + 1 for size in fov]
    around = grown((centre, (1, 1, 1)), radius, volume.shape)
    box = intersection(around, (offset, segmentation.shape))
    if box is None:
        return None
    without = replace(segmenter.options, initial="")
    image = read_canvas(volume, box, without, fov)
    if min(difference(image.voxels.shape, fov)) < 0:
        return None
    labels = read_labels(segmentation, "the segmentation", image)
    ids = np.ascontiguousarray(np.maximum(labels, 0), dtype=np.uint64)
    local = difference(centre, box[0])
    analysis = options.analysis_radius or fov
    near = ids[slices(grown((local, (1, 1, 1)), analysis, ids.shape))]
    if not ((near == point.a).any() and (near == point.b).any()):
        return None
    row = _core.agglomerate.resegment_pair(
        segmenter.flooder(image),
        ids,
        point.a,
        point.b,
        local,
        list(analysis),
        list(segmenter.model.deltas),  # a further seed is farther from the earlier ones
        None,
        options.attempts,
        options.recovery,
        list(_voxel_size(options, volume)),
        options.terminate_early,
    )
    segmenter.network_calls += row["network_calls"]
    for side in (row["from_a"], row["from_b"]):
        if side is not None:
            side["start"] = list(total(side["start"], box[0]))
    return dict(row)


def resegment_on_ranks(
    directory: Path,
    segmenter: Segmenter,
    volume: Volume,
    segmentation: Volume,
    options: ResegmentOptions,
    progress: Progress | None = None,
) -> Pairs:
    """Find all pairs of segments that come close, flood them again on all ranks, and return them scored. Collective.

    A rank that is done takes the next batch of pairs. An error on one rank ends the job. What was stored until then
    stays, and the same call continues.

    Args:
        directory: A directory that is new, or was made with the same arguments.
        segmentation: Its segmentation, placed as in `Segmenter.segment`.
        progress: Called as progress(pairs done, pairs) on rank 0.
    """
    with world.agreed():
        if world.rank() == 0:
            prepare(directory, _settings(segmenter, volume, segmentation, options))
    sizes = _voxel_size(options, volume)
    most = options.max_distance or 3.0 * max(sizes)
    points = decision_points(segmentation, voxel_size=sizes, max_distance=most)
    pairs = Pairs(directory, points)

    def shown(under_way: int) -> None:
        """Count the pairs of all stored batches, and the pairs that this rank has flooded since."""
        if progress is not None and world.rank() == 0:
            stored = sum(len(pairs.of_batch(n)) for n in range(len(pairs)) if pairs.done(n))
            progress(min(stored + under_way, len(pairs.points)), len(pairs.points))

    def flood(batch: int) -> bool:
        with reserved("resegment", pairs.path(batch), unchecked):
            if pairs.done(batch):
                return False
            rows = []
            for flooded, point in enumerate(pairs.of_batch(batch), start=1):
                rows.append(resegment_pair(segmenter, volume, segmentation, point, options))
                shown(flooded)
            pairs.write_scores(batch, rows)
        shown(0)
        return True

    work_on_ranks(range(len(pairs)), pairs.done, flood)
    return pairs


def _settings(
    segmenter: Segmenter, volume: Volume, segmentation: Volume, options: ResegmentOptions
) -> dict[str, Any]:
    """Return what the scores depend on, as JSON values."""
    kept = {key: value for key, value in config.to_dict(options).items() if key not in _RULE}
    return {
        "image": volume.name,
        "segmentation": segmentation.name,
        "voxels": voxels_of(volume, segmenter.options) | voxels_of(segmentation),
        "network": digest(segmenter.model),
        "segment": options_of(segmenter.options, segmenter.model),
        "resegment": kept,
    }


def _voxel_size(options: ResegmentOptions, volume: Volume) -> tuple[float, float, float]:
    """Return the edges of a voxel (z, y, x) in nm; 1 if neither the options nor the volume say them."""
    return options.voxel_size or volume.geometry.voxel_size_nm or (1.0, 1.0, 1.0)


class Merged(NamedTuple):
    """Which segments belong to one object."""

    merged: list[bool]  # whether the rule merges each pair, in the order of `Pairs.points`
    objects: dict[int, int]  # {segment that is merged: smallest id of the object's segments}
    scored: int  # pairs with scores
    network_calls: int  # for these scores


def should_merge(scores: Mapping[str, Any], options: ResegmentOptions) -> bool:
    """Return True if the scores say that two segments are one object.

    Both floodings must have found the same object (intersection over union), each must have found both segments, and
    at least one of them must have taken back few voxels. Source: Januszewski et al., 2018, and google/ffn.
    """
    if scores["iou"] is None:
        return False
    both = scores["from_a"], scores["from_b"]
    share = min(side[name] for side in both for name in ("share_of_a", "share_of_b"))
    deleted = min(side["deleted"] / max(1, side["voxels"]) for side in both)
    return bool(
        scores["iou"] > options.min_iou
        and share > options.min_share
        and deleted < options.max_deleted
    )


def merge(pairs: Pairs, options: ResegmentOptions) -> Merged:
    """Apply the rule of the options to all pairs, and write the tables pairs.csv and equivalences.csv. Not collective.

    Raises:
        InvalidFileError: If a file of the directory is missing or damaged.
        StorageError: If a table cannot be written.
    """
    scores = pairs.read_scores()
    with reading.reading(pairs.directory, "scores of pairs"):
        merged = [row is not None and should_merge(row, options) for row in scores]
        calls = [int(row["network_calls"]) for row in scores if row is not None]
        _write_table(pairs, scores, merged)
    same = [(p.a, p.b) for p, yes in zip(pairs.points, merged, strict=True) if yes]
    ids, rows = np.unique(np.array(same, np.uint64).reshape(-1, 2), return_inverse=True)
    roots = _core.segment.connected(len(ids), rows.reshape(-1, 2).astype(np.int64))
    objects = dict(zip(ids.tolist(), ids[roots].tolist(), strict=True))
    lines = [f"{a},{b}" for a, b in objects.items()]
    replace_text(pairs.directory / "equivalences.csv", "\n".join(["segment,object", *lines, ""]))
    return Merged(merged, objects, len(calls), sum(calls))


def _write_table(pairs: Pairs, found: Sequence[Scores | None], merged: Sequence[bool]) -> None:
    rows: list[dict[str, Any]] = []
    for point, scores, yes in zip(pairs.points, found, merged, strict=True):
        known = (point.a, point.b, *point.point_zyx, point.distance, int(yes))
        row: dict[str, Any] = dict(zip(_COLUMNS, known, strict=True))
        for name, value in (scores or {}).items():
            if isinstance(value, dict):
                row |= {f"{name}_{key}": one for key, one in value.items()}
            elif value is not None:
                row[name] = value
        rows.append(row)
    table = io.StringIO()
    names = dict.fromkeys([*_COLUMNS, *(name for row in rows for name in row)])
    writer = csv.DictWriter(table, list(names))
    writer.writeheader()
    writer.writerows(rows)
    replace_text(pairs.directory / "pairs.csv", table.getvalue())


def write_merged(
    segmentation: Volume, merged: Merged, destination: str, progress: Progress | None = None
) -> Volume:
    """Write a segmentation with the ids of objects, block by block, to a volume of any format. Not collective."""

    def read(box: Box) -> NDArray[Any]:
        ids, place = np.unique(segmentation.read(box), return_inverse=True)
        new = [merged.objects.get(one, one) for one in ids.tolist()]
        return np.array(new, ids.dtype)[place].reshape(box[1])

    plan = Plan(
        shape=segmentation.shape,
        dtype=segmentation.dtype,
        geometry=segmentation.whole,
        command="floodtide agglomerate",
        notes={"segmentation": segmentation.name},
    )
    inputs = files_of([segmentation.name])
    return write_blocks(destination, plan, read, inputs=inputs, progress=progress)
