# SPDX-License-Identifier: Apache-2.0
"""Pairs of segments that come close, and a directory with their scores when flooded again (docs/formats.md).

Pairs are flooded in batches. The scores of a batch are a file that appears when it is complete. So any number of
processes can work on one directory, and after a crash only the batches under way are lost.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits, reading
from floodtide.base.files import make_folder, replace_bytes
from floodtide.base.options import Arguments
from floodtide.base.outputs import PathLike
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import difference, grown, total
from floodtide.data.formats.writers import blocks
from floodtide.data.volumes import as_volume
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.segment.identity import other_work

PLAN = "pairs.json"
_FORMAT = "floodtide pairs 1"
_EXPECTED = "the plan of a resegmentation"
_BATCH = 16  # pairs
_BLOCK = 256  # voxels along each axis of a block, without what surrounds it
# Of a block: labels as they are stored and as 64 bits, grown labels, distances, queue.
_BYTES_PER_VOXEL = 60
_CHECKED = Arguments(voxel_size=limits.VOXEL_SIZE, max_distance=limits.NANOMETRES)


class DecisionPoint(NamedTuple):
    """Where two segments come closest to each other."""

    a: int  # the smaller id
    b: int
    point_zyx: Vec3  # a voxel between the segments, in voxels of the segmentation
    distance: float  # about half of the gap between the segments, in nm


@dataclass(eq=False)
class Pairs:
    """Pairs of segments and their scores, in a directory. A file that cannot be written is a StorageError.

    Attributes:
        points: The pairs, with their decision points.
        settings: What all scores have in common: image, segmentation, network and options, as JSON values.
    """

    directory: Path
    points: list[DecisionPoint]
    settings: dict[str, Any]

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self.points) // _BATCH)

    @classmethod
    def open(cls, directory: PathLike) -> Pairs:
        """Open a directory that `create` has made.

        Raises:
            InvalidFileError: If there is no plan in it, or the plan is damaged.
        """
        path = Path(directory) / PLAN
        plan = reading.read_json(path, _EXPECTED)
        with reading.reading(path, _EXPECTED):
            if plan["format"] != _FORMAT:
                raise InvalidFileError(f"{path}: format {plan['format']!r}, expected {_FORMAT!r}")
            points = [
                DecisionPoint(int(a), int(b), (int(z), int(y), int(x)), float(distance))
                for a, b, z, y, x, distance in plan["points"]
            ]
            for point in points:
                if not 0 < point.a < point.b < 2**63:
                    raise InvalidFileError(
                        f"{path}: pair ({point.a}, {point.b}), expected two ids, the smaller one first"
                    )
            return cls(path.parent, points, dict(plan["settings"]))

    @classmethod
    def prepare(cls, directory: PathLike, settings: Mapping[str, Any]) -> Pairs | None:
        """Return the pairs that a directory has for these settings. Make a new directory, and return None then."""
        folder = Path(directory)
        make_folder(folder)
        with reading.reading(folder, "a folder of a resegmentation"):
            others = [name for name in os.listdir(folder) if not name.startswith(".")]
        if not reading.exists(folder / PLAN):
            if others:
                raise InvalidArgumentError(
                    f"{directory}: has files but no {PLAN}, expected a new directory or one of a resegmentation"
                )
            return None
        pairs = cls.open(folder)
        wanted = json.loads(json.dumps(settings))
        if pairs.settings != wanted:
            begun = f"{directory}: its pairs were flooded"
            how = "expected the same, or another directory"
            raise other_work(begun, "settings", wanted, pairs.settings, how)
        return pairs

    def save(self) -> None:
        """Write the plan."""
        rows = [[p.a, p.b, *p.point_zyx, p.distance] for p in self.points]
        plan = {"format": _FORMAT, "settings": self.settings, "points": rows}
        replace_bytes(self.directory / PLAN, json.dumps(plan).encode())

    def path(self, batch: int) -> Path:
        """Return the file of the scores of a batch."""
        return self.directory / f"scores_{batch:06d}.json"

    def done(self, batch: int) -> bool:
        """Return True if the scores of a batch are there."""
        return self.path(batch).exists()

    def missing(self) -> list[int]:
        """Return the numbers of the batches without scores."""
        return [batch for batch in range(len(self)) if not self.done(batch)]

    def of_batch(self, batch: int) -> list[DecisionPoint]:
        """Return the pairs of a batch. Pairs of one segment are in different batches, which take similar times."""
        return self.points[batch :: len(self)]

    def write_scores(self, batch: int, scores: Iterable[Mapping[str, Any] | None]) -> None:
        """Write the scores of the pairs of a batch; None for a pair that has none."""
        rows = [
            {"a": point.a, "b": point.b, "scores": None if row is None else dict(row)}
            for point, row in zip(self.of_batch(batch), scores, strict=True)
        ]
        replace_bytes(self.path(batch), json.dumps(rows, indent=1).encode())

    def read_scores(self) -> list[dict[str, Any] | None]:
        """Return the scores of all pairs, in the order of `points`."""
        if missing := self.missing():
            raise InvalidArgumentError(
                f"{self.directory}: {len(missing)} of {len(self)} batches of pairs are not flooded yet, the first is"
                f" {self.path(missing[0]).name}; expected all"
            )
        found: list[dict[str, Any] | None] = [None] * len(self.points)
        for batch in range(len(self)):
            path = self.path(batch)
            rows = reading.read_json(path, "scores of pairs")
            with reading.reading(path, "scores of pairs"):
                pairs = [(row["a"], row["b"]) for row in rows]
                if pairs != [(point.a, point.b) for point in self.of_batch(batch)]:
                    raise InvalidFileError(f"{path}: has the scores of other pairs than {PLAN}")
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
    _CHECKED.check("decision points", voxel_size=list(voxel_size), max_distance=max_distance)
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
    for point in sorted(point for points in allgather_object(found) for point in points):
        pair = point.a, point.b
        best = nearest.get(pair)
        if best is None or (point.distance, point.point_zyx) < (best.distance, best.point_zyx):
            nearest[pair] = point
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
    return [
        DecisionPoint(a, b, total(point_zyx, low), distance) for a, b, point_zyx, distance in rows
    ]
