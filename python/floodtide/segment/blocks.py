# SPDX-License-Identifier: Apache-2.0
"""Segmentation of a volume of any size, subvolume by subvolume, by any number of processes.

Processes share pieces of work through files: whoever has the lock of a piece's output does it.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from floodtide.base import reading
from floodtide.base.outputs import refuse_inputs
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.config import SegmentOptions
from floodtide.data import Box, Volume
from floodtide.data.boxes import Progress, part_of
from floodtide.data.look.sampling import QUICK, sample
from floodtide.errors import LockedError
from floodtide.segment.canvas import read_seeds, seed_files
from floodtide.segment.checkpoints import digest_of_arrays
from floodtide.segment.pieces import PLAN, Cut, Pieces

_FIRST_LOOK_S, _LAST_LOOK_S = 1.0, 10.0  # between two looks at what others have stored
_RETRY_S = 60.0  # until a waiting process looks whether the owner of a missing piece is gone
_NETWORK_BYTES = 300 << 20  # network, libraries and the program itself
_WHOLE = 1 << 24  # voxels of a volume that is read whole


class Segmenting(abc.ABC):
    """A box of an image to segment, in one piece or in subvolumes.

    Ranks share the subvolumes, or any scheduler hands them to its workers.

    Attributes:
        image: The image.
        options: The [segment] options. `subvolume` and `overlap` say how the box is cut.
        box: (start, size) of what is segmented, in voxels of the image.
        inputs: Files that outputs must not replace.
    """

    image: Volume
    options: SegmentOptions
    box: Box
    inputs: list[str]
    _unit = "subvolumes"  # of progress
    _forward = "layers"

    def __init__(self) -> None:
        self._begun_s = time.monotonic()

    @abc.abstractmethod
    def write(self, out: str) -> dict[str, Any]:
        """Segment the box in one piece, write it, and return the report. Collective."""

    @property
    @abc.abstractmethod
    def cut(self) -> Cut:
        """How the box is cut; without a size of subvolumes, in one piece."""

    @abc.abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Return what all subvolumes have in common: image, network and options, as JSON values."""

    @abc.abstractmethod
    def _write(self, pieces: Pieces, number: int, progress: Progress | None) -> None:
        """Segment and write a subvolume."""

    @abc.abstractmethod
    def _cost(self, missing: int) -> tuple[int, float, dict[str, Any]]:
        """Return memory (bytes) and time (s) of a subvolume, measured here, and more for the report."""

    def _report(self, out: str) -> dict[str, Any]:
        return {"seconds": time.monotonic() - self._begun_s, "out": out}

    def pieces(self, folder: str | os.PathLike[str]) -> Pieces:
        """Return the folder for the subvolumes: a new one, or the one of an earlier call. Not collective.

        Raises:
            InvalidArgumentError: If a size is out of range, or the folder is for something else.
            ShapeError: If a subvolume is smaller than the field of view of a flood-filling network.
            StorageError: If the folder cannot be written.
        """
        refuse_inputs("segment", [folder], self.inputs)
        return Pieces.create(folder, self.cut, self.image.shape, self._settings(), self._forward)

    def store(self, pieces: Pieces, number: int, progress: Progress | None = None) -> bool:
        """Segment one subvolume and store it, unless it is there; return True if this call did. Not collective.

        Any scheduler of blocks may call this, in any order and in several processes at a time.

        Args:
            pieces: The folder.
            number: The subvolume, from 0 to len(pieces.cut) - 1.
            progress: Called as progress(done, all).

        Raises:
            LockedError: If another process segments the subvolume at the moment.
            Error: If an input or the network cannot be used, or the subvolume cannot be written.
        """
        return pieces.store("segment", number, lambda: self._write(pieces, number, progress))

    def write_subvolumes(self, folder: str, numbers: range | None = None) -> dict[str, Any]:
        """Segment the missing subvolumes, which ranks share. Collective.

        The same call continues after a crash, on any number of ranks. `floodtide.segment.reconcile` makes one
        segmentation.

        Args:
            folder: As for `pieces`.
            numbers: Only these subvolumes, for job arrays.

        Returns:
            The report: subvolumes, how many were segmented now and how many are missing, seconds, and what was used.
        """
        with world.agreed():
            pieces = self.pieces(folder)
        write = functools.partial(self._write, pieces)
        found = store_on_ranks("segment", pieces, write, numbers=numbers, unit=self._unit)
        return found | self._report(folder)

    def estimate(self, out: str) -> dict[str, Any]:
        """Estimate what segmenting takes, with the rate of the network on this machine, measured now. Collective.

        Args:
            out: What will be written: a volume, or with segment.subvolume a folder.

        Returns:
            The report, with sizes in voxels (z, y, x): subvolumes, memory in bytes, hours.
        """
        with world.agreed():
            cut, ranks = self.cut, world.size()
            missing = len(cut)
            if self.options.subvolume is not None and reading.exists(Path(out) / PLAN):
                missing = len(self.pieces(out).missing())
            needed, seconds, more = self._cost(missing)
        return {
            "subvolumes": len(cut),
            "segmented": len(cut) - missing,
            "counts": cut.counts,
            "size": cut.size,
            "memory_bytes_per_rank": needed + _NETWORK_BYTES,
            **more,
            "ranks": ranks,
            "hours": math.ceil(missing / ranks) * seconds / 3600,
        }


def store_on_ranks(
    command: str,
    pieces: Pieces,
    write: Callable[[int, Progress], None],
    *,
    numbers: range | None = None,
    unit: str = "subvolumes",
) -> dict[str, int]:
    """Write the missing subvolumes on all ranks, and count them for the report. Collective.

    A rank that is done takes the next one. An error on one rank ends the job. What was stored until then stays, and the
    same call continues.

    Args:
        write: Writes a subvolume, and tells its own progress.
        numbers: Some of the subvolumes; None: all. An OutOfRangeError if one does not exist.
        unit: What progress counts.
    """
    whole = range(len(pieces.cut)) if numbers is None else numbers
    with world.agreed():
        for number in (whole.start, whole.stop - 1):
            pieces.cut.subvolume(number)
    with bar(unit, command, line_every_s=10.0) as progress:

        def work(number: int) -> bool:
            shown = part_of(progress, sum(map(pieces.done, whole)), len(whole))
            return pieces.store(command, number, lambda: write(number, shown))

        segmented = work_on_ranks(whole, pieces.done, work)
    missing = len(pieces.missing())
    return {"subvolumes": len(pieces.cut), "segmented": segmented, "missing": missing}


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
        # Ranks wait here, not in a collective: the time limit of `floodtide.init` does not count.
        end_s, pause_s = time.monotonic() + _RETRY_S, _FIRST_LOOK_S
        while (order := [n for n in order if not done(n)]) and time.monotonic() < end_s:
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LAST_LOOK_S)
    return sum(allgather_object(count))


def voxels_of(
    image: Volume, options: SegmentOptions | None = None, box: Box | None = None
) -> dict[str, str]:
    """Return texts that tell the voxels of a box of an image, and of all other volumes and seeds of the options.

    More than 2^24 voxels are sampled.
    """
    whole = box or ((0, 0, 0), image.shape)
    found = {f"voxels of {image.name}": sampled_digest(image.read, whole)}
    for name in options.volumes[1:] if options is not None else ():
        other = Volume(name, channel=0)
        found[f"voxels of {name}"] = sampled_digest(other.read, ((0, 0, 0), other.shape))
    if options is not None and options.seeds:
        seeds = map(read_seeds, seed_files(options.seeds))
        found[f"seeds in {options.seeds}"] = digest_of_arrays(seeds)
    return found


def sampled_digest(read: Callable[[Box], NDArray[Any]], whole: Box) -> str:
    """Return a digest of the voxels of a box. Of a large box, it covers what the checks of images read, too."""
    small = math.prod(whole[1]) <= _WHOLE
    boxes = [whole] if small else sample(whole, QUICK, sections=False)
    return digest_of_arrays(map(read, boxes))
