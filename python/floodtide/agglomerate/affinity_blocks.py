# SPDX-License-Identifier: Apache-2.0
"""Segments of affinities in overlapping subvolumes. Each subvolume is the work of the process that locks its file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base.outputs import files_of, hdf5_result, refuse_inputs, reserved
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config import to_dict
from floodtide.data import Vec3, Volume
from floodtide.data.boxes import Progress
from floodtide.data.copies import write_blocks
from floodtide.data.formats.geometry import Geometry
from floodtide.data.formats.table import format_of
from floodtide.data.formats.writers import Plan
from floodtide.data.volumes import whole_geometry
from floodtide.errors import InvalidArgumentError
from floodtide.segment import Pieces
from floodtide.segment.affinities import AffinityFile, AffinityOptions, segments_of
from floodtide.segment.blocks import lock_directory, sampled_digest, work_on_ranks
from floodtide.segment.pieces import DATASET, Cut

_COMMAND = "floodtide agglomerate"
_OVERLAP = 32  # voxels of neighbouring subvolumes
_CHUNK = 64  # voxels along each axis of a stored chunk


def write_segments(
    affinities: AffinityFile,
    options: AffinityOptions,
    destination: str,
    *,
    voxel_size_nm: tuple[float, float, float] | None = None,
    notes: Mapping[str, str] | None = None,
) -> tuple[int, float]:
    """Make the segments of affinities in one piece, and write them to a volume of any format. Not collective.

    Args:
        affinities: The affinities.
        options: How they become segments.
        destination: The volume to write.
        voxel_size_nm: Voxel size (z, y, x) that the volume states; None: that of the affinities, if any.
        notes: Texts that become attributes of the volume.

    Returns:
        The number of segments, and the share of the voxels that are in one.

    Raises:
        Error: As `segments_of` and `floodtide.data.convert` raise.
    """
    start, size = affinities.box
    labels = segments_of(affinities.read(affinities.box), affinities.offsets, options)
    plan = Plan(
        shape=size,
        dtype=np.dtype(np.uint32),
        geometry=Geometry(voxel_size_nm=voxel_size_nm or affinities.voxel_size_nm, offset=start),
        command=_COMMAND,
        notes={
            **({"image": affinities.image} if affinities.image else {}),
            **(notes or {}),
            "affinities": affinities.name,
            "options": json.dumps(to_dict(options)),
        },
    )
    read = Volume(labels.astype(np.uint32, copy=False)).read
    write_blocks(destination, plan, read, inputs=files_of([affinities.name]))
    return int(labels.max(initial=0)), float(np.count_nonzero(labels) / max(1, labels.size))


def agglomerate(
    affinities: AffinityFile,
    out: str,
    options: AffinityOptions,
    *,
    subvolume: Vec3 | None = None,
    overlap: Vec3 | None = None,
) -> dict[str, Any]:
    """Make segments of affinities, as `floodtide agglomerate` does. Collective.

    Args:
        affinities: The affinities.
        out: The volume to write; with `subvolume` a folder, for `floodtide.segment.reconcile`.
        options: How they become segments.
        subvolume: Size (z, y, x) in voxels of the subvolumes that ranks share; None: one piece, made by rank 0.
        overlap: Smallest overlap (z, y, x) of subvolumes; None: 32 voxels, at most a quarter of a subvolume.

    Returns:
        `out`, and `subvolumes`; or in one piece `segments` and `coverage`, on rank 0 alone.

    Raises:
        floodtide.errors.Error: As `write_segments` and `agglomerate_on_ranks`.
    """
    with world.agreed():
        refuse_inputs("agglomerate", [out], files_of([affinities.name]))
        if subvolume is None:
            format_of(out)
        elif ":" in out:
            raise InvalidArgumentError(
                f"{out}: names a dataset, expected a folder with --subvolume"
            )
    if subvolume is not None:
        z, y, x = (min(_OVERLAP, size // 4) for size in subvolume)
        overlap = overlap or (z, y, x)
        with bar("subvolumes", "agglomerate", line_every_s=10.0) as progress:
            pieces = agglomerate_on_ranks(
                out, affinities, options, subvolume=subvolume, overlap=overlap, progress=progress
            )
        return {"subvolumes": len(pieces.cut), "out": out}
    report: dict[str, Any] = {"out": out}
    with world.agreed():
        if world.rank() == 0:
            report["segments"], report["coverage"] = write_segments(affinities, options, out)
    return report


def agglomerate_on_ranks(
    directory: str | os.PathLike[str],
    affinities: AffinityFile,
    options: AffinityOptions,
    *,
    subvolume: Vec3,
    overlap: Vec3,
    progress: Progress | None = None,
) -> Pieces:
    """Make the segments of affinities in overlapping subvolumes on all ranks. Collective.

    `floodtide.segment.reconcile` makes one segmentation of them. The same call continues after a crash.

    Args:
        directory: A directory that is new, or was made with the same arguments.
        affinities: The affinities.
        options: How they become segments.
        subvolume: Size (z, y, x) of a subvolume in voxels.
        overlap: Smallest overlap (z, y, x) of neighbours, at most half a subvolume.
        progress: Called as progress(subvolumes done, subvolumes) on rank 0.

    Raises:
        InvalidArgumentError: If a size is out of range, or the directory is for something else.
        LockedError: If another job uses the directory.
        StorageError: If the directory cannot be written.
    """
    with contextlib.ExitStack() as held:
        with world.agreed():
            pieces = _pieces(directory, affinities, options, subvolume, overlap)
            if world.rank() == 0:
                held.callback(lock_directory("agglomerate", directory).release)
        _work(pieces, affinities, options, progress)
    return pieces


def _pieces(
    directory: str | os.PathLike[str],
    affinities: AffinityFile,
    options: AffinityOptions,
    subvolume: Vec3,
    overlap: Vec3,
) -> Pieces:
    cut = Cut(affinities.box, subvolume, overlap)
    z, y, x = (a + n for a, n in zip(*affinities.box, strict=True))
    settings: dict[str, Any] = {
        "affinities": affinities.name,
        "voxels": sampled_digest(affinities.read, affinities.box, (_CHUNK,) * 3),
        "options": to_dict(options),
    }
    if affinities.image:
        settings["image"] = affinities.image
    settings["geometry"] = {
        "voxel_size_nm": affinities.voxel_size_nm,
        "offset": whole_geometry(Geometry(), affinities.image).offset,
    }
    return Pieces.create(directory, cut, (z, y, x), settings)


def _work(
    pieces: Pieces,
    affinities: AffinityFile,
    options: AffinityOptions,
    progress: Progress | None,
) -> None:
    def work(number: int) -> bool:
        with reserved("agglomerate", pieces.path(number), hdf5_result(_COMMAND, [DATASET])):
            if pieces.done(number):
                return False
            pieces.begin()
            _store(pieces, number, affinities, options)
        if progress is not None and world.rank() == 0:
            progress(len(pieces.cut) - sum(1 for _ in pieces.missing()), len(pieces.cut))
        return True

    work_on_ranks(range(len(pieces.cut)), pieces.done, work)


def _store(pieces: Pieces, number: int, affinities: AffinityFile, options: AffinityOptions) -> None:
    start, size = box = pieces.cut.subvolume(number)
    labels = segments_of(affinities.read(box), affinities.offsets, options)
    file = _core.data.Hdf5Writer(str(pieces.path(number)), _COMMAND, [DATASET])
    try:
        file.create(DATASET, "uint32", list(size), [min(n, _CHUNK) for n in size], 4)
        file.attribute(DATASET, "box_start", list(start))
        file.attribute(DATASET, "box_size", list(size))
        file.attribute(DATASET, "volume_shape", list(pieces.volume_shape))
        file.write(DATASET, [0, 0, 0], labels.astype(np.uint32))
        file.finish()
    finally:
        file.discard()
