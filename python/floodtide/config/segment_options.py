# SPDX-License-Identifier: Apache-2.0
"""The [segment] section of a configuration: what to segment and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import FOLDER, option
from floodtide.base.registry import Registered, Value, names, registered


@dataclass(frozen=True, kw_only=True)
class SegmentOptions(Registered):
    """What to segment and how. Names and defaults are those of google/ffn, including the probabilities."""

    checkpoint: str = option(
        "",
        "Network: a floodtide checkpoint, a run directory (its newest checkpoint is used), or the prefix of a"
        " TensorFlow checkpoint",
        path=True,
        differs=FOLDER,
    )
    image: str = option(
        "",
        "Image, file:dataset, or the name of a [[data.volumes]] table; left out: the image of the only"
        " [[data.volumes]] table",
        path=True,
        differs=FOLDER,
    )
    box: str = option("", "Box to segment, z0:z1,y0:y1,x0:x1 in voxels; empty: the whole image")
    initial: str = option(
        "",
        "Initial segmentation, file:dataset: its segments keep their voxels and ids, and new objects end at them;"
        " empty: none",
        path=True,
        differs=FOLDER,
    )
    mask: str = option(
        "",
        "Mask, file:dataset: where it is not 0, no object is started and no field of view centred; empty: none",
        path=True,
        differs=FOLDER,
    )
    mask_invert: bool = option(False, "Exclude the voxels where the mask is 0 instead")
    subvolume: tuple[int, int, int] | None = option(
        None,
        "Size (z, y, x) in voxels of the overlapping subvolumes into which the box is cut; ranks share them; left out:"
        " the box is segmented in one piece, by one rank",
        range=limits.SUBVOLUME,
    )
    overlap: tuple[int, int, int] | None = option(
        None,
        "Smallest overlap (z, y, x) in voxels of neighbouring subvolumes, at most half a subvolume; left out: the field"
        " of view",
        range=limits.DISTANCE,
    )
    coarse: tuple[int, int, int] = option(
        (1, 1, 1),
        "Flood first in the image averaged over blocks of this size (z, y, x), and at full resolution only what the"
        " network does not confirm there; [1, 1, 1]: full resolution only",
        range=limits.STRIDE,
    )
    coarse_min_size: int = option(
        20000,
        "Smaller objects of the coarse level, in voxels of the image, are flooded again at full resolution",
        range=limits.VOXELS,
    )
    coarse_agreement: float = option(
        0.7,
        "Least intersection over union of an object of the coarse level and the network's mask at full resolution, at"
        " nine of ten places of an object that is kept",
        range=limits.FRACTION,
    )
    mean: float | None = option(
        None,
        "Mean of the image: the network receives (image - mean) / std; left out: the mean of the [[data.volumes]]"
        " table that `image` names, else the mean that the network was trained with, if the checkpoint stores it",
        range=limits.INTENSITY,
    )
    std: float | None = option(
        None,
        "Standard deviation of the image; left out: chosen in the same way as `mean`",
        range=limits.DEVIATION,
    )
    fov: tuple[int, int, int] | None = option(
        None,
        "Size (z, y, x) of the field of view in voxels, odd numbers; left out: the size stored in the checkpoint; a"
        " TensorFlow checkpoint stores none, so 33 for each axis",
        range=limits.FIELD_OF_VIEW,
    )
    deltas: tuple[int, int, int] | None = option(
        None,
        "Distance (z, y, x) in voxels by which the field of view moves; left out: the distance stored in the"
        " checkpoint; a TensorFlow checkpoint stores none, so 8 for each axis",
        range=limits.DELTA,
    )
    seed_policy: str = option(
        "peaks",
        "Method that chooses the seed voxels from which objects grow",
        choices=names(_core.segment.seed_policies()),
    )
    seed_values: Mapping[str, Value] = registered(_core.segment.seed_policies, "seed_policy")
    seed_reverse: bool = option(
        False, "Try the seeds of `seed_policy` in reverse order (ReverseCoords of google/ffn)"
    )
    seeds: str = option(
        "",
        "Seeds instead of `seed_policy`: a text file with z, y, x in each line, or the HDF5 file of an earlier"
        " segmentation, whose seeds are tried in reverse order; empty: none",
        path=True,
        differs=FOLDER,
    )
    consensus: str = option(
        "none",
        "`reverse`: segment a second time from the seeds of all segments in reverse order, and keep together only what"
        " both segmentations have in one segment (oversegmentation consensus)",
        choices=("none", "reverse"),
    )
    consensus_min_size: int = option(
        1000, "Smaller parts of the consensus, in voxels, are discarded", range=limits.VOXELS
    )
    init_activation: float = option(
        0.95, "Initial object probability of the seed voxel", range=limits.PROBABILITY
    )
    pad_value: float = option(
        0.05,
        "Initial object probability of voxels that were not visited yet; use the value of the training"
        " (training.seed_pad)",
        range=limits.PROBABILITY,
    )
    move_threshold: float = option(
        0.9,
        "Minimum object probability of a voxel to which the field of view moves",
        range=limits.PROBABILITY,
    )
    segment_threshold: float = option(
        0.6,
        "Minimum object probability of a voxel that becomes part of the object",
        range=limits.PROBABILITY,
    )
    min_segment_size: int = option(
        1000, "Smaller objects, in voxels, are discarded", range=limits.VOXELS
    )
    min_boundary_dist: tuple[int, int, int] = option(
        (1, 1, 1),
        "Minimum distance (z, y, x) in voxels between a seed and earlier objects",
        range=limits.DISTANCE,
    )
    disco_seed_threshold: float = option(
        0.0,
        "If more than this share of a field of view is object (probability of at least move_threshold), voxels with a"
        " probability below 0.5 do not become more probable; negative: off",
        range=limits.DISCO,
    )
    reflect: bool = option(
        False,
        "Continue the image by reflection beyond the faces of the volume, so that fields of view reach the faces;"
        " google/ffn, and the default, centre no field of view within half its size of a face",
    )
