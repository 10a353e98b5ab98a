# SPDX-License-Identifier: Apache-2.0
"""What a segmentation starts from: the part of an image that is flooded, its closed voxels, and its seeds.

Source of masks and shifts: google/ffn, storage.build_mask, movement.MovementRestrictor and Runner.make_restrictor.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits, reading
from floodtide.base.files import path_and_dataset
from floodtide.base.registry import listed
from floodtide.config.segment_options import (
    LISTED,
    MaskChannel,
    MaskOptions,
    SegmentOptions,
    seed_policies,
)
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3, difference, is_inside, parse_ends, slices, total
from floodtide.data.no_label import cleared
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError
from floodtide.segment.ffn_files import path_in, read_reversed_seeds

Mask = NDArray[np.bool_]
Seeds = NDArray[np.integer[Any]] | Sequence[Sequence[int]]
"""Rows (n, 3) of z, y, x."""

Window = tuple[Vec3, Vec3]
"""First and last voxel (z, y, x) of a window, relative to a position."""

BYTES_PER_VOXEL = 20
"""Memory (bytes) for each voxel of a box: stored image, normalised image, canvas, labels and seeds."""

_LARGEST = 4096  # distance of a window's edge

_MOVES, _SEEDS, _SEGMENT, _SHIFT = (
    _core.segment.closed_bits()[name] for name in ("moves", "seeds", "segment", "shift")
)


class CanvasImage(NamedTuple):
    """A box of an image, with a halo of reflected voxels at the faces of the volume."""

    voxels: NDArray[np.float32]  # (z, y, x), with the halo
    start: Vec3  # first voxel of the box, in voxels of the volume
    halo_low: Vec3
    halo_high: Vec3
    volume: Volume  # that has the box

    @property
    def inner(self) -> Vec3:
        """Return the size (z, y, x) of the box, without the halo."""
        return difference(difference(self.voxels.shape, self.halo_low), self.halo_high)


class Canvas(NamedTuple):
    """What is flooded: an image, and where fields of view and seeds may be."""

    image: CanvasImage
    labels: NDArray[np.int64] | None  # segments (z, y, x) of the box that keep their voxels and ids
    closed: NDArray[np.uint8] | None  # bits of voxels, see `closed_voxels`


def read_canvas(
    volume: Volume,
    box: Box | None,
    options: SegmentOptions,
    fov: Sequence[int],
    initial: Volume | None = None,
) -> Canvas:
    """Read a box of an image, what is segmented there already, and the masks of the options.

    Args:
        volume, box: As for `Segmenter.segment`.
        options: The masks; `reflect` says whether the image continues beyond the faces of the volume.
        initial: Segments that keep their voxels and ids, in voxels of the volume; None: none.
    """
    image = read_image(volume, box, margin_of(options, fov))
    labels = None
    if initial is not None:
        stored = read_labels(initial, "the initial segmentation", image)
        labels = np.ascontiguousarray(stored, dtype=np.int64)
    return Canvas(image, labels, closed_voxels(options, image, labels, fov))


def seeds_of(
    canvas: Canvas, options: SegmentOptions, fov: Sequence[int], seeds: Seeds | None
) -> NDArray[np.int64]:
    """Return the seeds (n, 3) in voxels of a canvas, in the order in which they are tried.

    Args:
        seeds: As for `Segmenter.segment`; None: those of the options.
    """
    if seeds is None and options.seeds and LISTED not in _policies(options):
        seeds = read_seeds(options.seeds, canvas.image.start)
    if seeds is not None:
        return place_seeds(seeds, canvas.image, fov)
    return policy_seeds(options, canvas.image, fov, canvas.closed)


def margin_of(options: SegmentOptions, fov: Sequence[int]) -> list[int]:
    """Return how many voxels are reflected at the faces of the volume."""
    return [size // 2 if options.reflect else 0 for size in fov]


def halo(box: Box, volume_shape: Sequence[int], margin: Sequence[int]) -> tuple[Vec3, Vec3]:
    """Return how many voxels `read_image` reflects at the low and at the high faces of a box."""
    start, size = box
    ends = total(start, size)
    low = as_vec3([n if a == 0 else 0 for n, a in zip(margin, start, strict=True)])
    high = as_vec3([n if b == m else 0 for n, b, m in zip(margin, ends, volume_shape, strict=True)])
    return low, high


def read_image(volume: Volume, box: Box | None, margin: Sequence[int]) -> CanvasImage:
    """Read a box as float32, and reflect `margin` voxels at each of its faces that is a face of the volume."""
    start, size = ((0, 0, 0), volume.shape) if box is None else box
    low, high = halo((start, size), volume.shape, margin)
    limits.require_memory(
        f"segment: {' x '.join(map(str, size))} voxels need",
        BYTES_PER_VOXEL * math.prod(total(total(low, size), high)),
        "a smaller box",
    )
    voxels = volume.read(box)
    if max(low + high) > 0:
        voxels = np.pad(voxels, list(zip(low, high, strict=True)), mode="reflect")
    return CanvasImage(as_float32(voxels), start, low, high, volume)


def as_float32(voxels: NDArray[Any]) -> NDArray[np.float32]:
    """Return voxels as the core reads them. Numbers beyond float32 become infinite, which the core refuses."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(voxels, dtype=np.float32)


def read_labels(labels: Volume, what: str, image: CanvasImage) -> NDArray[np.integer[Any]]:
    """Return the labels of a volume in the box of an image, without the halo. Voxels without a label are 0."""
    values = read_part(labels, what, image)
    if not np.issubdtype(values.dtype, np.integer):
        raise InvalidArgumentError(f"segment: {what} holds {values.dtype}, expected integers")
    return cleared(values, what)


def read_part(labels: Volume, what: str, image: CanvasImage) -> NDArray[Any]:
    """Return the voxels of another volume in the box of an image, without the halo.

    Args:
        labels: A volume that covers the box. A volume without offset begins where the image begins.
        what: Name of the volume in messages: "the mask".
    """
    offset = placed(labels, image.volume)
    size = image.inner
    start = difference(image.start, offset)
    if not is_inside((start, size), labels.shape):
        raise ShapeError(
            f"segment: {what} has {labels.shape} voxels from {offset}, expected one that covers {size} from"
            f" {image.start}"
        )
    return labels.read((start, size))


def without_halo(image: CanvasImage) -> NDArray[np.float32]:
    """Return the voxels of the box, a view."""
    return image.voxels[slices((image.halo_low, image.inner))]


def placed(labels: Volume, volume: Volume) -> Vec3:
    """Return the first voxel of labels, in voxels of another volume.

    Without an offset, labels begin where the volume begins. An offset counts from where that of the volume does. If the
    volume states none, or the labels are a result of floodtide, an offset counts from the first voxel of the volume.
    """
    offset, first = labels.geometry.offset, volume.geometry.offset
    if offset is not None and first is not None:
        return offset if labels.text("image") else difference(offset, first)
    return (0, 0, 0) if offset is None or labels.shape == volume.shape else offset


def place_seeds(seeds: Seeds, image: CanvasImage, fov: Sequence[int]) -> NDArray[np.int64]:
    """Return the seeds (n, 3), given in voxels of the volume, in voxels of the canvas, where a field of view fits."""
    rows = np.asarray(seeds)
    if rows.size == 0:
        return np.zeros((0, 3), np.int64)
    if rows.ndim != 2 or rows.shape[1] != 3 or not np.issubdtype(rows.dtype, np.integer):
        raise InvalidArgumentError(
            f"segment: seeds of shape {rows.shape} and type {rows.dtype}, expected integers (n, 3) of z, y, x"
        )
    local = rows.astype(np.int64) - difference(image.start, image.halo_low)
    margin = np.array(fov) // 2
    fits = (local >= margin) & (local + margin < image.voxels.shape)
    return np.ascontiguousarray(local[fits.all(axis=1)])


def closed_voxels(
    options: SegmentOptions,
    image: CanvasImage,
    initial: NDArray[np.int64] | None,
    fov: Sequence[int],
) -> NDArray[np.uint8] | None:
    """Return the bits (`closed_bits` of the core) of the voxels of an image, with its halo; None if none can be closed.

    Args:
        initial: Initial segmentation of the box (z, y, x), without the halo.
    """
    parts = [
        (bit, _set_in(mask, image))
        for bit, masks in ((_MOVES, options.masks), (_SEEDS, options.seed_masks))
        for mask in masks
    ]
    if initial is not None:
        parts.append((_SEGMENT, initial > 0))
    if not parts and not options.shift_mask:
        return None
    closed = np.zeros(without_halo(image).shape, np.uint8)
    for bit, mask in parts:
        closed[mask] |= bit
    halo_of = list(zip(image.halo_low, image.halo_high, strict=True))
    closed = np.ascontiguousarray(np.pad(closed, halo_of, mode="reflect"))
    if options.shift_mask:
        closed[shifted_positions(options, image, fov)] |= _SHIFT
    return closed


def _set_in(mask: MaskOptions, image: CanvasImage) -> Mask:
    """Return where a mask is set (z, y, x), without the halo."""
    chosen: Mask = np.logical_or.reduce(
        [
            _chosen(channel, _values(mask, channel.channel, image))
            for channel in mask.channels or (MaskChannel(),)
        ]
    )
    return ~chosen if mask.invert else chosen


def _values(mask: MaskOptions, channel: int, image: CanvasImage) -> NDArray[Any]:
    if mask.volume:
        source = Volume(mask.volume, channel=channel)
        return read_part(source, f"the mask {mask.volume}", image)
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
    """Return the window of a text "z0:z1,y0:y1,x0:x1" (ends excluded); that of the field of view for an empty text."""
    if not text.strip():
        z, y, x = (size // 2 for size in fov)
        return (-z, -y, -x), (z, y, x)
    start, ends = parse_ends(text, r"-?\d{1,4}")
    if not ends or max(-min(start), *ends) > _LARGEST:
        raise InvalidArgumentError(
            f"segment: shift_mask_fov is {text!r}, expected z0:z1,y0:y1,x0:x1 relative to a position, with z0 < z1,"
            f" y0 < y1, x0 < x1, for example -16:17,-16:17,-16:17, and distances of at most {_LARGEST}"
        )
    return as_vec3(start), difference(ends, (1, 1, 1))


def shifted_positions(options: SegmentOptions, image: CanvasImage, fov: Sequence[int]) -> Mask:
    """Return the positions (z, y, x), with the halo, with a large shift in the window around them and in the box.

    A shift is large if that along y or along x is at least `shift_mask_threshold`. The voxels of the shift mask are
    `shift_mask_scale` times as large as those of the image along y and x, and equal along z.
    """
    scale = (1, options.shift_mask_scale, options.shift_mask_scale)
    ends = total(image.start, image.inner)
    first = [start // n for start, n in zip(image.start, scale, strict=True)]
    last = [(end - 1) // n for end, n in zip(ends, scale, strict=True)]
    size = total(difference(last, first), (1, 1, 1))
    large = np.zeros(size, np.bool_)
    for channel in range(2):
        shifts = Volume(options.shift_mask, channel=channel)
        if any(b >= n for b, n in zip(last, shifts.shape, strict=True)):
            whole = tuple(-(-n // m) for n, m in zip(image.volume.shape, scale, strict=True))
            raise ShapeError(
                f"segment: the shift mask {options.shift_mask} has {shifts.shape} voxels, expected {whole}, those of"
                f" the image divided by {scale}"
            )
        part = shifts.read((as_vec3(first), size))
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


class Seeded(NamedTuple):
    """Seed (z, y, x) and number of network calls of a segment."""

    id: int
    zyx: Vec3
    calls: int


def read_origins(reference: str) -> list[Seeded]:
    """Return the origins in the HDF5 file of a segmentation, "file:dataset".

    Raises:
        InvalidFileError: If the file has no origins, or is damaged.
    """
    rows = _core.segment.read_origins(path_and_dataset(reference)[0]).tolist()
    return [Seeded(name, (z, y, x), calls) for name, z, y, x, calls in rows]


def seed_bytes_per_voxel(options: SegmentOptions) -> int:
    """Return the memory (bytes) for each voxel of a box that the seeds need; 0 for policies with few seeds."""
    names = _policies(options)
    return sum(row["bytes_per_voxel"] * names.count(row["name"]) for row in seed_policies())


def _policies(options: SegmentOptions) -> list[str]:
    return [name for name, _ in listed(options.seed_policy)]


def policy_seeds(
    options: SegmentOptions,
    image: CanvasImage,
    fov: Sequence[int],
    closed: NDArray[np.uint8] | None,
) -> NDArray[np.int64]:
    """Return the seeds (n, 3) of `options.seed_policy` in voxels of the canvas, in the order in which they are tried.

    Args:
        closed: Bits of voxels (`closed_voxels`), or None.
    """
    limits.require_memory(
        f"segment: seed_policy '{options.seed_policy}' needs",
        seed_bytes_per_voxel(options) * image.voxels.size,
        "a smaller box or another policy",
    )
    rows = {row["name"]: row for row in _core.segment.seed_policies()}
    margin = [size // 2 for size in fov]
    found = []
    for name, is_reversed in listed(options.seed_policy):
        if name != LISTED:
            known = {spec["name"] for spec in rows[name]["parameters"]}
            values = {key: value for key, value in options.seed_values.items() if key in known}
            seeds = _core.segment.find_seeds(
                image.voxels, *options.normalisation, name, values, margin, None, closed
            )
        elif options.seeds:
            seeds = place_seeds(read_seeds(options.seeds, image.start), image, fov)
        else:
            raise InvalidArgumentError(
                f"segment: seed_policy is '{options.seed_policy}', but segment.seeds is empty; expected the file of"
                f" the policy {LISTED}"
            )
        found.append(seeds[::-1] if is_reversed else seeds)
    return np.concatenate(found)


def seed_files(path: str) -> list[str]:
    """Return the files with seeds that a name stands for: all files of google/ffn in a folder, or the file itself."""
    return sorted(map(str, Path(path).rglob("seg-*.npz"))) if os.path.isdir(path) else [path]


def read_seeds(path: str, start: Vec3 = (0, 0, 0)) -> NDArray[np.int64]:
    """Return the seeds (n, 3) in a file: z, y, x in each line of a text; or the seeds of an earlier segmentation.

    Args:
        path: A text file; or an HDF5 file that `floodtide segment` has written, or a file seg-X_Y_Z.npz of google/ffn,
            whose seeds are taken in reverse order, as in PolicyInvertOrigins; or a folder of such files.
        start: First voxel (z, y, x) of the box that will be segmented: chooses the file of a folder.
    """
    if os.path.isdir(path):
        return read_reversed_seeds(path_in(path, start))
    if path.lower().endswith(".npz"):
        return read_reversed_seeds(path)
    if path.lower().endswith((".h5", ".hdf5")):
        return np.ascontiguousarray(_core.segment.read_seeds(path)[::-1])
    rows = []
    for number, line in enumerate(reading.read_text(path, "z, y, x in each line").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 3 or not all(word.isdecimal() and len(word) <= 13 for word in words):
            raise InvalidFileError(f"{path}, line {number}: expected z, y, x, three whole numbers")
        rows.append([int(word) for word in words])
    return np.array(rows, np.int64).reshape(-1, 3)
