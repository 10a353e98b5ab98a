# SPDX-License-Identifier: Apache-2.0
"""Field of view, steps, and a guarded split into training and validation, for any voxel and volume size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from floodtide.base.networks import FfnOptions
from floodtide.data import Box, Vec3
from floodtide.data.boxes import as_vec3, total
from floodtide.data.formats.geometry import size_text
from floodtide.errors import InvalidArgumentError

VIEWS = ((33, 8), (25, 7), (17, 4), (13, 4), (9, 2), (5, 1))
"""Fields of view and steps in voxels along the axes with the smallest voxels, the largest first."""

_LEAST_FOV = 5  # voxels; fewer leave no neighbours on both sides of a step
_FEW_SECTIONS = 5
_CENTRES = 0.25  # share of the voxels along an axis that should be centres of a patch
_HELD_OUT, _MOST_HELD_OUT = 0.2, 0.34  # share of an axis, or of the voxels, for validation


@dataclass(frozen=True, kw_only=True)
class Split:
    """Training and validation boxes.

    Attributes:
        training: Boxes (start, size) of each volume; a volume may have none.
        held_out: Index of the volume that is validated on.
        validation: Its boxes.
        reason: How the boxes were chosen.
        test: Boxes of the same volume that nothing is chosen on; empty: none.
    """

    training: tuple[tuple[Box, ...], ...]
    held_out: int
    validation: tuple[Box, ...]
    reason: str
    test: tuple[Box, ...] = ()

    @property
    def parts(self) -> list[list[tuple[int, Box]]]:
        """The boxes of training, validation and, if there are some, test, each with the index of its volume."""
        trained = [(number, box) for number, own in enumerate(self.training) for box in own]
        held = [[(self.held_out, box) for box in part] for part in (self.validation, self.test)]
        return [trained, *(part for part in held if part)]

    def holds(self, offset: Vec3) -> bool:
        """Return True if pairs of voxels at an offset (z, y, x) lie in boxes of all parts."""
        return all(any(_holds(box, offset) for _, box in part) for part in self.parts)


def view_of(fov: int, delta: int, voxel_size_nm: Sequence[float]) -> FfnOptions:
    """Return a field of view that is about a cube in nanometres.

    Args:
        fov, delta: Along the axes with the smallest voxels.
    """
    least = min(voxel_size_nm)
    sizes = [max(_LEAST_FOV, 2 * round((fov * least / size - 1) / 2) + 1) for size in voxel_size_nm]
    return _resized(FfnOptions(fov=(fov, fov, fov), deltas=(delta, delta, delta)), sizes)


def fitted(view: FfnOptions, shape: Vec3) -> FfnOptions:
    """Return a view that is smaller along thin axes, so that a quarter of the voxels there are centres of patches."""
    sizes = []
    for fov, delta, whole in zip(view.fov, view.deltas, shape, strict=True):
        extent, most = fov, (1 - _CENTRES) * whole + 1
        while extent > _LEAST_FOV and extent + 2 * _step(delta, extent, fov) > most:
            extent -= 2
        sizes.append(extent)
    return _resized(view, sizes)


def _resized(view: FfnOptions, sizes: Sequence[int]) -> FfnOptions:
    steps = [_step(d, n, f) for d, n, f in zip(view.deltas, sizes, view.fov, strict=True)]
    return FfnOptions(fov=as_vec3(sizes), deltas=as_vec3(steps))


def _step(delta: int, extent: int, fov: int) -> int:
    if extent == fov:
        return delta
    return max(1, min(round(delta * extent / fov), (extent - 1) // 2))


def splits(
    boxes: Sequence[Sequence[Box]],
    patch: Vec3,
    guard: Vec3,
    *,
    inside: bool,
    sections: bool = False,
    reach: Vec3 = (0, 0, 0),
    share: float = _HELD_OUT,
) -> list[Split]:
    """Return all splits of the labelled boxes of volumes, the best ones first: above all, both parts hold the reach.

    If some boxes of a volume hold about a fifth of the voxels, they are held out. Else the largest box is cut.

    Args:
        boxes: The boxes with labels of each volume.
        patch, inside, reach: As in `floodtide.plan.wish.Recipe`.
        guard: Voxels (z, y, x) between both parts of a box, of which that of the cut axis counts.
        sections: Sections are independent: hold out whole ones, if there are at least five.
        share: Share of a box that is held out if it is cut.
    """
    everything = [(number, box) for number, own in enumerate(boxes) for box in own]
    fitting = [
        one
        for one in everything
        if not inside or all(n >= p for n, p in zip(one[1][1], patch, strict=True))
    ]
    if not fitting:
        return []
    roomy = [one for one in fitting if _holds(one[1], reach)] or fitting
    found = [split] if (split := _whole_boxes(boxes, fitting, roomy)) is not None else []
    number, largest = max(roomy, key=lambda one: math.prod(one[1][1]))
    whole_sections = sections and largest[1][0] >= _FEW_SECTIONS
    for axis, between, training, validation in cuts(
        largest[1], patch, guard, inside=inside, reach=reach, share=share
    ):
        if whole_sections and axis != 0:
            continue
        start = largest[0]
        kept = [
            tuple(box for n, box in fitting if n == volume and box is not largest)
            + ((_moved(training, start),) if volume == number else ())
            for volume in range(len(boxes))
        ]
        why = "whole sections" if whole_sections else "the axis that leaves most for training"
        band = f", with a guard band of {between} voxels" if between > 1 else ""
        found.append(
            Split(
                training=tuple(kept),
                held_out=number,
                validation=(_moved(validation, start),),
                reason=f"Cut along {'zyx'[axis]}, {why}{band}.",
            )
        )
    return sorted(found, key=lambda one: not one.holds(reach))


def with_test(
    split: Split, patch: Vec3, guard: Vec3, *, sections: bool, reach: Vec3
) -> list[Split]:
    """Return the splits whose held-out part has two parts: one to choose on, and one to test. Arguments as `splits`."""
    boxes = split.validation
    if (half := len(boxes) // 2) > 0:
        reason = f"{split.reason} Half of the held-out boxes are for the test."
        return [
            dataclasses.replace(split, validation=boxes[:half], test=boxes[half:], reason=reason)
        ]
    (start, size), found = boxes[0], []
    halves = cuts(size, patch, guard, inside=False, reach=reach, share=0.5)
    for axis, between, test, choice in sorted(halves, key=lambda cut: cut[1], reverse=True):
        if sections and axis != 0 and size[0] > 1:
            continue
        reason = f"{split.reason} The held-out part is cut along {'zyx'[axis]}, with {between} voxels between."
        own, other = (_moved(choice, start),), (_moved(test, start),)
        found.append(dataclasses.replace(split, validation=own, test=other, reason=reason))
    return [one for one in found if one.holds(reach)]


def _holds(box: Box, offset: Vec3) -> bool:
    return all(abs(o) < n for o, n in zip(offset, box[1], strict=True))


def _whole_boxes(
    boxes: Sequence[Sequence[Box]],
    fitting: Sequence[tuple[int, Box]],
    roomy: Sequence[tuple[int, Box]],
) -> Split | None:
    """Return the split that holds out whole roomy boxes of one volume, at most a third of all voxels; None without."""
    voxels = sum(math.prod(box[1]) for _, box in fitting)
    best: tuple[float, int, list[Box]] | None = None
    for number in range(len(boxes)):
        chosen: list[Box] = []
        for _, box in reversed([one for one in roomy if one[0] == number]):
            share = sum(math.prod(size) for _, size in [*chosen, box]) / voxels
            if share > _MOST_HELD_OUT:
                continue
            chosen.append(box)
            if best is None or abs(share - _HELD_OUT) < best[0]:
                best = (abs(share - _HELD_OUT), number, list(chosen))
    if best is None or len(best[2]) == len(fitting):
        return None
    _, number, held_out = best
    return Split(
        training=tuple(
            tuple(box for n, box in fitting if n == volume and (n != number or box not in held_out))
            for volume in range(len(boxes))
        ),
        held_out=number,
        validation=tuple(reversed(held_out)),
        reason=f"{len(fitting) - len(held_out)} of {len(fitting)} labelled boxes; the others are held out.",
    )


def cuts(
    shape: Vec3,
    patch: Vec3,
    guard: Vec3,
    *,
    inside: bool = True,
    reach: Vec3 = (0, 0, 0),
    share: float = _HELD_OUT,
) -> list[tuple[int, int, Box, Box]]:
    """Return (axis, guard, training box, validation box) of all cuts of a box, that with most for training first.

    The validation part is a share of the axis, or a little more than a patch or the reach. It lies at the end of
    the axis, or at the beginning.
    """
    found = []
    for axis, (whole, extent, between) in enumerate(zip(shape, patch, guard, strict=True)):
        # More than a third of a short axis would leave too little for training.
        least = extent + extent // 4 if inside else max(1, min(reach[axis] + 1, whole // 3))
        held_out = max(round(share * whole), least)
        between = between if inside else min(between, whole // 10)
        rest = whole - held_out - between
        if rest < least or (inside and any(n < p for n, p in zip(shape, patch, strict=True))):
            continue
        for at_end in (True, False):
            low, high = (0, rest), (rest + between, whole)
            training, validation = (low, high) if at_end else ((whole - rest, whole), (0, held_out))
            cut = (axis, between, _along(shape, axis, training), _along(shape, axis, validation))
            found.append((rest / whole, cut))
    return [cut for _, cut in sorted(found, key=lambda row: row[0], reverse=True)]


def _moved(box: Box, start: Vec3) -> Box:
    return total(box[0], start), box[1]


def _along(shape: Vec3, axis: int, span: tuple[int, int]) -> Box:
    start, size = [0, 0, 0], list(shape)
    start[axis], size[axis] = span[0], span[1] - span[0]
    return as_vec3(start), as_vec3(size)


def view_for(shape: Vec3, voxel_size_nm: Sequence[float], largest: int) -> FfnOptions:
    """Return the largest view of VIEWS, of at most `largest` voxels, with which the volume can be split."""
    return _first(
        shape, (view_of(fov, delta, voxel_size_nm) for fov, delta in VIEWS if fov <= largest)
    )


def view_for_network(shape: Vec3, fov: Vec3, deltas: Vec3) -> FfnOptions:
    """Return the view of a trained network, made smaller along all axes until the volume can be split."""

    view = FfnOptions(fov=fov, deltas=deltas)
    smaller = ([max(_LEAST_FOV, n - less) for n in fov] for less in range(0, max(fov), 2))
    return _first(shape, (_resized(view, sizes) for sizes in smaller))


def _first(shape: Vec3, views: Iterable[FfnOptions]) -> FfnOptions:
    """Return the first view with which a volume can be split, made smaller along its thin axes."""
    for view in (fitted(one, shape) for one in views):
        if cuts(shape, view.patch_size, view.fov):
            return view
    raise too_small(shape)


def too_small(shape: Vec3) -> InvalidArgumentError:
    """Return the error of a volume that cannot be split."""
    return InvalidArgumentError(
        f"init: a volume of {size_text(shape)} voxels is too small for a training and a validation part with a guard"
        " band between them; expected more voxels along one axis"
    )
