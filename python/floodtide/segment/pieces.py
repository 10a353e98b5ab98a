# SPDX-License-Identifier: Apache-2.0
"""How a box is cut into overlapping subvolumes, and a directory with their segmentations (docs/formats.md).

Each subvolume is a file that appears when it is complete. So any number of processes can work on one directory, and
after a crash only the subvolumes under way are lost.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits, reading
from floodtide.base.files import make_folder, replace_bytes, temporaries
from floodtide.base.outputs import WAIT_S, lock_path, reserved, unchecked
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import as_vec3, box_text, difference, intersection, is_inside, total
from floodtide.data.formats.writers import hdf5_file
from floodtide.data.places import Place, table_of, write_places
from floodtide.errors import InvalidArgumentError, InvalidFileError, LockedError, OutOfRangeError
from floodtide.segment.checkpoints import other_work, remove_checkpoints

PLAN = "cut.json"
DATASET = "segmentation"
_FORMAT = "floodtide subvolumes 1"
_EXPECTED = "the plan of a segmentation in subvolumes"
_FORWARD = "forward"  # may differ: results differ by rounding only
_CHUNK = 64  # voxels along each axis of a stored chunk
_MOST = 1 << 22  # subvolumes; a damaged plan may claim any number


@dataclass(frozen=True)
class Cut:
    """Overlapping subvolumes of one size that cover a box. Their numbers count from 0, along x first.

    A number that does not exist is an OutOfRangeError. The subvolumes are spread evenly, so that each overlap is at
    least the one asked for. The core of a subvolume is its part up to the middle of each overlap. The cores cover every
    voxel of the box once.

    Args:
        box: (start, size) of the whole box, in voxels of the volume.
        size: Size (z, y, x) of a subvolume; where the box is smaller, the size of the box.
        overlap: Smallest number of voxels (z, y, x) that neighbours share; at most half a subvolume.

    Raises:
        InvalidArgumentError: If an overlap is more than half a subvolume, neighbours share no voxel, or there are more
            than 2^22 subvolumes.
    """

    box: Box
    size: Vec3
    overlap: Vec3

    def __post_init__(self) -> None:
        axes = zip(self.overlap, self.size, self.box[1], strict=True)
        if any(n < whole and not 0 < o <= n / 2 for o, n, whole in axes):
            raise InvalidArgumentError(
                f"segment: an overlap of {self.overlap} voxels between subvolumes of {self.size}, expected at least 1"
                " voxel, and at most half a subvolume"
            )
        object.__setattr__(self, "size", as_vec3([*map(min, self.size, self.box[1])]))
        if math.prod(self.counts) > _MOST:
            raise InvalidArgumentError(
                f"segment: {math.prod(self.counts)} subvolumes of {self.size} voxels, expected at most {_MOST}"
            )

    @cached_property
    def starts(self) -> tuple[tuple[int, ...], ...]:
        """First voxels of the subvolumes along z, y and x, in voxels of the volume."""
        return tuple(
            tuple(begin + i * (whole - n) // max(1, count - 1) for i in range(count))
            for begin, whole, n, count in zip(*self.box, self.size, self.counts, strict=True)
        )

    @cached_property
    def counts(self) -> Vec3:
        """Numbers of subvolumes along z, y and x."""
        axes = zip(self.box[1], self.size, self.overlap, strict=True)
        return as_vec3([1 - (n - whole) // max(1, n - o) for whole, n, o in axes])

    def __len__(self) -> int:
        return math.prod(self.counts)

    def subvolume(self, number: int) -> Box:
        """Return the box (start, size) of a subvolume, in voxels of the volume."""
        places = zip(self.starts, self._place(number), strict=True)
        return as_vec3([starts[i] for starts, i in places]), self.size

    def core(self, number: int) -> Box:
        """Return the box of the voxels that the whole segmentation takes from a subvolume."""
        edges = [self._edges(axis)[i : i + 2] for axis, i in enumerate(self._place(number))]
        begins, ends = zip(*edges, strict=True)
        return as_vec3(begins), difference(ends, begins)

    def neighbours(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs (smaller number, larger number) of subvolumes that share a face, an edge or a corner."""
        steps = list(itertools.product((-1, 0, 1), repeat=3))[14:]  # those to larger numbers
        for number in range(len(self)):
            for step in steps:
                there = total(self._place(number), step)
                if all(0 <= i < n for i, n in zip(there, self.counts, strict=True)):
                    yield number, self._number(there)

    def shared(self, a: int, b: int) -> Box:
        """Return the box that two neighbours share."""
        box = intersection(self.subvolume(a), self.subvolume(b))
        assert box is not None
        return box

    def cores_in(self, box: Box) -> list[int]:
        """Return the numbers of the subvolumes whose cores have voxels in a box."""
        ranges = []
        for axis in range(3):
            edges = self._edges(axis)
            begin, end = box[0][axis], box[0][axis] + box[1][axis]
            ranges.append(
                [i for i, (a, b) in enumerate(itertools.pairwise(edges)) if a < end and b > begin]
            )
        return [self._number(place) for place in itertools.product(*ranges)]

    def _edges(self, axis: int) -> list[int]:
        starts, size = self.starts[axis], self.size[axis]
        middles = [(before + size + after) // 2 for before, after in itertools.pairwise(starts)]
        return [starts[0], *middles, starts[-1] + size]

    def _place(self, number: int) -> Vec3:
        if not 0 <= number < len(self):
            raise OutOfRangeError(f"subvolume {number}: expected one from 0 to {len(self) - 1}")
        _, y, x = self.counts
        return number // (y * x), number // x % y, number % x

    def _number(self, place: Sequence[int]) -> int:
        _, y, x = self.counts
        return (place[0] * y + place[1]) * x + place[2]


@dataclass(eq=False)
class Pieces:
    """The segmentations of the subvolumes of a cut, in a directory.

    Attributes:
        cut: How the box is cut.
        volume_shape: Size (z, y, x) of the volume that has the box.
        settings: What all subvolumes have in common: image, network and options, as JSON values.
        forward: How the process that made the directory computed forward passes: "layers" or "fft".
    """

    directory: Path
    cut: Cut
    volume_shape: Vec3
    settings: Mapping[str, Any]
    forward: str = "layers"

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Pieces:
        """Open a directory that `create` has made.

        Raises:
            InvalidFileError: If there is no plan in it, or the plan is damaged.
        """
        path = Path(directory) / PLAN
        return cls._read(path, reading.read_json(path, _EXPECTED))

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        cut: Cut,
        volume_shape: Vec3,
        settings: Mapping[str, Any],
        forward: str = "layers",
    ) -> Pieces:
        """Make a directory for the subvolumes of a cut, or open the one that is there if it is for the same ones.

        Raises:
            InvalidArgumentError: If the directory is for another cut, image, network or other options, or has other
                files but no plan.
            StorageError: If it cannot be written.
        """
        pieces = cls(Path(directory), cut, volume_shape, settings, forward)
        if ":" in os.fspath(directory):
            raise InvalidArgumentError(
                f"{directory}: names a dataset, expected a folder for subvolumes"
            )
        make_folder(pieces.directory)
        path = pieces.directory / PLAN
        wanted = {
            "format": _FORMAT,
            "box": box_text(cut.box),
            "subvolume": list(cut.size),
            "overlap": list(cut.overlap),
            "volume_shape": list(volume_shape),
            "settings": json.loads(json.dumps(settings)),
            _FORWARD: forward,
        }
        with reserved("segment", path, unchecked, wait_s=WAIT_S):
            with reading.reading(pieces.directory, "a folder of subvolumes"):
                others = set(os.listdir(pieces.directory)) - {PLAN, lock_path(path).name}
            if reading.exists(path):
                stored = reading.read_json(path, _EXPECTED)
                found = cls._read(path, stored)
                keys = [key for key in wanted if key != _FORWARD and stored.get(key) != wanted[key]]
                if not keys:
                    return found
                if others:  # else there is no subvolume of that plan
                    begun, (key, *_) = f"{pieces.directory}: its subvolumes were made", keys
                    raise other_work(begun, key, wanted[key], stored.get(key))
            elif not all(name.startswith(".") for name in others):
                raise InvalidArgumentError(
                    f"{pieces.directory}: has files but no {PLAN}, expected a new directory or one of a segmentation in"
                    " subvolumes"
                )
            cls._read(path, wanted)  # refuses what could not be read again
            replace_bytes(path, json.dumps(wanted, indent=1).encode())
        return pieces

    def confirm(self) -> None:
        """Raise InvalidArgumentError if the plan is for something else by now. Call this with the lock of a subvolume.

        Before a subvolume is locked, another command may replace the plan. From then on, none does.
        """
        Pieces.create(self.directory, self.cut, self.volume_shape, self.settings, self.forward)

    @classmethod
    def _read(cls, path: Path, plan: Any) -> Pieces:
        with reading.reading(path, _EXPECTED):
            try:
                if plan["format"] != _FORMAT:
                    raise InvalidArgumentError(f"format {plan['format']!r}, expected {_FORMAT!r}")
                box, shape = parse_box(plan["box"]), as_vec3(plan["volume_shape"])
                limits.VOXELS.check(math.prod(shape), "the number of voxels")
                if box is None or not is_inside(box, shape):
                    raise InvalidArgumentError(f"box {plan['box']!r}, expected one inside {shape}")
                cut = Cut(box, as_vec3(plan["subvolume"]), as_vec3(plan["overlap"]))
            except InvalidArgumentError as error:
                raise InvalidFileError(f"{path}: is not {_EXPECTED}: {error}") from None
            forward = str(plan.get(_FORWARD, "layers"))
            return cls(path.parent, cut, shape, dict(plan["settings"]), forward)

    def path(self, number: int) -> Path:
        """Return the file of a subvolume. Its name is the start (z, y, x) of the subvolume."""
        return self.directory / ("_".join(map(str, self.cut.subvolume(number)[0])) + ".h5")

    def reference(self, number: int) -> str:
        """Return the segmentation of a subvolume as "file:dataset"."""
        return f"{self.path(number)}:{DATASET}"

    def checkpoint(self, number: int) -> Path:
        """Return the file for checkpoints of a subvolume while it is segmented."""
        path = self.path(number)
        return path.with_name(f".{path.name}.checkpoint")

    def done(self, number: int) -> bool:
        """Return True if the segmentation of a subvolume is there."""
        return self.path(number).exists()

    def missing(self) -> list[int]:
        """Return the numbers of the subvolumes that are not segmented yet."""
        return [n for n in range(len(self.cut)) if not self.done(n)]

    def store(self, command: str, number: int, write: Callable[[], None]) -> bool:
        """Call `write`, which stores a subvolume, unless it is there; return True if this call did.

        Raises:
            LockedError: If another process segments the subvolume at the moment.
        """
        path, done = self.path(number), self.done(number)
        # A lock that is there now may be that of a process killed just after storing: taking it removes it.
        if done and not lock_path(path).exists():
            return False
        unless_locked = contextlib.suppress(LockedError) if done else contextlib.nullcontext()
        with unless_locked, reserved(command, path, unchecked):
            done = self.done(number)  # perhaps by a process that had the lock until now
            if not done:
                self.confirm()
                write()
            remove_checkpoints(self.checkpoint(number))
        return not done

    def write(
        self, number: int, labels: NDArray[Any], places: Sequence[Place] | None, command: str
    ) -> None:
        """Store the labels (z, y, x) of a subvolume, as uint32, and its places. Call this with its lock.

        Raises:
            StorageError: If the file cannot be written.
        """
        start, size = self.cut.subvolume(number)
        table = table_of(self.reference(number))
        for stale in temporaries(table):  # of processes that were killed
            stale.unlink(missing_ok=True)
        write_places(table, places, start, self.threshold)
        with hdf5_file(str(self.path(number)), command, [DATASET]) as file:
            file.create(DATASET, "uint32", list(size), [min(n, _CHUNK) for n in size], 4)
            file.attribute(DATASET, "box_start", list(start))
            file.attribute(DATASET, "box_size", list(size))
            file.attribute(DATASET, "volume_shape", list(self.volume_shape))
            file.write(DATASET, [0, 0, 0], labels.astype(np.uint32))

    @property
    def threshold(self) -> float:
        """Return the threshold of the agglomeration; 0 without one."""
        return float(self.settings.get("options", {}).get("threshold", 0.0))

    def read(self, number: int, box: Box) -> NDArray[Any]:
        """Return the labels of a box inside a subvolume, in voxels of the whole volume.

        Raises:
            InvalidFileError: If the file is missing, damaged, or of another subvolume.
        """
        volume = Volume(str(self.path(number)), DATASET)
        start, size = self.cut.subvolume(number)
        if volume.shape != size or volume.geometry.offset != start:
            raise InvalidFileError(
                f"{volume.name}: {volume.shape} voxels from {volume.geometry.offset}, expected {size} from {start}"
            )
        if not np.issubdtype(volume.dtype, np.unsignedinteger):
            raise InvalidFileError(f"{volume.name}: has {volume.dtype}, expected unsigned integers")
        return volume.read((difference(box[0], start), box[1]))
