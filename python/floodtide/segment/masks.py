# SPDX-License-Identifier: Apache-2.0
"""Voxels that are closed to moves and seeds: by masks, by shifts, and by the initial segmentation.

Source: google/ffn, storage.build_mask and movement.MovementRestrictor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.config.segment_options import MaskChannel, MaskOptions, SegmentOptions
from floodtide.data import Volume
from floodtide.errors import InvalidArgumentError
from floodtide.segment.canvas_image import CanvasImage, read_part, with_halo, without_halo
from floodtide.segment.shift_mask import shifted_positions

Mask = NDArray[np.bool_]

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
    moves = list(options.masks)
    if options.mask:
        moves.append(MaskOptions(volume=options.mask, invert=options.mask_invert))
    for bit, masks in ((_MOVES, moves), (_SEEDS, options.seed_masks)):
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


def closed_to_moves(closed: NDArray[np.uint8] | None) -> NDArray[np.uint8] | None:
    """Return 1 where no field of view may be centred, of the bits of `closed_voxels`."""
    return None if closed is None else ((closed & (_MOVES | _SHIFT)) > 0).astype(np.uint8)


def volumes_of(options: SegmentOptions) -> list[str]:
    """Return the names of all volumes that a segmentation with these options reads."""
    masks = [mask.volume for mask in (*options.masks, *options.seed_masks)]
    others = [options.initial, options.seed_image, options.shift_mask, options.mask]
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
