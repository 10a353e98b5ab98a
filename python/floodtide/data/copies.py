# SPDX-License-Identifier: Apache-2.0
"""Volumes of any format written block by block, in bounded memory, and copies from one format to another."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import files_of, hdf5_result, reserved, unchecked, volume_folder
from floodtide.comm import world
from floodtide.data import boxes, no_label
from floodtide.data.boxes import Box, Progress, Vec3, as_vec3, grown, reported, slices
from floodtide.data.formats.geometry import WRITTEN_BY, Geometry
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.formats.writers import Plan, Writer, blocks, new_top, not_written, shared_writer
from floodtide.data.resampling import Resampled
from floodtide.data.volumes import Volume, computed, settled_size, whole_geometry
from floodtide.errors import InvalidArgumentError, OutOfRangeError

BLOCK_BYTES = 64 << 20
"""Bytes of a block that is written at a time, unless a chunk of the destination is larger."""

_SEGMENTING = ("segment", "agglomerate", "reconcile", "resegment", "consensus")
"""Commands that write segmentations."""


def convert(
    source: str | Volume,
    destination: str | Path,
    *,
    voxel_size_nm: Sequence[float] | None = None,
    resample_nm: Sequence[float] | None = None,
    box: Box | str | None = None,
    labels: bool = False,
    erode: int | Vec3 = 0,
    command: str = "floodtide convert",
    progress: Progress | None = None,
) -> Volume:
    """Copy a volume to another format, block by block, and return the copy.

    Voxel size and offset stay where both formats have them. The destination appears when it is complete. In an HDF5
    file other datasets stay; every other destination must be new. Zarr is written as Zarr 3.

    Args:
        source: A volume, or its name.
        destination: The name of the copy.
        voxel_size_nm: Voxel size (z, y, x) in nm; it replaces the size that the source states.
        resample_nm: Voxel size (z, y, x) in nm of the copy, see `Resampled`; None: that of the source. A part of a
            larger volume then states where it begins in new voxels, rounded.
        box: Copy only this box, in voxels of the source, or that of a text "z0:z1,y0:y1,x0:x1". The copy
            states where it begins in the whole volume.
        labels: True: the voxels are ids, as in a result of floodtide. Precomputed volumes state it.
        erode: Voxels of the source, at most so far along an axis from another object, become 0 (`eroded`), before a
            resampling; one number, or one for each axis (z, y, x).
        command: The command that writes the copy. It may replace its own older datasets of HDF5 files.
        progress: Called as progress(voxels done, voxels).

    Raises:
        InvalidArgumentError: If the destination exists, is the source, or cannot hold the source's type; for labels
            that are no integers; if the voxel size is needed and unknown.
        OutOfRangeError: If the box is not inside the source.
        InvalidFileError: If the source cannot be read.
        StorageError: If the destination cannot be written.
    """
    destination = str(destination)
    steps = [erode] * 3 if isinstance(erode, int) else list(erode)
    if voxel_size_nm is not None:
        limits.VOXEL_SIZE.check(voxel_size_nm, "convert: voxel_size_nm")
    limits.DISTANCE.check(steps, "convert: erode")
    format_of(destination)  # refuses a name of no format
    volume = source if isinstance(source, Volume) else Volume(source)
    if labels and volume.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"convert: {volume.name} holds {volume.dtype}, expected integers for labels"
        )
    if any(steps) and not labels:
        raise InvalidArgumentError(f"convert: erode is {erode}, expected it only for labels")
    size = settled_size(volume, voxel_size_nm, "the copy")
    written_by, inputs = volume.text(WRITTEN_BY), files_of([volume.name])
    if any(steps):
        volume = eroded(volume, as_vec3(steps))
    if isinstance(box, str):
        box = boxes.parse_box(box)
    if box is not None:
        if not boxes.is_inside(box, volume.shape):
            raise OutOfRangeError(
                f"{volume.name}: box {boxes.box_text(box)} is not inside its {volume.shape} voxels"
            )
        volume = computed(volume, volume.read, box=box)
    plan = Plan(
        shape=volume.shape,
        dtype=volume.dtype,
        geometry=Geometry(voxel_size_nm=size, offset=volume.whole.offset),
        command=command,
        labels=labels or written_by.removeprefix("floodtide ") in _SEGMENTING,
    )
    read: Callable[[Box], NDArray[Any]] = volume.read
    if resample_nm is not None:
        if size is None:
            raise InvalidArgumentError(
                f"convert: {volume.name} states no voxel size; expected one, in nm (--voxel-nm)"
            )
        new = Resampled(volume, size, resample_nm, labels=labels)
        plan, read = new.plan(plan), new.read
    return write_blocks(destination, plan, read, inputs=inputs, progress=progress)


def write_blocks(
    destination: str,
    plan: Plan,
    read: Callable[[Box], NDArray[Any]],
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
    on_ranks: bool = False,
) -> Volume:
    """Write a volume of any format block by block, and return it.

    The destination appears when it is complete. In an HDF5 file other datasets stay; every other destination must be
    new.

    Args:
        plan: What to write. If its notes name an `image`, its offset counts from the image's first voxel.
        read: Returns the voxels of a box (start, size), in voxels of the volume to write.
        inputs: Files that `read` reads.
        progress: Called as progress(voxels done, voxels), with the voxels of this rank.
        on_ranks: Collective: the ranks share the blocks of Zarr, N5 and precomputed volumes. Rank 0 alone writes all
            other formats. The written voxels do not depend on the number of ranks.
    """
    rank, size = (world.rank(), world.size()) if on_ranks else (0, 1)
    agreed = world.agreed if on_ranks else contextlib.nullcontext
    with contextlib.ExitStack() as held:
        writer: Writer | None = None
        with agreed():
            if rank == 0:
                plan, writer = _created(held, destination, plan, inputs)
        shared = writer.shared if writer else ""
        if on_ranks:
            shared, plan = world.broadcast_object((shared, plan))
        with agreed():
            if writer is None and shared:
                writer = shared_writer(destination, shared, plan)
            if writer is not None:
                parts = list(blocks(plan.shape, writer.chunks, BLOCK_BYTES // plan.dtype.itemsize))
                for box in reported(parts[rank :: size if shared else 1], progress):
                    writer.write(box, read(box))
        with agreed():
            held.close()  # gives the volume its name
    return Volume(destination)


def require_new(destination: str) -> Path:
    """Return the file or folder of a volume of any format but HDF5. Raise InvalidArgumentError if it exists."""
    form = format_of(destination)
    place = form.path(destination)
    if form.create is not_written:
        not_written(destination)
    if os.path.lexists(place):
        raise InvalidArgumentError(
            f"{destination}: exists and is not replaced; choose another name, or remove it first"
        )
    if not place.parent.is_dir() and volume_folder(destination) in (None, str(place)):
        raise InvalidArgumentError(f"{destination}: there is no folder {place.parent}")
    return place


def _created(
    held: contextlib.ExitStack,
    destination: str,
    plan: Plan,
    inputs: Iterable[str | os.PathLike[str]],
) -> tuple[Plan, Writer]:
    """Reserve a destination and return its writer, and the plan.

    The plan of a volume that cannot name its image states voxel size and offset in the whole volume: `Volume.whole`
    reads the name of the image of an HDF5 volume only.
    """
    row, name = format_of(destination), plan.command.removeprefix("floodtide ")
    if row is HDF5:
        path, dataset = path_and_dataset(destination)
        held.enter_context(reserved(name, path, hdf5_result(plan.command, [dataset]), inputs))
    else:
        geometry = whole_geometry(plan.geometry, plan.notes.get("image", ""))
        plan = dataclasses.replace(plan, geometry=geometry)
        place = require_new(destination)
        held.enter_context(reserved(name, new_top(str(place)), unchecked, inputs))
    return plan, held.enter_context(row.create(destination, plan))


def eroded(volume: Volume, steps: Vec3) -> Volume:
    """Return integer labels (z, y, x) in which voxels near another object are 0.

    A network cannot learn a membrane that labels give to the objects on its two sides: it needs voxels between them.
    Where objects do not touch, nothing changes. Source: funkelab/gunpowder, GrowBoundary, which also erodes objects
    beside voxels of label 0.

    Args:
        volume: The labels. 0, negative values and the largest of 32 and 64 bits: no object.
        steps: Voxels (z, y, x) along each axis within which an object keeps away from a face to another one.
    """

    def read(box: Box) -> NDArray[Any]:
        around = grown(box, steps, volume.shape)
        labels = volume.read(around)
        known = no_label.cleared(labels)
        near = np.zeros(labels.shape, bool)
        for axis, count in enumerate(steps):
            near |= _near_another(known, axis, count)
        labels = np.where(near & (known > 0), labels.dtype.type(0), labels)
        return np.ascontiguousarray(labels[slices(box, around[0])])

    return computed(volume, read)


def _near_another(labels: NDArray[Any], axis: int, steps: int) -> NDArray[np.bool_]:
    """Return the voxels within `steps` voxels along an axis of a face between two objects."""
    lines = np.moveaxis(labels, axis, 0)
    a, b = lines[:-1], lines[1:]
    faces = (a != b) & (a > 0) & (b > 0)
    near = np.zeros(lines.shape, bool)
    for step in range(min(steps, len(faces))):
        near[: len(faces) - step] |= faces[step:]
        near[1 + step :] |= faces[: len(faces) - step]
    return np.moveaxis(near, 0, axis)
