# SPDX-License-Identifier: Apache-2.0
"""Voxels that are closed to moves and seeds: by masks, by shifts, and by the initial segmentation.

Source: google/ffn, storage.build_mask, movement.MovementRestrictor and Runner.make_restrictor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.config.segment_options import MaskChannel, MaskOptions, SegmentOptions
from floodtide.data import Vec3, Volume
from floodtide.errors import InvalidArgumentError, ShapeError
from floodtide.segment.canvas_image import (
    CanvasImage,
    difference,
    read_part,
    total,
    with_halo,
    without_halo,
)

Mask = NDArray[np.bool_]

Window = tuple[Vec3, Vec3]
"""First and last voxel (z, y, x) of a window, relative to a position."""

_LARGEST = 4096

_MOVES, _SEEDS, _SEGMENT, _SHIFT = (
    _core.segment.closed_bits()[name] for name in ("moves", "seeds", "segment", "shift")
)


def closed_voxels(
    options: SegmentOptions,
    volume_shape: Sequence[int],
    image: CanvasImage,
    initial: NDArray[np.int64] | None,
    fov: Sequence[int],
) -> NDArray[np.uint8] | None:
    """Return the bits (`closed_bits` of the core) of the voxels of an image, with its halo; None if none can be closed.

    Args:
        options: The masks.
        volume_shape: Size (z, y, x) of the volume that has the image.
        image: The box.
        initial: Initial segmentation of the box (z, y, x), without the halo.
        fov: Field of view (z, y, x).

    Raises:
        ShapeError: If a mask does not cover the box.
        InvalidFileError: If a mask cannot be read, or has no such channel.
    """
    parts: list[tuple[int, Mask]] = []
    for bit, masks in ((_MOVES, options.masks), (_SEEDS, options.seed_masks)):
        if masks:
            parts.append((bit, _any_of(masks, volume_shape, image)))
    if initial is not None:
        parts.append((_SEGMENT, initial > 0))
    if not parts and not options.shift_mask:
        return None
    closed = np.zeros(without_halo(image).shape, np.uint8)
    for bit, mask in parts:
        closed[mask] |= bit
    closed = with_halo(closed, image)
    if options.shift_mask:
        closed[shifted_positions(options, volume_shape, image, fov)] |= _SHIFT
    return closed


def volumes_of(options: SegmentOptions) -> list[str]:
    """Return the names of all volumes that a segmentation with these options reads."""
    masks = [mask.volume for mask in (*options.masks, *options.seed_masks)]
    others = [options.initial, options.shift_mask]
    return [options.image, *others, *masks]


def _any_of(masks: Iterable[MaskOptions], volume_shape: Sequence[int], image: CanvasImage) -> Mask:
    """Return where one of several masks is set (z, y, x), without the halo."""
    found: Mask | None = None
    for mask in masks:
        part: Mask | None = None
        for channel in mask.channels or (MaskChannel(),):
            chosen = _chosen(channel, _values(mask, channel.channel, volume_shape, image))
            part = chosen if part is None else part | chosen
        assert part is not None
        part = ~part if mask.invert else part
        found = part if found is None else found | part
    assert found is not None
    return found


def _values(
    mask: MaskOptions, channel: int, volume_shape: Sequence[int], image: CanvasImage
) -> NDArray[Any]:
    if mask.volume:
        source = Volume(mask.volume, channel=channel)
        return read_part(source, f"the mask {mask.volume}", volume_shape, image)
    if channel != 0:
        raise InvalidArgumentError(
            f"segment: a mask of the image names channel {channel}, expected channel 0"
        )
    return without_halo(image)


def _chosen(channel: MaskChannel, values: NDArray[Any]) -> Mask:
    chosen: Mask
    if channel.values:
        wanted = [v for v in channel.values if np.array(v).astype(values.dtype) == v]
        chosen = np.isin(values, np.array(wanted, values.dtype))
    elif channel.minimum is None and channel.maximum is None:
        chosen = values != 0
    else:
        chosen = np.ones(values.shape, np.bool_)
        if channel.minimum is not None:
            chosen &= values >= channel.minimum
        if channel.maximum is not None:
            chosen &= values <= channel.maximum
    return ~chosen if channel.invert else chosen


def parse_window(text: str, fov: Sequence[int]) -> Window:
    """Return the window of a text "z0:z1,y0:y1,x0:x1" (ends excluded); that of the field of view for an empty text.

    Raises:
        InvalidArgumentError: If the text is anything else, or an axis has no voxel.
    """
    if not text.strip():
        z, y, x = (size // 2 for size in fov)
        return (-z, -y, -x), (z, y, x)
    part = r"\s*(-?\d{1,4})\s*:\s*(-?\d{1,4})\s*"
    match = re.fullmatch(",".join([part] * 3), text)
    numbers = [int(number) for number in match.groups()] if match else []
    if not numbers or any(
        a >= b or max(-a, b) > _LARGEST for a, b in zip(numbers[::2], numbers[1::2], strict=True)
    ):
        raise InvalidArgumentError(
            f"segment: shift_mask_fov is {text!r}, expected z0:z1,y0:y1,x0:x1 relative to a position, with z0 < z1,"
            f" y0 < y1, x0 < x1, for example -16:17,-16:17,-16:17, and distances of at most {_LARGEST}"
        )
    z0, z1, y0, y1, x0, x1 = numbers
    return (z0, y0, x0), (z1 - 1, y1 - 1, x1 - 1)


def shifted_positions(
    options: SegmentOptions, volume_shape: Sequence[int], image: CanvasImage, fov: Sequence[int]
) -> NDArray[np.bool_]:
    """Return the positions (z, y, x), with the halo, with a large shift in the window around them and in the box.

    A shift is large if that along y or along x is at least `shift_mask_threshold`. The voxels of the shift mask are
    `shift_mask_scale` times as large as those of the image along y and x, and equal along z.

    Raises:
        ShapeError: If the shift mask does not cover the box.
        InvalidFileError: If the shift mask cannot be read, or has no two channels.
    """
    scale = (1, options.shift_mask_scale, options.shift_mask_scale)
    size = difference(difference(image.voxels.shape, image.halo_low), image.halo_high)
    ends = total(image.start, size)
    first = [start // n for start, n in zip(image.start, scale, strict=True)]
    last = [(end - 1) // n for end, n in zip(ends, scale, strict=True)]
    z, y, x = (b + 1 - a for a, b in zip(first, last, strict=True))
    large = np.zeros((z, y, x), np.bool_)
    for channel in range(2):
        shifts = Volume(options.shift_mask, channel=channel)
        if any(b >= n for b, n in zip(last, shifts.shape, strict=True)):
            whole = tuple(-(-n // m) for n, m in zip(volume_shape, scale, strict=True))
            raise ShapeError(
                f"segment: the shift mask {options.shift_mask} has {shifts.shape} voxels, expected {whole}, those of"
                f" the image divided by {scale}"
            )
        part = shifts.read(((first[0], first[1], first[2]), (z, y, x)))
        large |= np.abs(part.astype(np.float64)) >= options.shift_mask_threshold
    low, high = parse_window(options.shift_mask_fov, fov)
    canvas = difference(image.start, image.halo_low)  # first voxel of the canvas
    for axis in range(3):
        position = canvas[axis] + np.arange(image.voxels.shape[axis])
        begin = np.maximum(position + low[axis], image.start[axis]) // scale[axis] - first[axis]
        end = np.minimum((position + high[axis]) // scale[axis], last[axis]) - first[axis]
        reached = (position + high[axis] >= image.start[axis]) & (begin <= end)
        sums = np.cumsum(
            np.insert(np.moveaxis(large, axis, 0), 0, False, axis=0), axis=0, dtype=np.int32
        )
        found = sums[np.where(reached, end + 1, 0)] > sums[np.where(reached, begin, 0)]
        large = np.moveaxis(found, 0, axis)
    return large
