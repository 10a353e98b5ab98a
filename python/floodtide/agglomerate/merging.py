# SPDX-License-Identifier: Apache-2.0
"""From the segments of a flood-filling network to objects: which resegmentations agree, and the merged segments."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, config
from floodtide.agglomerate.pairs import Pairs
from floodtide.agglomerate.resegmenting import PairScores, resegment_on_ranks
from floodtide.base import reading
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import files_in, files_of, refuse_inputs
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config.segment_options import ResegmentOptions
from floodtide.data import Box, Volume
from floodtide.data.boxes import Progress, is_inside
from floodtide.data.copies import write_blocks
from floodtide.data.formats.table import container, format_of
from floodtide.data.formats.writers import Plan
from floodtide.data.volumes import note_place, require_same_size
from floodtide.segment import Segmenter
from floodtide.segment.canvas import placed
from floodtide.segment.commands import prepared
from floodtide.segment.flooding import call_rate

TABLE = "pairs.csv"
EQUIVALENCES = "equivalences.csv"
_COMMAND = "agglomerate"


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
        options, volume, _, _ = prepared(file, settings)
        folder = pairs or str(container(segmentation).with_suffix(".pairs"))
        inputs: list[str | Path] = [
            *files_of([segmentation, *options.volumes]),
            *files_in(options.checkpoint),
        ]
        refuse_inputs(_COMMAND, [folder], inputs)
        if out is not None:
            format_of(out)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        labels = Volume(segmentation)
        require_same_size(_COMMAND, labels, volume)
        start = placed(labels, volume)
        if is_inside((start, labels.shape), volume.shape):  # else it is refused
            note_place(_COMMAND, labels, volume, start)
    with bar("pairs", _COMMAND, line_every_s=10.0, note=call_rate(segmenter)) as progress:
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
            scores = [one for one in merged.scores if one is not None]
            report = {
                "pairs": len(found.points),
                "scored": len(scores),
                "merged_pairs": sum(merged.merged),
                "merged_segments": len(merged.ids),
                "objects_of_them": len(set(merged.objects.tolist())),
                "network_calls": sum(one.network_calls for one in scores),
                "folder": folder,
                "out": out,
            }
    return report


@dataclass(frozen=True)
class Merged:
    """Which segments belong to one object.

    Attributes:
        scores: The scores of all pairs, in the order of `Pairs.points`; None for a pair without scores.
        merged: Whether the rule merges each of these pairs.
        ids: The segments that are merged with another one, ascending.
        objects: The object of each of them: the smallest id of its segments.
    """

    scores: list[PairScores | None]
    merged: list[bool]
    ids: NDArray[np.uint64]
    objects: NDArray[np.uint64]


def should_merge(scores: PairScores, options: ResegmentOptions) -> bool:
    """Return True if the scores say that two segments are one object.

    Both floodings must have found the same object (intersection over union), each must have found both segments, and
    at least one of them must have taken back few voxels. Source: Januszewski et al., 2018, and google/ffn.
    """
    a, b = scores.from_a, scores.from_b
    if a is None or b is None or scores.iou is None:
        return False
    return (
        scores.iou > options.min_iou
        and min(a.share_of_a, a.share_of_b, b.share_of_a, b.share_of_b) > options.min_share
        and min(a.deleted_share, b.deleted_share) < options.max_deleted
    )


def merge(pairs: Pairs, options: ResegmentOptions) -> Merged:
    """Apply the rule of the options to all pairs, and write the tables pairs.csv and equivalences.csv. Not collective.

    Raises:
        InvalidArgumentError: If a batch of pairs is not flooded yet.
        InvalidFileError: If a file of the directory is damaged.
        StorageError: If a table cannot be written.
    """
    with reading.reading(pairs.directory, "scores of pairs"):
        scores = [None if row is None else PairScores.from_dict(row) for row in pairs.read_scores()]
        merged = [row is not None and should_merge(row, options) for row in scores]
    same = [(p.a, p.b) for p, yes in zip(pairs.points, merged, strict=True) if yes]
    ids = np.unique(np.array(same, np.uint64).reshape(-1, 2))
    rows = np.searchsorted(ids, np.array(same, np.uint64).reshape(-1, 2)).astype(np.int64)
    roots = _core.segment.connected(len(ids), np.ascontiguousarray(rows))
    found = Merged(scores, merged, ids, ids[roots])
    _write_tables(pairs, found)
    return found


def write_merged(
    segmentation: Volume, merged: Merged, destination: str, progress: Progress | None = None
) -> Volume:
    """Write a segmentation with the ids of objects, block by block, to a volume of any format. Not collective."""

    def read(box: Box) -> NDArray[Any]:
        labels = segmentation.read(box)
        if len(merged.ids) == 0:
            return labels
        names = np.maximum(labels, 0).astype(np.uint64)
        place = np.minimum(np.searchsorted(merged.ids, names), len(merged.ids) - 1)
        changed = merged.ids[place] == names
        return np.where(changed, merged.objects[place].astype(labels.dtype), labels)

    plan = Plan(
        shape=segmentation.shape,
        dtype=segmentation.dtype,
        geometry=segmentation.whole,
        command="floodtide agglomerate",
        notes={"segmentation": segmentation.name},
    )
    inputs = files_of([segmentation.name])
    return write_blocks(destination, plan, read, inputs=inputs, progress=progress)


def _write_tables(pairs: Pairs, found: Merged) -> None:
    regrown = ["start", "attempts", "voxels", "deleted", "share_of_a", "share_of_b"]
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(
        ["a", "b", "z", "y", "x", "distance", "merged", "iou", "voxels_a", "voxels_b"]
        + [f"from_{side}_{name}" for side in "ab" for name in regrown]
    )
    for point, scores, merged in zip(pairs.points, found.scores, found.merged, strict=True):
        row: list[Any] = [point.a, point.b, *point.point_zyx, point.distance, int(merged)]
        if scores is not None:
            row += [scores.iou, scores.voxels_a, scores.voxels_b]
            for side in (scores.from_a, scores.from_b):
                values = {} if side is None else dataclasses.asdict(side)
                if side is not None:
                    values["start"] = " ".join(map(str, side.start))
                row += [values.get(name, "") for name in regrown]
        writer.writerow(row)
    replace_bytes(pairs.directory / TABLE, table.getvalue().encode())
    lines = [f"{a},{b}" for a, b in zip(found.ids, found.objects, strict=True)]
    text = "\n".join(["segment,object", *lines, ""])
    replace_bytes(pairs.directory / EQUIVALENCES, text.encode())
