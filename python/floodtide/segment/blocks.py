# SPDX-License-Identifier: Apache-2.0
"""Segmentation of a volume of any size, subvolume by subvolume, by any number of processes.

Processes share pieces of work through files: whoever has the lock of a piece's output does it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base.locks import take
from floodtide.base.outputs import hdf5_result, lock_path, reserved
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.config import SegmentOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, as_vec3, total
from floodtide.data.look.sampling import starts
from floodtide.data.places import Place
from floodtide.data.volumes import as_volume
from floodtide.errors import LockedError, ShapeError
from floodtide.segment.canvas import read_seeds, seed_files
from floodtide.segment.checkpoints import remove_checkpoints
from floodtide.segment.flooding import Image, Segmenter, output
from floodtide.segment.identity import LETTERS, digest, options_of
from floodtide.segment.pieces import CALLS, DATASET, Cut, Pieces

_FIRST_LOOK_S, _LAST_LOOK_S = 1.0, 10.0  # between two looks at what others have stored
_RETRY_S = 60.0  # until a waiting process looks whether the owner of a missing piece is gone
_WHOLE = 1 << 24  # voxels of a volume that is read whole
_GRID = (8, 4, 4)  # boxes that are read of a larger one, along each axis
_EDGE = 64  # voxels, the longest edge of such a box
_SLAB = 1 << 20  # voxels of a whole volume that are read at a time


def in_subvolumes(
    directory: str | os.PathLike[str],
    segmenter: Segmenter,
    volume: Image,
    *,
    subvolume: Vec3,
    overlap: Vec3 | None = None,
    box: Box | None = None,
) -> Pieces:
    """Return the directory for a segmentation in subvolumes: a new one, or the one of an earlier call. Not collective.

    Args:
        directory: A directory that is new, or was made with the same arguments.
        segmenter: The network and its options.
        volume: The image.
        subvolume: Size (z, y, x) of a subvolume in voxels.
        overlap: Smallest overlap (z, y, x) of neighbours; None: the field of view, but at most half a subvolume.
        box: (start, size) of what is segmented, in voxels of the volume; None: the whole volume.

    Raises:
        InvalidArgumentError: If a size is out of range, or the directory is for something else.
        ShapeError: If a subvolume is smaller than the field of view.
        StorageError: If the directory cannot be written.
    """
    volume = as_volume(volume)
    settings = {
        "image": volume.name,
        "voxels": voxels_of(volume, segmenter.options, box),
        "network": digest(segmenter.model),
        "options": options_of(segmenter.options, segmenter.model),
        "geometry": dataclasses.asdict(volume.geometry),
    }
    cut = cut_of(segmenter, volume, subvolume, overlap, box)
    pieces = Pieces.create(directory, cut, volume.shape, settings, segmenter.forward)
    segmenter.follow(pieces.forward)
    return pieces


def cut_of(
    segmenter: Segmenter, volume: Volume, subvolume: Vec3, overlap: Vec3 | None, box: Box | None
) -> Cut:
    """Return how `in_subvolumes` cuts a volume."""
    fov = segmenter.model.fov
    z, y, x = (min(n, m // 2) for n, m in zip(fov, subvolume, strict=True))
    whole = ((0, 0, 0), volume.shape) if box is None else box
    cut = Cut(whole, subvolume, (z, y, x) if overlap is None else overlap).joinable()
    if not segmenter.options.reflect and any(n < f for n, f in zip(cut.size, fov, strict=True)):
        raise ShapeError(
            f"segment: subvolumes of {cut.size} voxels, expected at least the field of view, {tuple(fov)}"
        )
    return cut


def segment_block(
    pieces: Pieces,
    number: int,
    segmenter: Segmenter,
    volume: Image,
    progress: Progress | None = None,
) -> bool:
    """Segment one subvolume and store it, unless it is there already; return True if this call did. Not collective.

    Any scheduler of blocks may call this, in any order and in several processes at a time.

    Args:
        pieces: The directory, from `in_subvolumes`.
        number: The subvolume, from 0 to len(pieces.cut) - 1.
        segmenter, volume: As for `in_subvolumes`.
        progress: As for `Segmenter.segment`.

    Raises:
        LockedError: If another process segments the subvolume at the moment.
        Error: As `Segmenter.segment` and `Segmentation.save` raise.
    """
    reference, checkpoint = pieces.reference(number), pieces.checkpoint(number)
    if pieces.done(number):
        # A lock that is there now may be that of a process killed just after storing: taking it removes it.
        if lock_path(pieces.path(number)).exists():
            with contextlib.suppress(LockedError), output(reference):
                remove_checkpoints(checkpoint)
        return False
    with output(reference):
        if pieces.done(number):  # by a process that had the lock until now
            return False
        pieces.begin()
        segmenter.follow(pieces.forward)
        box = pieces.cut.subvolume(number)
        result = segmenter.segment(volume, box, progress, checkpoint=checkpoint)
        notes = {"settings": json.dumps(pieces.settings), CALLS: str(result.network_calls)}
        result.save(reference, notes)
        remove_checkpoints(checkpoint)
    return True


def segment_on_ranks(
    pieces: Pieces,
    segmenter: Segmenter,
    volume: Image,
    *,
    numbers: range | None = None,
    progress: Progress | None = None,
) -> int:
    """Segment the missing subvolumes on all ranks, and return how many this call did, over all ranks. Collective.

    A rank that is done takes the next one. An error on one rank ends the job. What was stored until then stays, and the
    same call continues.

    Args:
        pieces, segmenter, volume: As for `segment_block`.
        numbers: Some of the subvolumes, for job arrays; None: all, and no other job may use the directory meanwhile.
        progress: Called as progress(voxels done, voxels) on rank 0.

    Raises:
        LockedError: If another job segments into the directory.
        OutOfRangeError: If `numbers` names a subvolume that does not exist.
    """
    shown = None
    if progress is not None and world.rank() == 0:
        whole = range(len(pieces.cut)) if numbers is None else numbers
        shown = _of_all_ranks(pieces, whole, progress)
    return _shared(
        "segment",
        pieces,
        numbers,
        lambda number: segment_block(pieces, number, segmenter, volume, shown),
    )


def store_on_ranks(
    command: str,
    pieces: Pieces,
    segments: Callable[[Box], tuple[NDArray[Any], list[Place] | None]],
    *,
    numbers: range | None = None,
    progress: Progress | None = None,
) -> int:
    """Store what `segments` returns of each missing subvolume (start, size). Collective.

    That is labels (z, y, x), and the places to look at, in voxels of the whole volume; None: there is no such table.

    Other arguments, result and errors are as for `segment_on_ranks`, but progress counts subvolumes.
    """
    by = f"floodtide {command}"

    def work(number: int) -> bool:
        with reserved(command, pieces.path(number), hdf5_result(by, [DATASET])):
            if pieces.done(number):
                return False
            pieces.begin()
            pieces.write(number, *segments(pieces.cut.subvolume(number)), by)
        if progress is not None and world.rank() == 0:
            progress(len(pieces.cut) - sum(1 for _ in pieces.missing()), len(pieces.cut))
        return True

    return _shared(command, pieces, numbers, work)


def _shared(
    command: str, pieces: Pieces, numbers: range | None, work: Callable[[int], bool]
) -> int:
    """Do the work of some subvolumes on all ranks; of all as the only job in the directory. Collective."""
    whole = range(len(pieces.cut)) if numbers is None else numbers
    with world.agreed():
        for number in (whole.start, whole.stop - 1):
            pieces.cut.subvolume(number)
    with sole_job(command, pieces.directory) if numbers is None else contextlib.nullcontext():
        return work_on_ranks(whole, pieces.done, work)


def _of_all_ranks(pieces: Pieces, numbers: range, progress: Progress) -> Progress:
    """Return the progress of one subvolume as that of all ranks: the stored subvolumes, and those under way.

    The other ranks are assumed to be as far with their subvolumes as this one.
    """
    missing, most, looked_s = list(numbers), 0, -math.inf
    voxels = math.prod(pieces.cut.size)

    def shown(done: int, total: int) -> None:
        nonlocal missing, most, looked_s
        if time.monotonic() - looked_s >= _FIRST_LOOK_S:
            looked_s = time.monotonic()
            missing = [number for number in missing if not pieces.done(number)]
        under_way = min(world.size(), len(missing)) * voxels * done // max(1, total)
        most = max(most, (len(numbers) - len(missing)) * voxels + under_way)
        progress(most, len(numbers) * voxels)

    return shown


@contextlib.contextmanager
def sole_job(command: str, directory: str | os.PathLike[str]) -> Iterator[None]:
    """Return a context manager: inside its block, no other job works in the directory. Collective at its begin."""
    with contextlib.ExitStack() as held:
        with world.agreed():
            if world.rank() == 0:
                what = f"{command}: the directory {os.fspath(directory)}"
                lock = take(Path(directory) / f"{command}.lock", what, "wait until it has ended")
                held.callback(lock.release)
        yield


def work_on_ranks(numbers: range, done: Callable[[int], bool], work: Callable[[int], bool]) -> int:
    """Do pieces of work on all ranks until all are done, and return how many this call did, over all ranks. Collective.

    A rank that is done takes the next piece.

    Args:
        done: Returns True if a piece is done.
        work: Does a piece, and returns False if it was done before. Raises LockedError while another process does it.
    """
    # Ranks begin at different places, so that they seldom ask for the same piece.
    first = len(numbers) * world.rank() // world.size()
    order = [*numbers[first:], *numbers[:first]]
    count = 0
    while order:
        for number in order:
            with contextlib.suppress(LockedError):
                count += work(number)
        order = _wait(order, done)
    return sum(allgather_object(count))


def _wait(numbers: Sequence[int], done: Callable[[int], bool]) -> list[int]:
    """Wait while other processes do some pieces. Return the pieces that are still missing after a while.

    Ranks wait here, not in a collective: the time limit of `floodtide.init` does not count.
    """
    started_s, pause_s = time.monotonic(), _FIRST_LOOK_S
    while True:
        numbers = [number for number in numbers if not done(number)]
        if not numbers or time.monotonic() - started_s > _RETRY_S:
            return list(numbers)
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LAST_LOOK_S)


def voxels_of(
    image: Volume, options: SegmentOptions | None = None, box: Box | None = None
) -> dict[str, str]:
    """Return texts that tell the voxels of a box of an image, and of all other volumes and seeds of the options.

    More than 2^24 voxels are sampled on a regular grid.
    """
    found = {f"voxels of {image.name}": _digest_of(image, box)}
    for name in options.volumes[1:] if options is not None else ():
        found[f"voxels of {name}"] = _digest_of(Volume(name, channel=0))
    if options is not None and options.seeds:
        seeds = hashlib.sha256()
        for name in seed_files(options.seeds):
            _add(seeds, read_seeds(name))
        found[f"seeds in {options.seeds}"] = seeds.hexdigest()[:LETTERS]
    return found


def _digest_of(volume: Volume, box: Box | None = None) -> str:
    return sampled_digest(volume.read, box or ((0, 0, 0), volume.shape), volume.chunks)


def sampled_digest(read: Callable[[Box], NDArray[Any]], whole: Box, chunks: Vec3) -> str:
    """Return a digest of the voxels of a box. For a large box, the digest covers small boxes in some of its chunks."""
    first, size = whole
    if math.prod(size) <= _WHOLE:
        edges = [max(chunks[0], _SLAB // max(1, size[1] * size[2])), size[1], size[2]]
        grid = [list(range(0, n, edge)) for n, edge in zip(size, edges, strict=True)]
    else:
        edges = [min(n, _EDGE, extent) for n, extent in zip(chunks, size, strict=True)]
        grid = [starts(*axis) for axis in zip(size, edges, _GRID, strict=True)]
    found = hashlib.sha256()
    for place in itertools.product(*grid):
        extent = [min(n, m - b) for n, m, b in zip(edges, size, place, strict=True)]
        _add(found, read((total(first, place), as_vec3(extent))))
    return found.hexdigest()[:LETTERS]


def _add(found: Any, array: NDArray[Any]) -> None:
    found.update(f"{array.dtype.name} {array.shape}".encode())
    found.update(np.ascontiguousarray(array).tobytes())
