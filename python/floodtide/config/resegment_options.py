# SPDX-License-Identifier: Apache-2.0
"""The [resegment] section of a configuration: which segments are flooded again, and which of them are merged."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.base import limits
from floodtide.base.options import Checked, option


@dataclass(frozen=True, kw_only=True)
class ResegmentOptions(Checked):
    """Which pairs of segments are flooded again, and which of them are merged. The rule is that of google/ffn."""

    voxel_size: tuple[float, float, float] | None = option(
        None,
        "Edges of a voxel (z, y, x) in nm; left out: the edges that the image's file states. If the file states none,"
        " the edges are 1, and distances are in voxels",
        range=limits.VOXEL_SIZE,
    )
    max_distance: float | None = option(
        None,
        "Largest distance in nm between a segment and the decision point: about half of the gap between two segments;"
        " left out: three times the longest edge of a voxel",
        range=limits.NANOMETRES,
    )
    radius: tuple[int, int, int] | None = option(
        None,
        "Voxels (z, y, x) on each side of the decision point that are flooded again; left out: one and a half fields of"
        " view",
        range=limits.DISTANCE,
    )
    analysis_radius: tuple[int, int, int] | None = option(
        None,
        "Voxels (z, y, x) on each side of the decision point that are compared; left out: one field of view",
        range=limits.DISTANCE,
    )
    attempts: int = option(
        8, "Largest number of seeds that are tried in each segment", range=limits.ATTEMPTS
    )
    exclusion_radius: tuple[int, int, int] | None = option(
        None,
        "A further seed is more than this many voxels (z, y, x) away from the earlier ones; left out: `deltas` of the"
        " network",
        range=limits.DISTANCE,
    )
    point_exclusion: tuple[int, int, int] | None = option(
        None,
        "No seed is within this many voxels (z, y, x) of the decision point; left out: seeds may be there",
        range=limits.DISTANCE,
    )
    recovery: float = option(
        0.6,
        "Least share of its own segment that a flooding must find. If it finds less, floodtide tries the next seed",
        range=limits.FRACTION,
    )
    terminate_early: bool = option(
        True,
        "Leave out the second flooding of a pair if the first has not found both segments, because the pair cannot be"
        " merged then",
    )
    min_iou: float = option(
        0.8,
        "Two segments are merged if their floodings have more than this share of their voxels in common (intersection"
        " over union),",
        range=limits.FRACTION,
    )
    min_share: float = option(
        0.6,
        "if both floodings have more than this share of each of the segments,",
        range=limits.FRACTION,
    )
    max_deleted: float = option(
        0.02,
        "and if at least one of the floodings has taken back less than this share of its voxels",
        range=limits.FRACTION,
    )
