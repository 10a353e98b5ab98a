# SPDX-License-Identifier: Apache-2.0
"""Segmentation of image volumes by flooding from seeds, one object after another."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.options import option

Vec3 = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class SegmentOptions:
    """What to segment and how; the names and defaults are google/ffn's, probabilities included."""

    checkpoint: str = option(
        "", "Network: a checkpoint of ours or the prefix of a TensorFlow checkpoint", path=True
    )
    image: str = option(
        "", "Image, file:dataset, or the name of one of the [[data.volumes]]", path=True
    )
    box: str = option("", "Part to segment, z0:z1,y0:y1,x0:x1 in voxels; empty: all of it")
    mean: float | None = option(
        None,
        "Image mean; left out: the named volume's, else 128 (network sees (image - mean) / std)",
    )
    std: float | None = option(
        None, "Image standard deviation; left out: the named volume's, else 33"
    )
    fov: Vec3 | None = option(
        None,
        "Field of view (z, y, x) in voxels, odd; only for TensorFlow checkpoints, which do not know"
        " it; left out: 33 each",
    )
    deltas: Vec3 | None = option(
        None,
        "Step of the field of view (z, y, x) in voxels; only for TensorFlow checkpoints; left out:"
        " 8 each",
    )
    seed_policy: str = option(
        "peaks",
        "Where objects are started: peaks of the distance from image edges",
        choices=("peaks",),
    )
    init_activation: float = option(0.95, "Probability that the seed voxel starts with")
    pad_value: float = option(0.05, "Probability of voxels not visited yet, as in training")
    move_threshold: float = option(0.9, "Probability from which the field of view moves to a voxel")
    segment_threshold: float = option(0.6, "Probability from which a voxel joins the object")
    min_segment_size: int = option(1000, "Objects of fewer voxels are dropped")
    min_boundary_dist: Vec3 = option(
        (1, 1, 1), "Seeds keep this distance (z, y, x) in voxels from earlier objects"
    )
    disco_seed_threshold: float = option(
        0.0,
        "Once more than this share of a field of view is object, voxels predicted background stay so;"
        " negative: off",
    )
