# SPDX-License-Identifier: Apache-2.0
"""Files of affinities to volumes of segments, in one piece or in subvolumes.

Each subvolume is the work of the process that locks its file.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import reading
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import files_of, refuse_inputs
from floodtide.comm import world
from floodtide.config import to_dict
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, as_vec3, box_text, difference, intersection, total
from floodtide.data.copies import write_blocks
from floodtide.data.formats.geometry import Geometry
from floodtide.data.formats.hdf5 import open_dataset
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.formats.writers import Plan
from floodtide.data.places import Place, places_beside, write_places
from floodtide.data.volumes import whole_geometry
from floodtide.errors import InvalidArgumentError, InvalidFileError, OutOfRangeError
from floodtide.segment.blocks import sampled_digest, store_on_ranks
from floodtide.segment.doubts import segments_with_places
from floodtide.segment.linking import AffinityOptions, require_range
from floodtide.segment.pieces import Cut, Pieces

_COMMAND = "floodtide agglomerate"

OVERLAP = 32
"""Voxels that neighbouring subvolumes share, unless that is more than a quarter of a subvolume."""


def offsets_of(rows: Sequence[Sequence[Any]]) -> list[list[int]]:
    """Return offsets [z, y, x] of JSON. Raise ValueError or TypeError unless all are three whole numbers."""
    offsets = [[operator.index(step) for step in row] for row in rows]
    if any(len(row) != 3 for row in offsets):
        raise ValueError("expected three numbers (z, y, x)")
    return offsets


class AffinityFile:
    """Affinities in an HDF5 file, (offsets, z, y, x) of float32, or of uint8 from 0 to 255.

    Attributes:
        name: "file:dataset".
        box: (start, size) of the box to segment, in voxels of the image.
        offset: The first voxel of the box; None if nothing says where the first voxel of the affinities lies.
        offsets: Offsets (z, y, x) of the affinities.
        origin: Names of the image, if the file states one, and of the affinities, as texts of a result.
        voxel_size_nm: Voxel size (z, y, x) that the file states; None: none.
        checkpoint: The checkpoint of the network that made them, if the file states one, else "".
        mirrored: They are a mean over mirrored copies.

    Args:
        name: "file:dataset", as `floodtide predict` writes it.
        offsets: The offsets; None: those in the attribute `offsets` of the file.
        box: Only this box, in voxels of the image; None: all.

    Raises:
        InvalidFileError: If the file cannot be read, or its offsets do not fit the data.
        InvalidArgumentError: If the name is not file:dataset, or no offsets are known.
        OutOfRangeError: If the box is not inside the affinities.
    """

    def __init__(
        self, name: str, offsets: Sequence[Sequence[int]] | None = None, box: Box | None = None
    ) -> None:
        self.name = name
        self._arguments = (name, offsets, box)  # for pickle and copy
        if format_of(name) is not HDF5:
            raise InvalidArgumentError(f"{name}: expected affinities in FILE.h5:DATASET")
        try:
            self._channels = _core.data.Channels(*path_and_dataset(name))
        except InvalidFileError as error:
            text, _, expected = str(error).partition(", expected integers of")
            if not expected:
                raise
            # The core names all types that volumes may have.
            raise InvalidFileError(f"{text}, expected float32 or uint8") from None
        count, z, y, x = self._channels.shape
        found = open_dataset(*path_and_dataset(name), 0)
        if not found.plain:
            raise InvalidFileError(
                f"{name}: names its axes in another order, expected offsets, z, y, x: transpose it first"
            )
        geometry = found.geometry
        self._start = geometry.offset or (0, 0, 0)
        whole = self._start, (z, y, x)
        self.box: Box = box or whole
        if intersection(self.box, whole) != self.box:
            raise OutOfRangeError(
                f"{name}: box {box_text(self.box)} is not inside the affinities, {box_text(whole)}"
            )
        self.image: str = self._channels.text("image")
        self.origin = {"affinities": name} | ({"image": self.image} if self.image else {})
        known = geometry.offset is not None or bool(self.image) or self.box[0] != (0, 0, 0)
        self.offset = self.box[0] if known else None
        self.checkpoint: str = self._channels.text("checkpoint")
        self.mirrored = self._channels.text("mirror") not in ("", "[]")
        self.voxel_size_nm = whole_geometry(geometry, self.image).voxel_size_nm
        if offsets is None and (text := self._channels.text("offsets")):
            with reading.reading(name, "the offsets of affinities, a list of [z, y, x]"):
                offsets = offsets_of(json.loads(text))
        if offsets is None:
            raise InvalidArgumentError(
                f"{name}: has no attribute `offsets`, and none are given; expected the offsets [z, y, x] of its {count}"
                " channels"
            )
        self.offsets: tuple[Vec3, ...] = tuple(as_vec3(row) for row in offsets)
        if len(self.offsets) != count or (0, 0, 0) in self.offsets:
            raise InvalidFileError(
                f"{name}: {count} channels and offsets {list(self.offsets)}, expected one for each channel, not 0"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to open the file again."""
        return AffinityFile, self._arguments

    def read(self, box: Box) -> NDArray[np.float32]:
        """Return the affinities (offsets, z, y, x) of a box, in voxels of the image."""
        values: NDArray[np.float32] = self._channels.read(difference(box[0], self._start), box[1])
        require_range(self.name, values)
        return values


def write_segments(
    labels: NDArray[Any],
    out: str,
    geometry: Geometry,
    *,
    command: str,
    notes: Mapping[str, str],
    inputs: str,
) -> dict[str, Any]:
    """Write segments (z, y, x) as uint32 to a volume of any format. Not collective.

    Return their number, `segments`, and the share of the voxels that are in one, `coverage`.

    Args:
        labels: The segments, from 1; 0 is background.
        notes: Texts that become attributes of the volume.
        inputs: The volume from which the segments were made.
    """
    plan = Plan(
        shape=as_vec3(labels.shape),
        dtype=np.dtype(np.uint32),
        geometry=geometry,
        command=command,
        notes=notes,
    )
    read = Volume(labels.astype(np.uint32, copy=False)).read
    write_blocks(out, plan, read, inputs=files_of([inputs]))
    coverage = float(np.count_nonzero(labels) / max(1, labels.size))
    return {"segments": int(labels.max(initial=0)), "coverage": coverage}


def agglomerate(
    affinities: AffinityFile, out: str, options: AffinityOptions, *, subvolume: Vec3 | None = None
) -> dict[str, Any]:
    """Make segments of affinities, as `floodtide agglomerate` does. Collective.

    In subvolumes, the same call continues after a crash.

    Args:
        affinities: The affinities.
        out: The volume to write; with `subvolume` a folder, for `floodtide.segment.reconcile`: a new one, or one that
            was made with the same arguments.
        options: How they become segments.
        subvolume: Size (z, y, x) in voxels of the subvolumes that ranks share; they overlap by 32 voxels, at most by a
            quarter of their size. None: one piece, made by rank 0.

    Returns:
        `out`, and what `store_on_ranks` returns; or in one piece `segments`, `coverage` and the table `places`, on
        rank 0 alone.

    Raises:
        InvalidArgumentError: If a size is out of range, the folder is for something else, or as `segments_of`.
        StorageError: If the output cannot be written.
    """
    with world.agreed():
        refuse_inputs("agglomerate", files_of([out]), files_of([affinities.name]))
        if subvolume is None:
            places = places_beside(out)
    if subvolume is not None:
        with world.agreed():
            z, y, x = (min(OVERLAP, size // 4) for size in subvolume)
            cut = Cut(affinities.box, subvolume, (z, y, x))
            settings: dict[str, Any] = affinities.origin | {
                "voxels": sampled_digest(affinities.read, affinities.box),
                "options": to_dict(options),
                "geometry": {
                    "voxel_size_nm": affinities.voxel_size_nm,
                    "offset": whole_geometry(Geometry(), affinities.image).offset,
                },
            }
            pieces = Pieces.create(out, cut, total(*affinities.box), settings)

        def write(number: int, progress: Progress) -> None:
            made = _segments(affinities, options, cut.subvolume(number))
            pieces.write(number, *made, _COMMAND)
            progress(1, 1)

        return {**store_on_ranks("agglomerate", pieces, write), "out": out}
    report: dict[str, Any] = {"out": out}
    with world.agreed():
        if world.rank() == 0:
            labels, doubtful = _segments(affinities, options, affinities.box)
            made_by = {"checkpoint": affinities.checkpoint} if affinities.checkpoint else {}
            notes = affinities.origin | made_by | {"options": json.dumps(to_dict(options))}
            geometry = Geometry(voxel_size_nm=affinities.voxel_size_nm, offset=affinities.offset)
            report |= write_segments(
                labels, out, geometry, command=_COMMAND, notes=notes, inputs=affinities.name
            )
            if write_places(places, doubtful, affinities.box[0], options.threshold):
                report["places"] = str(places)
    return report


def _segments(
    affinities: AffinityFile, options: AffinityOptions, box: Box
) -> tuple[NDArray[np.uint64], list[Place]]:
    """Return the segments of a box (z, y, x), and the places to look at, in voxels of the image."""
    labels, found = segments_with_places(affinities.read(box), affinities.offsets, options)
    return labels, [one.moved(lambda voxel: total(voxel, box[0])) for one in found]
