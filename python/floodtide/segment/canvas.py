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
from floodtide.base.options import listed
from floodtide.config.segment_options import LISTED, MaskChannel, MaskOptions, SegmentOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3, difference, is_inside, parse_ends, slices, total
from floodtide.data.no_label import cleared
from floodtide.data.volumes import as_volume
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError
from floodtide.segment.ffn_files import path_in, read_reversed_seeds

Mask = NDArray[np.bool_]
Seeds = NDArray[np.integer[Any]] | Sequence[Sequence[int]]
"""Rows (n, 3) of z, y, x."""

BYTES_PER_VOXEL = 20
"""Memory (bytes) for each voxel of a box: stored image, normalised image, canvas, labels and seeds."""

_MOVES, _SEEDS, _SEGMENT, _SHIFT = (
    _core.segment.closed_bits()[name] for name in ("moves", "seeds", "segment", "shift")
)


class Canvas(NamedTuple):
    """What is flooded: a box of an image, with a halo of reflected voxels at the faces of the volume."""

    voxels: NDArray[np.float32]  # (z, y, x), with the halo
    start: Vec3  # first voxel of the box, in voxels of the volume
    halo_low: Vec3
    halo_high: Vec3
    volume: Volume  # that has the box
    labels: NDArray[np.int64] | None = None  # segments of the box that keep their voxels and ids
    closed: NDArray[np.uint8] | None = None  # bits of voxels, see `closed_voxels`

    @property
    def inner(self) -> Vec3:
        """Return the size (z, y, x) of the box, without the halo."""
        return difference(difference(self.voxels.shape, self.halo_low), self.halo_high)


def read_canvas(
    volume: Volume,
    box: Box | None,
    options: SegmentOptions,
    fov: Sequence[int],
    initial: NDArray[Any] | Volume | None = None,
) -> Canvas:
    """Read a box of an image, what is segmented there already, and the masks of the options.

    Args:
        volume, box: As for `Segmenter.segment`.
        options: The masks; `reflect` says whether the image continues beyond the faces of the volume.
        initial: Segments that keep their voxels and ids, in voxels of the volume; None: those of the options.
    """
    image = read_image(volume, box, [n // 2 if options.reflect else 0 for n in fov])
    labels = None
    if initial is not None or options.initial:
        given = as_volume(options.initial if initial is None else initial)
        stored = read_labels(given, "the initial segmentation", image)
        labels = np.ascontiguousarray(stored, dtype=np.int64)
    return image._replace(labels=labels, closed=closed_voxels(options, image, labels, fov))


def seeds_of(
    canvas: Canvas, options: SegmentOptions, fov: Sequence[int], seeds: Seeds | None
) -> NDArray[np.int64]:
    """Return the seeds (n, 3) in voxels of a canvas, in the order in which they are tried.

    Args:
        seeds: As for `Segmenter.segment`; None: those of the options.
    """
    policies = listed(options.seed_policy)
    if seeds is not None or (options.seeds and LISTED not in dict(policies)):
        policies = [(LISTED, False)]
    rows = {row["name"]: row for row in _core.segment.seed_policies()}
    margin = [size // 2 for size in fov]
    parts = []
    for name, is_reversed in policies:
        if name == LISTED:
            given = _listed_seeds(options, canvas.start) if seeds is None else seeds
            found = place_seeds(given, canvas, fov)
        else:
            known = {spec["name"] for spec in rows[name]["parameters"]}
            values = {key: value for key, value in options.seed_values.items() if key in known}
            found = _core.segment.find_seeds(
                canvas.voxels, *options.normalisation, name, values, margin, None, canvas.closed
            )
        parts.append(found[::-1] if is_reversed else found)
    return np.concatenate(parts)


def read_image(volume: Volume, box: Box | None, margin: Sequence[int]) -> Canvas:
    """Read a box as float32, and reflect `margin` voxels at each of its faces that is a face of the volume."""
    start, size = ((0, 0, 0), volume.shape) if box is None else box
    low = as_vec3([n if a == 0 else 0 for n, a in zip(margin, start, strict=True)])
    faces = zip(margin, total(start, size), volume.shape, strict=True)
    high = as_vec3([n if end == whole else 0 for n, end, whole in faces])
    limits.require_memory(
        f"segment: {' x '.join(map(str, size))} voxels need",
        BYTES_PER_VOXEL * math.prod(total(total(low, size), high)),
        "a smaller box",
    )
    voxels = volume.read(box)
    if max(low + high) > 0:
        voxels = np.pad(voxels, list(zip(low, high, strict=True)), mode="reflect")
    return Canvas(as_float32(voxels), start, low, high, volume)


def as_float32(voxels: NDArray[Any]) -> NDArray[np.float32]:
    """Return voxels as the core reads them. Numbers beyond float32 become infinite, which the core refuses."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(voxels, dtype=np.float32)


def read_labels(labels: Volume, what: str, image: Canvas) -> NDArray[np.integer[Any]]:
    """Return the labels of a volume in the box of an image, without the halo. Voxels without a label are 0."""
    values = read_part(labels, what, image)
    if not np.issubdtype(values.dtype, np.integer):
        raise InvalidArgumentError(f"segment: {what} holds {values.dtype}, expected integers")
    return cleared(values, what)


def read_part(labels: Volume, what: str, image: Canvas) -> NDArray[Any]:
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


def placed(labels: Volume, volume: Volume) -> Vec3:
    """Return the first voxel of labels, in voxels of another volume.

    Without an offset, labels begin where the volume begins. An offset counts from where that of the volume does. If the
    volume states none, or the labels are a result of floodtide, an offset counts from the first voxel of the volume.
    """
    offset, first = labels.geometry.offset, volume.geometry.offset
    if offset is not None and first is not None:
        return offset if labels.text("image") else difference(offset, first)
    return (0, 0, 0) if offset is None or labels.shape == volume.shape else offset


def place_seeds(seeds: Seeds, image: Canvas, fov: Sequence[int]) -> NDArray[np.int64]:
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
    options: SegmentOptions, image: Canvas, initial: NDArray[np.int64] | None, fov: Sequence[int]
) -> NDArray[np.uint8] | None:
    """Return the bits (`closed_bits` of the core) of the voxels of an image, with its halo; None if none can be closed.

    Args:
        initial: Initial segmentation of the box (z, y, x), without the halo.
    """
    masks = [(_MOVES, mask) for mask in options.masks]
    masks += [(_SEEDS, mask) for mask in options.seed_masks]
    if not masks and initial is None and not options.shift_mask:
        return None
    closed = np.zeros(image.inner, np.uint8)
    for bit, mask in masks:
        closed[_set_in(mask, image)] |= bit
    if initial is not None:
        closed[initial > 0] |= _SEGMENT
    halo_of = list(zip(image.halo_low, image.halo_high, strict=True))
    closed = np.ascontiguousarray(np.pad(closed, halo_of, mode="reflect"))
    if options.shift_mask:
        closed[shifted_positions(options, image, fov)] |= _SHIFT
    return closed


def _set_in(mask: MaskOptions, image: Canvas) -> Mask:
    """Return where a mask is set (z, y, x), without the halo."""
    found = np.zeros(image.inner, np.bool_)
    for channel in mask.channels or (MaskChannel(),):
        values = image.voxels[slices((image.halo_low, image.inner))]
        if mask.volume:
            source = Volume(mask.volume, channel=channel.channel)
            values = read_part(source, f"the mask {mask.volume}", image)
        elif channel.channel != 0:
            raise InvalidArgumentError(
                f"segment: a mask of the image names channel {channel.channel}, expected channel 0"
            )
        found |= _chosen(channel, values)
    return ~found if mask.invert else found


def _chosen(channel: MaskChannel, values: NDArray[Any]) -> Mask:
    low, high = channel.minimum, channel.maximum
    if channel.values:
        wanted = [v for v in channel.values if np.array(v).astype(values.dtype) == v]
        chosen = np.isin(values, np.array(wanted, values.dtype))
    elif low is None and high is None:
        chosen = values != 0
    else:
        chosen = values >= (-math.inf if low is None else low)
        chosen &= values <= (math.inf if high is None else high)
    return ~chosen if channel.invert else chosen


def parse_window(text: str, fov: Sequence[int]) -> tuple[Vec3, Vec3]:
    """Return the first and the last voxel (z, y, x), relative to a position, of a window "z0:z1,y0:y1,x0:x1".

    The ends of the text are excluded. An empty text is the window of a field of view.
    """
    if not text.strip():
        return as_vec3([-(n // 2) for n in fov]), as_vec3([n // 2 for n in fov])
    start, ends = parse_ends(text, r"-?\d{1,4}")
    if not ends or max(-min(start), *ends) not in limits.DISTANCE:
        raise InvalidArgumentError(
            f"segment: shift_mask_fov is {text!r}, expected z0:z1,y0:y1,x0:x1 relative to a position, with z0 < z1,"
            f" y0 < y1, x0 < x1, for example -16:17,-16:17,-16:17, and distances of at most {limits.DISTANCE.maximum}"
        )
    return as_vec3(start), difference(ends, (1, 1, 1))


def shifted_positions(options: SegmentOptions, image: Canvas, fov: Sequence[int]) -> Mask:
    """Return the positions (z, y, x), with the halo, with a large shift in the window around them and in the box.

    A shift is large if that along y or along x is at least `shift_mask_threshold`. The voxels of the shift mask are
    `shift_mask_scale` times as large as those of the image along y and x, and equal along z.
    """
    scale = (1, options.shift_mask_scale, options.shift_mask_scale)

    def divided(numbers: Vec3) -> Vec3:  # rounded up
        return as_vec3([-(-n // m) for n, m in zip(numbers, scale, strict=True)])

    corner = as_vec3([n // m for n, m in zip(image.start, scale, strict=True)])
    size = difference(divided(total(image.start, image.inner)), corner)
    large = np.zeros(size, np.bool_)
    for channel in range(2):
        shifts = Volume(options.shift_mask, channel=channel)
        if not is_inside((corner, size), shifts.shape):
            raise ShapeError(
                f"segment: the shift mask {options.shift_mask} has {shifts.shape} voxels, expected"
                f" {divided(image.volume.shape)}, those of the image divided by {scale}"
            )
        part = shifts.read((corner, size)).astype(np.float64)
        large |= np.abs(part) >= options.shift_mask_threshold
    low, high = parse_window(options.shift_mask_fov, fov)
    for axis, begin in enumerate(image.start):
        position = begin - image.halo_low[axis] + np.arange(image.voxels.shape[axis])
        first = np.maximum(position + low[axis], begin) // scale[axis] - corner[axis]
        behind = (position + high[axis]) // scale[axis] - corner[axis] + 1
        behind[position + high[axis] < begin] = 0  # the window ends before the box
        counts = np.cumsum(np.insert(large, 0, False, axis), axis, dtype=np.int32)
        large = counts.take(behind, axis, mode="clip") > counts.take(first, axis, mode="clip")
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


def _listed_seeds(options: SegmentOptions, start: Vec3) -> NDArray[np.int64]:
    if not options.seeds:
        raise InvalidArgumentError(
            f"segment: seed_policy is '{options.seed_policy}', but segment.seeds is empty; expected the file of the"
            f" policy {LISTED}"
        )
    return read_seeds(options.seeds, start)


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
