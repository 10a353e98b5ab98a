# SPDX-License-Identifier: Apache-2.0
"""The sections [segment] and [resegment] of a configuration: what to segment and how, and what is flooded again."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import FLOOD, FOLDER, Checked, Row, Value, option, registered
from floodtide.errors import InvalidArgumentError

_flooding = functools.partial(option, kinds=(FLOOD,))

_affine = functools.partial(option, kinds=("affinities", "lsd"))

LINKAGES = ("mean", "median", "quantile75")
"""What stands for the affinities between two segments when affinities are agglomerated."""

LISTED = "listed"
"""The seed policy whose seeds are those of `segment.seeds`."""


def seed_policies() -> list[Row]:
    """Return the rows of all seed policies: those of the core, and `listed`, whose seeds are in a file."""
    text = "the seeds of `seeds`, at this place among other policies (PolicyInvertOrigins of google/ffn)"
    row = {"name": LISTED, "published": "PolicyInvertOrigins", "parameters": [], "help": text}
    return [*_core.segment.seed_policies(), row]


@dataclass(frozen=True, kw_only=True)
class MaskChannel(Checked):
    """Values of one channel that are masked: `values`, else those from `minimum` to `maximum`, else all but 0."""

    channel: int = option(
        0, "Index of the channel; a volume of three axes has channel 0 only", range=limits.CHANNEL
    )
    values: tuple[int, ...] = option((), "Masked values", range=limits.LABEL)
    minimum: float | None = option(
        None, "Smallest masked value; left out: none, if `maximum` is given", range=limits.INTENSITY
    )
    maximum: float | None = option(
        None, "Largest masked value; left out: none, if `minimum` is given", range=limits.INTENSITY
    )
    invert: bool = option(False, "Mask the other values instead")


@dataclass(frozen=True, kw_only=True)
class MaskOptions(Checked):
    """A mask: the voxels that one of its channels masks. Without channels: where channel 0 is not 0.

    Source: google/ffn, MaskConfig in inference.proto.
    """

    volume: str = option(
        "",
        "Volume, file:dataset, with the axes z, y, x or channel, z, y, x; empty: the image, before normalisation",
        path=True,
        differs=FOLDER,
    )
    channels: tuple[MaskChannel, ...] = option((), "Channels, one table each")
    invert: bool = option(False, "Mask the voxels that no channel masks instead")


@dataclass(frozen=True, kw_only=True)
class SegmentOptions(Checked):
    """What to segment and how. google/ffn has the same names and defaults, also for the probabilities."""

    checkpoint: str = option(
        "",
        "Network: a floodtide checkpoint, a run directory (its newest checkpoint is used), or the prefix of a"
        " TensorFlow checkpoint; for a U-Net, left out: that of run.dir",
        path=True,
        differs=FOLDER,
    )
    image: str = option(
        "",
        "Image, file:dataset, or the name of a [[data.volumes]] table; left out: the image of the only"
        " [[data.volumes]] table, or for a U-Net of the validation",
        path=True,
        differs=FOLDER,
    )
    box: str = option(
        "",
        "Box to segment, z0:z1,y0:y1,x0:x1 in voxels; empty: the whole image, but for a U-Net in one piece on an image"
        " of its training: validation.test_box, else validation.box",
    )
    initial: str = _flooding(
        "",
        "Initial segmentation, file:dataset: its segments keep their voxels and ids, and new objects end at them;"
        " empty: none",
        path=True,
        differs=FOLDER,
    )
    masks: tuple[MaskOptions, ...] = _flooding(
        (),
        "Masks in which no object is started and no field of view centred, one [[segment.masks]] table each",
    )
    seed_masks: tuple[MaskOptions, ...] = _flooding(
        (), "Masks in which no object is started, one [[segment.seed_masks]] table each"
    )
    subvolume: tuple[int, int, int] | None = option(
        None,
        "Size (z, y, x) in voxels of the overlapping subvolumes into which the box is cut; ranks share them; left out:"
        " the box is segmented in one piece, by one rank",
        range=limits.SUBVOLUME,
    )
    overlap: tuple[int, int, int] | None = option(
        None,
        "Smallest overlap (z, y, x) in voxels of neighbouring subvolumes, at most half a subvolume; left out: the field"
        " of view, or for a U-Net 32 of its voxels, at most a quarter of a subvolume",
        range=limits.DISTANCE,
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
    choose_by: str = _affine(
        "voi",
        "Score, over all voxels of the validation box, by which the next five keys are chosen: `voi`: VOI split +"
        " merge; `rand`: the adapted Rand error. The first segmentation with a checkpoint chooses",
        choices=("voi", "rand"),
    )
    method: str = _affine(
        "chosen",
        "What is compared with `threshold`: the mean, median or 75 % quantile of the affinities between two segments",
        choices=("chosen", *LINKAGES),
    )
    threshold: float | None = _affine(
        None,
        "Segments are merged while `method` of their affinities is above this; left out: chosen",
        range=limits.FRACTION,
    )
    small_size: int | None = _affine(
        None,
        "Segments of fewer voxels of the network also merge below `threshold`, down to an affinity of 0.3, where at"
        " most one larger segment takes part; 0: none; left out: chosen",
        range=limits.VOXELS,
    )
    min_size: int | None = _affine(
        None, "Segments of fewer voxels are removed; left out: chosen", range=limits.VOXELS
    )
    mirror: str = _affine(
        "chosen",
        "`on`: average the predictions of the image and of its copies mirrored along all axes that training reflected;"
        " 8 passes for three axes",
        choices=("chosen", "off", "on"),
    )
    fov: tuple[int, int, int] | None = _flooding(
        None,
        "Size (z, y, x) of the field of view in voxels, odd; left out: that of the checkpoint (TensorFlow: 33 an axis)",
        range=limits.FIELD_OF_VIEW,
    )
    deltas: tuple[int, int, int] | None = _flooding(
        None,
        "Distance (z, y, x) in voxels of a move; left out: that of the checkpoint (TensorFlow: 8 an axis)",
        range=limits.DELTA,
    )
    seed_policy: str = _flooding(
        "peaks",
        "Method that chooses the seed voxels from which objects grow. Several, separated by commas, are used one after"
        " another; `reversed` before a name reverses its seeds: `peaks, reversed grid` (SequentialPolicies and"
        " ReverseCoords of google/ffn)",
    )
    seed_values: Mapping[str, Value] = registered(seed_policies, "seed_policy", several=True)
    seeds: str = _flooding(
        "",
        "Seeds instead of `seed_policy`, or where `seed_policy` names `listed`: a text file with z, y, x in"
        " each line, or the file of an earlier segmentation (of google/ffn also its folder), whose seeds are tried in"
        " reverse order; empty: none",
        path=True,
        differs=FOLDER,
    )
    consensus: str = _flooding(
        "none",
        "`reverse`: segment a second time from the seeds of all segments in reverse order, and keep together only what"
        " both segmentations have in one segment (oversegmentation consensus)",
        choices=("none", "reverse"),
    )
    consensus_min_size: int = _flooding(
        1000, "Smaller parts of the consensus, in voxels, are discarded", range=limits.VOXELS
    )
    init_activation: float = _flooding(
        0.95, "Initial object probability of the seed voxel", range=limits.PROBABILITY
    )
    pad_value: float = _flooding(
        0.05,
        "Initial object probability of voxels that were not visited yet; use the value of the training"
        " (training.seed_pad)",
        range=limits.PROBABILITY,
    )
    move_threshold: float = _flooding(
        0.9, "Least object probability to which the field of view moves", range=limits.PROBABILITY
    )
    segment_threshold: float = _flooding(
        0.6, "Least object probability of a voxel of the object", range=limits.PROBABILITY
    )
    min_segment_size: int = _flooding(
        1000, "Smaller objects, in voxels, are discarded", range=limits.VOXELS
    )
    grow: int = _flooding(
        0,
        "At the end, voxels of no segment that touch one become part of it, this many times: for networks that were"
        " trained on eroded labels",
        range=limits.DISTANCE,
    )
    min_boundary_dist: tuple[int, int, int] = _flooding(
        (1, 1, 1), "Least distance (z, y, x) of a seed from earlier objects", range=limits.DISTANCE
    )
    disco_seed_threshold: float = _flooding(
        0.0,
        "If more than this share of a field of view is object (probability of at least move_threshold), voxels with a"
        " probability below 0.5 do not become more probable; negative: off",
        range=limits.DISCO,
    )
    shift_mask: str = _flooding(
        "",
        "Shift mask, file:dataset of two channels: shifts between sections along x and y. No field of view is centred"
        " where `shift_mask_fov` around it has a large shift; empty: none",
        path=True,
        differs=FOLDER,
    )
    shift_mask_fov: str = _flooding(
        "",
        "Window around a position, z0:z1,y0:y1,x0:x1 relative to it, for example -16:17,-16:17,-16:17; empty: the field"
        " of view",
    )
    shift_mask_threshold: float = _flooding(
        4.0, "Smallest shift along x or y that is large", range=limits.SHIFT
    )
    shift_mask_scale: int = _flooding(
        1,
        "Size of the shift mask's voxels along y and x in voxels of the image; along z they are equal",
        range=limits.SHIFT_SCALE,
    )
    checkpoint_interval: float = _flooding(
        0.0,
        "Seconds between two checkpoints while a box or a subvolume is segmented, also in the middle of an object. The"
        " same command continues after a crash, with the same result; 0: no checkpoints",
        range=limits.SECONDS,
    )
    probability: bool = _flooding(
        False,
        "Also store the object probability of each voxel of a segment, as uint8 in the dataset `probability` beside"
        " the segmentation, and in google/ffn's file seg-X_Y_Z.prob; 1 more byte of memory per voxel",
    )
    forward: str = _flooding(
        "fastest",
        "How the network's convolutions are computed: `layers`: one after another; `fft`: by Fourier"
        " transforms (AVX2 or more, fields of view of multiples of 11 voxels, multiples of 16 feature maps); `fastest`:"
        " both are measured at the start. Results differ by rounding only",
        choices=("fastest", "layers", "fft"),
    )
    reflect: bool = _flooding(
        False,
        "Continue the image by reflection beyond the faces of the volume, so that fields of view reach the faces;"
        " google/ffn, and the default, centre no field of view within half its size of a face",
    )

    @property
    def normalisation(self) -> tuple[float, float]:
        """Return mean and std.

        Raises:
            InvalidArgumentError: If one of them is missing.
        """
        if self.mean is None or self.std is None:
            raise InvalidArgumentError(
                f"segment: options.mean is {self.mean} and options.std is {self.std}, expected the numbers that the"
                " network was trained with: the network receives (image - mean) / std"
            )
        return self.mean, self.std

    @property
    def volumes(self) -> list[str]:
        """Return the names of all volumes that a segmentation with these options reads, the image first."""
        masks = [mask.volume for mask in (*self.masks, *self.seed_masks)]
        return [name for name in (self.image, self.initial, self.shift_mask, *masks) if name]

    def alone(self) -> SegmentOptions:
        """Return these options for an array in memory: in one piece, and without other volumes."""
        changes: dict[str, Any] = dict.fromkeys(("box", "initial", "seeds", "shift_mask"), "")
        changes |= {"masks": (), "seed_masks": (), "subvolume": None}
        return dataclasses.replace(self, checkpoint_interval=0.0, probability=False, **changes)


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
