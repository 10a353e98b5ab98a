# SPDX-License-Identifier: Apache-2.0
"""Segmentation of a volume of any size, subvolume by subvolume, by any number of processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterable

from floodtide.base.outputs import lock_path
from floodtide.comm import world
from floodtide.data import Box, Vec3, Volume
from floodtide.errors import LockedError, ShapeError
from floodtide.segment.checkpoints import remove_checkpoints
from floodtide.segment.content import voxels_of
from floodtide.segment.cut import Cut
from floodtide.segment.flooding import Segmenter, output
from floodtide.segment.identity import digest, options_of
from floodtide.segment.pieces import CALLS, Pieces
from floodtide.segment.shared_work import lock_directory, work_in_turn, work_on_ranks

Progress = Callable[[int, int], None]

_LOOK_S = 1.0  # between two looks at what others have stored


def in_subvolumes(
    directory: str | os.PathLike[str],
    segmenter: Segmenter,
    volume: Volume,
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
    settings = {
        "image": volume.name,
        "voxels": voxels_of(volume, segmenter.options, box),
        "network": digest(segmenter.model),
        "options": options_of(segmenter.options, segmenter.model),
        "geometry": dataclasses.asdict(volume.geometry),
    }
    cut = cut_of(segmenter, volume, subvolume=subvolume, overlap=overlap, box=box)
    pieces = Pieces.create(directory, cut, volume.shape, settings, segmenter.forward)
    segmenter.follow(pieces.forward)
    return pieces


def cut_of(
    segmenter: Segmenter,
    volume: Volume,
    *,
    subvolume: Vec3,
    overlap: Vec3 | None = None,
    box: Box | None = None,
) -> Cut:
    """Return how `in_subvolumes` cuts a volume."""
    fov = segmenter.model.fov
    z, y, x = (min(n, m // 2) for n, m in zip(fov, subvolume, strict=True))
    whole = ((0, 0, 0), volume.shape) if box is None else box
    cut = Cut(whole, subvolume, (z, y, x) if overlap is None else overlap)
    if not segmenter.options.reflect and any(n < f for n, f in zip(cut.size, fov, strict=True)):
        raise ShapeError(
            f"segment: subvolumes of {cut.size} voxels, expected at least the field of view, {tuple(fov)}"
        )
    return cut


def segment_block(
    pieces: Pieces,
    number: int,
    segmenter: Segmenter,
    volume: Volume,
    progress: Progress | None = None,
) -> bool:
    """Segment one subvolume and store it, unless it is there already. Not collective.

    Any scheduler of blocks may call this, in any order and in several processes at a time.

    Args:
        pieces: The directory, from `in_subvolumes`.
        number: The subvolume, from 0 to len(pieces.cut) - 1.
        segmenter: As for `in_subvolumes`.
        volume: As for `in_subvolumes`.
        progress: As for `Segmenter.segment`.

    Returns:
        True if this call has segmented the subvolume.

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
        box = pieces.cut.subvolume(number)
        result = segmenter.segment(volume, box, progress, checkpoint=checkpoint)
        notes = {"settings": json.dumps(pieces.settings), CALLS: str(result.network_calls)}
        result.save(reference, notes)
        remove_checkpoints(checkpoint)
    return True


def segment_blocks(
    pieces: Pieces,
    numbers: Iterable[int],
    segmenter: Segmenter,
    volume: Volume,
    progress: Progress | None = None,
) -> int:
    """Segment those subvolumes that are missing and that no other process segments. Not collective.

    Args:
        pieces: As for `segment_block`.
        numbers: The subvolumes, in the order in which to try them.
        segmenter: As for `segment_block`.
        volume: As for `segment_block`.
        progress: As for `segment_block`.

    Returns:
        The number of subvolumes that this call has segmented.
    """
    return work_in_turn(
        numbers, lambda number: segment_block(pieces, number, segmenter, volume, progress)
    )


def segment_on_ranks(
    pieces: Pieces,
    segmenter: Segmenter,
    volume: Volume,
    *,
    numbers: range | None = None,
    progress: Progress | None = None,
) -> int:
    """Segment the missing subvolumes on all ranks. A rank that is done takes the next one. Collective.

    An error on one rank ends the job. What was stored until then stays, and the same call continues.

    Args:
        pieces: As for `segment_block`.
        segmenter: As for `segment_block`.
        volume: As for `segment_block`.
        numbers: Some of the subvolumes, for job arrays; None: all, and no other job may use the directory meanwhile.
        progress: Called as progress(voxels done, voxels) on rank 0.

    Returns:
        The number of subvolumes that this call has segmented, over all ranks.

    Raises:
        LockedError: If another job segments into the directory.
        OutOfRangeError: If `numbers` names a subvolume that does not exist.
    """
    try:
        return _on_ranks(pieces, segmenter, volume, numbers, progress)
    except BaseException:
        pieces.discard()
        raise


def _on_ranks(
    pieces: Pieces,
    segmenter: Segmenter,
    volume: Volume,
    numbers: range | None,
    progress: Progress | None,
) -> int:
    whole = range(len(pieces.cut)) if numbers is None else numbers
    with contextlib.ExitStack() as held:
        with world.agreed():
            for number in (whole.start, whole.stop - 1):
                pieces.cut.subvolume(number)
            if numbers is None and world.rank() == 0:
                held.callback(lock_directory("segment", pieces.directory).release)
        shown = _Shown(pieces, whole, progress if world.rank() == 0 else None)
        return work_on_ranks(
            whole,
            pieces.done,
            lambda number: segment_block(pieces, number, segmenter, volume, shown),
        )


class _Shown:
    """Progress of all ranks, seen from one: the subvolumes that are stored, and those under way.

    The other ranks are assumed to be as far with their subvolumes as this one.
    """

    def __init__(self, pieces: Pieces, numbers: range, progress: Progress | None) -> None:
        self._pieces, self._count, self._progress = pieces, len(numbers), progress
        self._missing = list(numbers)
        self._done = 0
        self._looked_s = -math.inf

    def __call__(self, done: int, total: int) -> None:
        if self._progress is None:
            return
        if time.monotonic() - self._looked_s >= _LOOK_S:
            self._looked_s = time.monotonic()
            self._missing = [n for n in self._missing if not self._pieces.done(n)]
        voxels = math.prod(self._pieces.cut.size)
        stored = self._count - len(self._missing)
        under_way = min(world.size(), len(self._missing))
        now = stored * voxels + under_way * voxels * done // max(1, total)
        self._done = max(self._done, now)
        self._progress(self._done, self._count * voxels)
