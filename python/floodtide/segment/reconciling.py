# SPDX-License-Identifier: Apache-2.0
"""Make one segmentation with global ids from segmentations of overlapping subvolumes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.outputs import files_in
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Box, Volume
from floodtide.data.boxes import Progress, box_text, intersection, slices, total
from floodtide.data.copies import write_blocks
from floodtide.data.formats.geometry import Geometry
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.formats.writers import Plan
from floodtide.data.places import END, MERGE, MOST, Place, doubt, read_places
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.segment.pieces import Pieces

# To be one object: least voxels and share of both segments, and voxels of one that lies inside the other one.
_RULE = 1, 0.5, 5000


@dataclass(frozen=True)
class Reconciled:
    """Global ids of the segments of all subvolumes.

    Attributes:
        objects: Number of different global ids.
        splits: Segments in overlaps that agree with no segment of the other subvolume, counted in each overlap: places
            where the cut has probably split an object.
        ids: The ids of each subvolume, ascending.
        global_ids: The global id, from 1, of each of them; 0 if no voxel of the object is in a core.
    """

    objects: int
    splits: int
    ids: list[NDArray[np.uint64]]
    global_ids: list[NDArray[np.int64]]


def reconcile(pieces: Pieces, progress: Progress | None = None) -> Reconciled:
    """Find which segments of neighbouring subvolumes are one object, and number the objects. Collective.

    Only voxels count that both subvolumes have segmented in their overlap. Two segments are one object if at least half
    of each lies in the other one. They are also one object if one of them lies inside the other one: 95 % of it, at
    least 5,000 voxels, which are a fifth of the other one or more. Objects are all segments that such pairs
    connect. They are numbered in the order of subvolumes and of ids within them, whatever the number of ranks.

    Args:
        pieces: The subvolumes. All must be segmented.
        progress: Called as progress(overlaps done, overlaps of this rank).

    Raises:
        InvalidArgumentError: If a subvolume is missing.
        InvalidFileError: If a subvolume cannot be read.
    """
    rank, size = world.rank(), world.size()
    with world.agreed():
        missing = pieces.missing()
        if missing:
            raise InvalidArgumentError(
                f"reconcile: {len(missing)} of {len(pieces.cut)} subvolumes in {pieces.directory} are not segmented"
                f" yet, the first is {pieces.path(missing[0]).name}; expected all"
            )
        found = _Found({}, {}, [], 0)
        for number in range(rank, len(pieces.cut), size):
            box, core = pieces.cut.subvolume(number), pieces.cut.core(number)
            labels = pieces.read(number, box)
            found.ids[number] = _distinct(labels)
            found.in_core[number] = _distinct(np.ascontiguousarray(labels[slices(core, box[0])]))
        pairs = list(pieces.cut.neighbours())[rank::size]
        for done, (a, b) in enumerate(pairs):
            shared = pieces.cut.shared(a, b)
            table = _core.evaluate.ContingencyTable()
            table.add(pieces.read(a, shared), pieces.read(b, shared))
            same, alone = _core.segment.compare_overlap(table.rows(), *_RULE)
            found.agreeing.append((a, b, same))
            found.splits += alone
            if progress is not None:
                progress(done + 1, len(pairs))
    return _numbered(allgather_object(found))


@dataclass
class _Found:
    """What one rank has read."""

    ids: dict[int, NDArray[np.uint64]]  # of each subvolume, ascending
    in_core: dict[int, NDArray[np.uint64]]  # those with a voxel in the core
    agreeing: list[tuple[int, int, NDArray[np.uint64]]]  # two subvolumes and rows (id, id)
    splits: int


def _distinct(labels: NDArray[Any]) -> NDArray[np.uint64]:
    table = _core.evaluate.ContingencyTable()
    table.add(labels, labels)
    ids: NDArray[np.uint64] = table.rows()[:, 0]
    return ids[ids > 0]


def _numbered(ranks: Sequence[_Found]) -> Reconciled:
    ids = {number: of for found in ranks for number, of in found.ids.items()}
    in_core = {number: of for found in ranks for number, of in found.in_core.items()}
    # Every id of every subvolume is an item.
    first = np.cumsum([0] + [len(ids[number]) for number in range(len(ids))])

    def items(number: int, of: NDArray[np.uint64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = first[number] + np.searchsorted(ids[number], of)
        return found

    pairs = [
        np.column_stack([items(a, same[:, 0]), items(b, same[:, 1])])
        for found in ranks
        for a, b, same in found.agreeing
    ]
    rows = np.ascontiguousarray(np.concatenate([np.zeros((0, 2), np.int64), *pairs]))
    roots = _core.segment.connected(int(first[-1]), rows)
    visible = np.concatenate([roots[items(number, in_core[number])] for number in range(len(ids))])
    names = np.unique(visible)  # of objects with a voxel in a core
    numbers = np.zeros(len(roots), np.int64)
    numbers[names] = np.arange(1, len(names) + 1)
    global_ids = numbers[roots]
    return Reconciled(
        objects=len(names),
        splits=sum(found.splits for found in ranks),
        ids=[ids[number] for number in range(len(ids))],
        global_ids=[global_ids[a:b] for a, b in itertools.pairwise(first)],
    )


def write_reconciled(
    pieces: Pieces, reconciled: Reconciled, destination: str, progress: Progress | None = None
) -> Volume:
    """Write the segmentation with global ids, block by block, to a volume of any format. Collective.

    The ranks share the blocks of Zarr, N5 and precomputed volumes. Rank 0 alone writes all other formats.

    Args:
        pieces: The subvolumes.
        reconciled: Their global ids, from `reconcile`.
        destination: The name of the volume: FILE.h5:DATASET, NAME.zarr, NAME.n5, precomputed://FOLDER, ...
        progress: Called as progress(voxels done, voxels of this rank).

    Raises:
        InvalidArgumentError: If the destination exists or cannot hold the ids.
        InvalidFileError: If a subvolume cannot be read.
        StorageError: If the destination cannot be written.
    """
    start, size = pieces.cut.box
    geometry, here = pieces.settings.get("geometry", {}), format_of(destination) is HDF5
    left_out = (
        ("geometry",) if here else ("geometry", "image")
    )  # `Volume.whole` finds the image of HDF5 volumes only
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in pieces.settings.items()
        if name not in left_out
    }
    offset = None if here else geometry.get("offset")
    first = total(start, offset or (0, 0, 0)) if here or offset or any(start) else None
    plan = Plan(
        shape=size,
        dtype=_id_type(reconciled),
        geometry=Geometry(voxel_size_nm=geometry.get("voxel_size_nm"), offset=first),
        command="floodtide reconcile",
        notes=texts,
    )
    return write_blocks(
        destination,
        plan,
        lambda box: read_reconciled(pieces, reconciled, (total(box[0], start), box[1])),
        inputs=files_in(pieces.directory),
        progress=progress,
        on_ranks=True,
    )


def read_reconciled(
    pieces: Pieces, reconciled: Reconciled, box: Box
) -> NDArray[np.unsignedinteger[Any]]:
    """Return the global ids (z, y, x) of a box, in voxels of the whole volume. Each voxel is that of its core.

    Raises:
        InvalidFileError: If a subvolume cannot be read, or has changed since `reconcile`.
    """
    out = np.zeros(box[1], _id_type(reconciled))
    for number in pieces.cut.cores_in(box):
        part = intersection(pieces.cut.core(number), box)
        assert part is not None
        labels = pieces.read(number, part)
        ids = np.append(np.uint64(0), reconciled.ids[number])  # the first one is for empty voxels
        place = np.searchsorted(ids, labels).clip(max=len(ids) - 1)
        if (ids[place] != labels).any():
            raise InvalidFileError(f"{pieces.path(number)}: has changed since its ids were read")
        out[slices(part, box[0])] = np.append(0, reconciled.global_ids[number])[place]
    return out


def places_of(pieces: Pieces, reconciled: Reconciled) -> list[Place] | None:
    """Return the places of all subvolumes that a person should look at first, with global ids. Not collective.

    Each place is that of the subvolume whose core it is in. None: no subvolume has a table.

    Raises:
        InvalidFileError: If a subvolume or its table cannot be read.
    """
    found: list[Place] = []
    tables = 0
    for number in range(len(pieces.cut)):
        box = pieces.cut.subvolume(number)
        table = read_places(pieces.reference(number), box[0])
        tables += table is not None
        for one in table or ():
            here = one.zyx, (1, 1, 1)
            if not intersection(here, box):
                raise InvalidFileError(
                    f"{pieces.path(number)}: its table has a place at {one.zyx}, expected places in {box_text(box)}"
                )
            if intersection(here, pieces.cut.core(number)):
                found.append(one)
    if not tables:
        return None
    found.sort(key=lambda one: -doubt(one.kind, one.score, one.voxels, pieces.threshold))
    named = (_named(one, pieces, reconciled) for one in found)
    return list(itertools.islice((one for one in named if one is not None), MOST))


def _named(place: Place, pieces: Pieces, reconciled: Reconciled) -> Place | None:
    """Return a place with the global ids at its sides; None if the subvolumes there have decided it."""
    a, b = (
        int(read_reconciled(pieces, reconciled, (side, (1, 1, 1)))[0, 0, 0]) for side in place.sides
    )
    if place.kind == END and place.segments[1] == 0:
        b = 0
    if a == 0 or (a == b) != (place.kind == MERGE):
        return None
    return replace(place, segments=(a, b))


def _id_type(reconciled: Reconciled) -> np.dtype[Any]:
    """Return uint32, or uint64 for more objects than that holds: the types that viewers of segmentations read."""
    return np.dtype(np.uint32 if reconciled.objects < 2**32 else np.uint64)
