# SPDX-License-Identifier: Apache-2.0
"""Pairwise resegmentation: two segments are erased and flooded again, to see whether they are one object."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.agglomerate.pairs import DecisionPoint, Pairs, decision_points
from floodtide.base.outputs import PathLike, reserved, unchecked
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.config import to_dict
from floodtide.config.segment_options import ResegmentOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, as_vec3, difference, intersection, is_inside, total
from floodtide.data.volumes import as_volume
from floodtide.errors import ShapeError
from floodtide.segment import Segmenter
from floodtide.segment.blocks import sole_job, voxels_of, work_on_ranks
from floodtide.segment.canvas import placed, read_labels
from floodtide.segment.flooding import Image
from floodtide.segment.identity import digest, options_of

_RULE = ("min_iou", "min_share", "max_deleted")  # the scores do not depend on them


@dataclass(frozen=True)
class Regrown:
    """What the flooding from one segment of a pair has found, within the analysis radius."""

    start: Vec3  # the last seed, in voxels of the image
    attempts: int  # seeds that were tried
    recovered: bool  # the object has enough of the segment of its seed
    voxels: int  # of the object: probability of at least 0.5
    deleted: int  # voxels that were object for a while, counted in each evaluation of the network
    share_of_a: float  # share of segment a that the object has
    share_of_b: float
    max_distance: float  # largest distance in the object to its surface, in nm

    @property
    def deleted_share(self) -> float:
        """Return `deleted` as a share of the voxels; infinite for an object without voxels."""
        return self.deleted / self.voxels if self.voxels else math.inf


@dataclass(frozen=True)
class PairScores:
    """Scores of two segments, within the analysis radius around their decision point."""

    voxels_a: int  # of the segments
    voxels_b: int
    max_distance_a: float  # largest distance in the segment to its surface, in nm
    max_distance_b: float
    from_a: Regrown | None  # None: there is no place for a seed, or the flooding was left out
    from_b: Regrown | None
    iou: float | None  # voxels of both floodings / voxels of either; None if one of them is missing
    network_calls: int

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> PairScores:
        """Return the scores of a dictionary with the names of the attributes, which `dataclasses.asdict` makes.

        Raises:
            TypeError, KeyError: If a name is missing, or one too many is there.
        """
        regrown = {
            name: None if row[name] is None else Regrown(**row[name])
            for name in ("from_a", "from_b")
        }
        return cls(**{**row, **regrown})


def resegment_pair(
    segmenter: Segmenter,
    volume: Image,
    segmentation: Image,
    point: DecisionPoint,
    options: ResegmentOptions | None = None,
) -> PairScores | None:
    """Flood two segments again and compare. Not collective.

    Around the decision point, both segments are erased; all other segments are obstacles. Each segment is flooded from
    the voxel that is farthest from its surface. If the object lacks a part of its own segment, further seeds are
    tried. The image ends at the faces of the volume and of the segmentation. Source: google/ffn, resegmentation.py.

    Args:
        segmenter: The network and the thresholds.
        volume: The image (z, y, x).
        segmentation: Labels that cover the surroundings of the point, placed as in `Segmenter.segment`.
        point: The pair; `point_zyx` in voxels of the segmentation.
        options: How the pair is flooded; None: the defaults.

    Returns:
        The scores; None if a segment has no voxel within the analysis radius, or if no field of view fits.
    """
    options = options or ResegmentOptions()
    volume, segmentation = as_volume(volume), as_volume(segmentation)
    fov, offset = segmenter.model.fov, placed(segmentation, volume)
    centre = total(point.point_zyx, offset)
    radius = options.radius or as_vec3([3 * size // 2 + 1 for size in fov])
    box = _around(centre, radius, volume.shape, offset, segmentation.shape)
    if not segmenter.fits(volume, box):
        return None
    flooder, image = segmenter.canvas(volume, box)
    labels = read_labels(segmentation, "the segmentation", image)
    ids = np.ascontiguousarray(np.maximum(labels, 0), dtype=np.uint64)
    local = difference(centre, box[0])
    analysis = options.analysis_radius or fov
    near = ids[tuple(slice(max(0, c - r), c + r + 1) for c, r in zip(local, analysis, strict=True))]
    if not ((near == point.a).any() and (near == point.b).any()):
        return None
    row = _core.agglomerate.resegment_pair(
        flooder,
        ids,
        point.a,
        point.b,
        local,
        list(analysis),
        list(options.exclusion_radius or segmenter.model.deltas),
        None if options.point_exclusion is None else list(options.point_exclusion),
        options.attempts,
        options.recovery,
        list(voxel_size(options, volume)),
        options.terminate_early,
    )
    segmenter.network_calls += row["network_calls"]
    for name in ("from_a", "from_b"):
        if row[name] is not None:
            row[name]["start"] = total(row[name]["start"], box[0])
    return PairScores.from_dict(row)


def resegment_on_ranks(
    directory: PathLike,
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
        start = placed(segmentation, volume)
        if not is_inside((start, segmentation.shape), volume.shape):
            raise ShapeError(
                f"resegment: {segmentation.name} has {segmentation.shape} voxels from {start}, expected a segmentation"
                f" inside the image of {volume.shape}"
            )
        known, settings = None, {}
        if world.rank() == 0:
            settings = _settings(segmenter, volume, segmentation, options)
            known = Pairs.prepare(directory, settings)
    with sole_job("resegment", directory):
        if not allgather_object(known is not None)[0]:
            sizes = voxel_size(options, volume)
            points = decision_points(
                segmentation,
                voxel_size=sizes,
                max_distance=options.max_distance or 3.0 * max(sizes),
            )
            with world.agreed():
                if world.rank() == 0:
                    Pairs(Path(directory), points, settings).save()
        with world.agreed():
            pairs = Pairs.open(directory)

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
                    scores = resegment_pair(segmenter, volume, segmentation, point, options)
                    rows.append(None if scores is None else dataclasses.asdict(scores))
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
    return {
        "image": volume.name,
        "segmentation": segmentation.name,
        "voxels": voxels_of(volume, segmenter.options) | voxels_of(segmentation),
        "network": digest(segmenter.model),
        "segment": options_of(segmenter.options, segmenter.model),
        "resegment": {name: value for name, value in to_dict(options).items() if name not in _RULE},
    }


def voxel_size(options: ResegmentOptions, volume: Volume) -> tuple[float, float, float]:
    """Return the edges of a voxel (z, y, x) in nm; 1 if neither the options nor the volume say them."""
    return options.voxel_size or volume.geometry.voxel_size_nm or (1.0, 1.0, 1.0)


def _around(
    centre: Vec3, radius: Vec3, image_shape: Sequence[int], start: Vec3, shape: Sequence[int]
) -> Box:
    """Return the box around a voxel that lies in the image and in the segmentation."""
    around = difference(centre, radius), total(total(radius, radius), (1, 1, 1))
    box = intersection(around, ((0, 0, 0), as_vec3(image_shape)))
    box = box and intersection(box, (start, as_vec3(shape)))
    if box is None or not is_inside((difference(centre, box[0]), (1, 1, 1)), box[1]):
        raise ShapeError(f"resegment: the decision point {centre} is outside of the segmentation")
    return box
