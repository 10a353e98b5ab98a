# SPDX-License-Identifier: Apache-2.0
"""The [segment] section of a configuration: what to segment, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import FOLDER, option
from floodtide.base.registry import Registered, Value, names, registered


@dataclass(frozen=True, kw_only=True)
class SegmentOptions(Registered):
    """What to segment and how; the names and defaults are google/ffn's, probabilities included."""

    checkpoint: str = option(
        "",
        "Network: a checkpoint of ours, a run directory (its newest checkpoint), or the prefix of a"
        " TensorFlow checkpoint",
        path=True,
        differs=FOLDER,
    )
    image: str = option(
        "",
        "Image, file:dataset, or the name of one of the [[data.volumes]]; left out: the image of the"
        " only [[data.volumes]]",
        path=True,
        differs=FOLDER,
    )
    box: str = option("", "Part to segment, z0:z1,y0:y1,x0:x1 in voxels; empty: all of it")
    mean: float | None = option(
        None,
        "Image mean: the network sees (image - mean) / std; left out: the mean of the [[data.volumes]]"
        " that `image` names, else the mean that the network was trained with, if the checkpoint"
        " stores it",
        range=limits.INTENSITY,
    )
    std: float | None = option(
        None,
        "Image standard deviation; left out: found as for `mean`",
        range=limits.DEVIATION,
    )
    fov: tuple[int, int, int] | None = option(
        None,
        "Field of view (z, y, x) in voxels, odd; left out: the checkpoint's, or 33 each for a"
        " TensorFlow checkpoint, which does not store it",
        range=limits.FIELD_OF_VIEW,
    )
    deltas: tuple[int, int, int] | None = option(
        None,
        "Step of the field of view (z, y, x) in voxels; left out: the checkpoint's, or 8 each for a"
        " TensorFlow checkpoint",
        range=limits.DELTA,
    )
    seed_policy: str = option(
        "peaks", "Where objects are started", choices=names(_core.segment.seed_policies())
    )
    seed_values: Mapping[str, Value] = registered(_core.segment.seed_policies, "seed_policy")
    init_activation: float = option(
        0.95, "Probability that the seed voxel starts with", range=limits.PROBABILITY
    )
    pad_value: float = option(
        0.05, "Probability of voxels not visited yet, as in training", range=limits.PROBABILITY
    )
    move_threshold: float = option(
        0.9, "Probability from which the field of view moves to a voxel", range=limits.PROBABILITY
    )
    segment_threshold: float = option(
        0.6, "Probability from which a voxel joins the object", range=limits.PROBABILITY
    )
    min_segment_size: int = option(1000, "Objects of fewer voxels are dropped", range=limits.VOXELS)
    min_boundary_dist: tuple[int, int, int] = option(
        (1, 1, 1),
        "Seeds keep this distance (z, y, x) in voxels from earlier objects",
        range=limits.DISTANCE,
    )
    disco_seed_threshold: float = option(
        0.0,
        "Once more than this share of a field of view is object, voxels called background stay so;"
        " negative: off",
        range=limits.DISCO,
    )
