# SPDX-License-Identifier: Apache-2.0
"""One segmentation of several: with global ids from overlapping subvolumes; and the consensus of two."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits, notes
from floodtide.base.options import Arguments
from floodtide.base.outputs import files_in
from floodtide.comm import world
from floodtide.comm.arrays import array_of
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

_CONSENSUS = Arguments(min_size=limits.VOXELS)
_CHECKED = Arguments(
    min_voxels=limits.SOME_VOXELS, min_share=limits.SOME_SHARE, inside_voxels=limits.VOXELS
)


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


def reconcile(
    pieces: Pieces,
    *,
    min_voxels: int = 1,
    min_share: float = 0.5,
    inside_voxels: int = 5000,
    progress: Progress | None = None,
) -> Reconciled:
    """Find which segments of neighbouring subvolumes are one object, and number the objects. Collective.

    Of the voxels that both subvolumes have segmented in their overlap, at least `min_voxels` must lie in both segments.
    Two such segments are one object if at least `min_share` of each lies in the other one. They are also one object if
    one of them lies inside the other one: 95 % of it, at least `inside_voxels` voxels, which are a fifth of the other
    one or more. Objects are all segments that such pairs connect. They are numbered in the order of subvolumes and of
    ids within them, whatever the number of ranks.

    Args:
        pieces: The subvolumes. All must be segmented.
        min_voxels: Least number of common voxels.
        min_share: Least common share of both segments, above 0 and at most 1.
        inside_voxels: Least voxels of a segment inside another one; 0: no segment counts as inside.
        progress: Called as progress(overlaps done, overlaps of this rank).

    Raises:
        InvalidArgumentError: If a subvolume is missing, or an argument is out of range.
        InvalidFileError: If a subvolume cannot be read.
    """
    _CHECKED.check(
        "reconcile", min_voxels=min_voxels, min_share=min_share, inside_voxels=inside_voxels
    )
    rank, size = world.rank(), world.size()
    with world.agreed():
        missing = list(pieces.missing())
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
            same, alone = _core.segment.compare_overlap(
                table.rows(), min_voxels, min_share, inside_voxels
            )
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
    geometry, first = pieces.settings.get("geometry", {}), start
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in pieces.settings.items()
        if name != "geometry"
    }
    if format_of(destination) is not HDF5:  # `Volume.whole` finds the image of HDF5 volumes only
        texts.pop("image", None)
        offset = geometry.get("offset") or (0, 0, 0)
        first = total(start, offset)
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
        ids = np.append(reconciled.ids[number], np.uint64(0))  # the last one is for empty voxels
        place = np.searchsorted(ids[:-1], labels)
        place[labels == 0] = len(ids) - 1
        if (ids[place] != labels).any():
            raise InvalidFileError(f"{pieces.path(number)}: has changed since its ids were read")
        out[slices(part, box[0])] = np.append(reconciled.global_ids[number], 0)[place]
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
        if outside := [
            one.zyx for one in table or () if not intersection((one.zyx, (1, 1, 1)), box)
        ]:
            raise InvalidFileError(
                f"{pieces.path(number)}: its table has a place at {outside[0]}, expected places in {box_text(box)}"
            )
        ids = (reconciled.ids[number], reconciled.global_ids[number])
        known = dict(zip(*(of.tolist() for of in ids), strict=True))
        for one in table or ():
            a, b = (known.get(segment, 0) for segment in one.segments)
            joined = one.kind != MERGE and a == b  # in another subvolume
            if not joined and intersection((one.zyx, (1, 1, 1)), pieces.cut.core(number)):
                found.append(dataclasses.replace(one, segments=(a, b)))
    if not tables:
        return None
    if tables < len(pieces.cut):
        notes.show(
            f"{tables} of {len(pieces.cut)} subvolumes have a table of places: those of the others are missing"
        )
    found.sort(key=lambda one: -doubt(one.kind, one.score, one.voxels, pieces.threshold))
    visible = (one for one in found if _is_visible(one, pieces, reconciled))
    return list(itertools.islice(visible, MOST))


def _is_visible(place: Place, pieces: Pieces, reconciled: Reconciled) -> bool:
    """Return True if both sides are in the segments that the place names: other subvolumes may have others there."""
    sides = zip(place.sides, place.segments, strict=True)
    return place.segments[0] > 0 and all(
        (segment == 0 and place.kind == END)
        or read_reconciled(pieces, reconciled, (at, (1, 1, 1)))[0, 0, 0] == segment
        for at, segment in sides
    )


def _id_type(reconciled: Reconciled) -> np.dtype[Any]:
    """Return uint32, or uint64 for more objects than that holds: the types that viewers of segmentations read."""
    return np.dtype(np.uint32 if reconciled.objects < 2**32 else np.uint64)


def consensus(
    a: NDArray[np.integer[Any]], b: NDArray[np.integer[Any]], *, min_size: int = 1000
) -> NDArray[np.int32]:
    """Return the split consensus of two segmentations: voxels have the same id only if both give them the same id.

    Of the parts into which `b` splits a segment of `a`, the largest keeps its id, the others get new ids. Parts of
    fewer than `min_size` voxels, and voxels without segment in `a`, become 0. Source: google/ffn, consensus.py.

    Args:
        a: Segmentation (z, y, x) of integers; values <= 0 are unsegmented voxels.
        b: Segmentation of the same shape. Its unsegmented voxels count as one segment.
        min_size: Least number of voxels of a part.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If an array does not hold integers of at most 31 bits.
    """
    _CONSENSUS.check("consensus", min_size=min_size)
    labels: NDArray[np.int32] = _core.segment.split_consensus(_int32(a), _int32(b), min_size)
    return labels


def _int32(given: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    labels = array_of("consensus", given)
    if not np.issubdtype(labels.dtype, np.integer) or labels.max(initial=0) >= 2**31:
        raise InvalidArgumentError(
            f"consensus: a segmentation of {labels.dtype}, expected integers below 2^31"
        )
    return np.ascontiguousarray(np.maximum(labels, 0), dtype=np.int32)
