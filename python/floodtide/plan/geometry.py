# SPDX-License-Identifier: Apache-2.0
"""Field of view, steps, and a guarded split into training and validation, for any voxel and volume size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.base.networks import FfnOptions
from floodtide.data import Box, Vec3
from floodtide.data.boxes import as_vec3, between, is_inside
from floodtide.data.formats.geometry import size_text
from floodtide.errors import InvalidArgumentError

_LEAST_FOV = 5  # voxels; fewer leave no neighbours on both sides of a step
_FEW_SECTIONS = 5
_CENTRES = 0.25  # share of the voxels along an axis that should be centres of a patch
_HELD_OUT, _MOST_HELD_OUT = 0.2, 0.34  # share of an axis, or of the voxels, for validation


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What the parts of a training must hold.

    Attributes:
        patch: Size (z, y, x) of a training example in voxels.
        guard: Voxels (z, y, x) between two parts of a box, of which that of the cut axis counts.
        inside: Training examples lie wholly inside of the boxes with labels.
        sections: Sections are independent: whole ones are held out, if there are at least five.
        reach: Largest distance (z, y, x) in voxels between two voxels that a target compares.
    """

    patch: Vec3
    guard: Vec3
    inside: bool = True
    sections: bool = False
    reach: Vec3 = (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Training and validation boxes.

    Attributes:
        training: Boxes (start, size), each with the index of its volume.
        held_out: Index of the volume that is validated on.
        validation: Its boxes.
        reason: How the boxes were chosen.
        test: Boxes of the same volume that nothing is chosen on; empty: none.
    """

    training: tuple[tuple[int, Box], ...]
    held_out: int
    validation: tuple[Box, ...]
    reason: str
    test: tuple[Box, ...] = ()

    @property
    def parts(self) -> list[Sequence[tuple[int, Box]]]:
        """The boxes of training, validation and, if there are some, test, each with the index of its volume."""
        held = [[(self.held_out, box) for box in part] for part in (self.validation, self.test)]
        return [self.training, *(part for part in held if part)]

    def holds(self, offset: Vec3) -> bool:
        """Return True if pairs of voxels at an offset (z, y, x) lie in boxes of all parts."""
        return all(any(_holds(box, offset) for _, box in part) for part in self.parts)


def view_of(fov: int, delta: int, voxel_size_nm: Sequence[float]) -> FfnOptions:
    """Return a field of view that is about a cube in nanometres.

    Args:
        fov, delta: Along the axes with the smallest voxels.
    """
    sizes = [fov * min(voxel_size_nm) / size for size in voxel_size_nm]
    return _resized(FfnOptions(fov=(fov, fov, fov), deltas=(delta, delta, delta)), sizes)


def view_for(shape: Vec3, view: FfnOptions) -> FfnOptions:
    """Return a field of view, made smaller along all axes until a volume of this shape can be split.

    Along thin axes it is smaller still, so that a quarter of the voxels there are centres of patches.
    """
    axes = list(zip(view.fov, view.deltas, shape, strict=True))
    most = [(1 - _CENTRES) * whole / (1 + 2 * delta / fov) for fov, delta, whole in axes]
    for less in range(0, max(view.fov), 2):
        smaller = [min(fov - less, n) for fov, n in zip(view.fov, most, strict=True)]
        found = _resized(view, smaller)
        if cuts(((0, 0, 0), shape), Needs(patch=found.patch_size, guard=found.fov)):
            return found
    raise too_small(shape)


def _resized(view: FfnOptions, sizes: Sequence[float]) -> FfnOptions:
    """Return a view of about these sizes, which are odd, with steps in the same proportion."""
    fovs = [max(_LEAST_FOV, 2 * round((size - 1) / 2) + 1) for size in sizes]
    steps = [
        delta if n == fov else max(1, min(round(delta * n / fov), (n - 1) // 2))
        for n, fov, delta in zip(fovs, view.fov, view.deltas, strict=True)
    ]
    return FfnOptions(fov=as_vec3(fovs), deltas=as_vec3(steps))


def splits(boxes: Sequence[Sequence[Box]], needs: Needs, share: float = _HELD_OUT) -> list[Split]:
    """Return all splits of the labelled boxes of volumes, the best ones first: above all, both parts hold the reach.

    If some boxes of a volume hold about a fifth of the voxels, they are held out. Else the largest box is cut.

    Args:
        boxes: The boxes with labels of each volume.
        share: Share of a box that is held out if it is cut.
    """
    everything = [(number, box) for number, own in enumerate(boxes) for box in own]
    patch = (0, 0, 0), needs.patch
    fitting = [one for one in everything if not needs.inside or is_inside(patch, one[1][1])]
    if not fitting:
        return []
    roomy = [one for one in fitting if _holds(one[1], needs.reach)] or fitting
    found = _whole_boxes(fitting, roomy)
    number, largest = max(roomy, key=_voxels)
    whole_sections = needs.sections and largest[1][0] >= _FEW_SECTIONS
    for axis, guard, training, validation in cuts(largest, needs, share):
        if whole_sections and axis != 0:
            continue
        why = "whole sections" if whole_sections else "the axis that leaves most for training"
        band = f", with a guard band of {guard} voxels" if guard > 1 else ""
        split = Split(
            training=tuple((n, training if box is largest else box) for n, box in fitting),
            held_out=number,
            validation=(validation,),
            reason=f"Cut along {'zyx'[axis]}, {why}{band}.",
        )
        found.append(split)
    return sorted(found, key=lambda one: not one.holds(needs.reach))


def with_test(split: Split, needs: Needs) -> list[Split]:
    """Return the splits whose held-out part has two parts: one to choose on, and one to test."""
    boxes, found = split.validation, []
    if (half := len(boxes) // 2) > 0:
        reason = f"{split.reason} Half of the held-out boxes are for the test."
        return [
            dataclasses.replace(split, validation=boxes[:half], test=boxes[half:], reason=reason)
        ]
    halves = cuts(boxes[0], needs, 0.5)
    for axis, guard, test, choice in sorted(halves, key=lambda cut: cut[1], reverse=True):
        if needs.sections and axis != 0 and boxes[0][1][0] > 1:
            continue
        reason = f"{split.reason} The held-out part is cut along {'zyx'[axis]}, with {guard} voxels between."
        found.append(dataclasses.replace(split, validation=(choice,), test=(test,), reason=reason))
    return [one for one in found if one.holds(needs.reach)]


def _holds(box: Box, offset: Vec3) -> bool:
    return all(abs(o) < n for o, n in zip(offset, box[1], strict=True))


def _voxels(one: tuple[int, Box]) -> int:
    return math.prod(one[1][1])


def _whole_boxes(
    fitting: Sequence[tuple[int, Box]], roomy: Sequence[tuple[int, Box]]
) -> list[Split]:
    """Return the split that holds out whole roomy boxes of one volume, at most a third of all voxels; none without."""
    voxels, tried = sum(map(_voxels, fitting)), []
    for number in sorted({number for number, _ in roomy}):
        own = sorted((one for one in roomy if one[0] == number), key=_voxels, reverse=True)
        held = [own[-count:] for count in range(1, len(own) + 1)]
        tried += [(sum(map(_voxels, some)) / voxels, some) for some in held]
    tried = [one for one in tried if one[0] <= _MOST_HELD_OUT]
    if not tried:
        return []
    _, held_out = min(tried, key=lambda one: abs(one[0] - _HELD_OUT))
    split = Split(
        training=tuple(one for one in fitting if one not in held_out),
        held_out=held_out[0][0],
        validation=tuple(box for _, box in held_out),
        reason=f"{len(fitting) - len(held_out)} of {len(fitting)} labelled boxes; the others are held out.",
    )
    return [split]


def cuts(box: Box, needs: Needs, share: float = _HELD_OUT) -> list[tuple[int, int, Box, Box]]:
    """Return (axis, guard, training box, validation box) of all cuts of a box, that with most for training first.

    The validation part is a share of the axis, or a little more than a patch or the reach. It lies at the end of
    the axis, or at the beginning.
    """
    if needs.inside and not is_inside(((0, 0, 0), needs.patch), box[1]):
        return []
    found = []
    for axis, (whole, extent, guard) in enumerate(
        zip(box[1], needs.patch, needs.guard, strict=True)
    ):
        least = extent + extent // 4
        if not needs.inside:
            # More than a third of a short axis would leave too little for training.
            least = max(1, min(needs.reach[axis] + 1, whole // 3))
            guard = min(guard, whole // 10)
        held_out = max(round(share * whole), least)
        rest = whole - held_out - guard
        if rest < least:
            continue
        for first, other in ((0, whole - held_out), (whole - rest, 0)):
            training = between(box, axis, first, first + rest)
            validation = between(box, axis, other, other + held_out)
            found.append((rest / whole, (axis, guard, training, validation)))
    return [cut for _, cut in sorted(found, key=lambda row: row[0], reverse=True)]


def too_small(shape: Vec3) -> InvalidArgumentError:
    """Return the error of a volume that cannot be split."""
    return InvalidArgumentError(
        f"init: a volume of {size_text(shape)} voxels is too small for a training and a validation part with a guard"
        " band between them; expected more voxels along one axis"
    )
