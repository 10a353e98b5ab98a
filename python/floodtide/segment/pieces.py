# SPDX-License-Identifier: Apache-2.0
"""A directory with the segmentations of the subvolumes of a cut (docs/formats.md).

Each subvolume is a file that appears when it is complete. So any number of processes can work on one directory, and
after a crash only the subvolumes under way are lost.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits, reading
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import WAIT_S, lock_path, reserved, unchecked
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import as_vec3, box_text
from floodtide.errors import Error, InvalidArgumentError, InvalidFileError, StorageError
from floodtide.segment.cut import Cut
from floodtide.segment.identity import first_difference

PLAN = "cut.json"
DATASET = "segmentation"
CALLS = "network_calls"  # attribute of it
_FORMAT = "floodtide subvolumes 1"
_EXPECTED = "the plan of a segmentation in subvolumes"
_FORWARD = "forward"  # may differ: results differ by rounding only


class Pieces:
    """The segmentations of the subvolumes of a cut, in a directory.

    Attributes:
        directory: The directory.
        cut: How the box is cut.
        volume_shape: Size (z, y, x) of the volume that has the box.
        settings: What all subvolumes have in common: image, network and options, as JSON values.
        forward: How the process that made the directory computed forward passes: "layers" or "fft".
    """

    def __init__(
        self,
        directory: Path,
        cut: Cut,
        volume_shape: Vec3,
        settings: Mapping[str, Any],
        forward: str = "layers",
    ) -> None:
        self.directory = directory
        self.cut = cut
        self.volume_shape = volume_shape
        self.settings = dict(settings)
        self.forward = forward
        self._begun = False

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
        path = pieces.directory / PLAN
        try:
            pieces.directory.mkdir(parents=True, exist_ok=True)
            # Another process may be making the plan: its lock and temporary files are hidden files.
            others = [name for name in os.listdir(pieces.directory) if not name.startswith(".")]
        except OSError as error:
            raise StorageError(f"{directory}: cannot be made: {error.strerror}") from None
        if others and not reading.exists(path):
            raise InvalidArgumentError(
                f"{directory}: has files but no {PLAN}, expected a new directory or one of a segmentation in subvolumes"
            )
        pieces.forward = pieces._settled().forward
        return pieces

    def _settled(self) -> Pieces:
        """Write the plan if there is none, and return what it says. Raise unless it is for these subvolumes."""
        path, wanted = self.directory / PLAN, self._plan()
        with reserved("segment", path, unchecked, wait_s=WAIT_S):
            if not reading.exists(path):
                replace_bytes(path, json.dumps(wanted, indent=1).encode())
            stored = reading.read_json(path, _EXPECTED)
        found = self._read(path, stored)
        for name, value in wanted.items():
            if name != _FORWARD and stored.get(name) != value:
                here, there = first_difference(name, value, stored.get(name))
                raise InvalidArgumentError(
                    f"{self.directory}: its subvolumes were made with {there}, now it is {here}; expected the same, or"
                    " another directory"
                )
        return found

    def begin(self) -> None:
        """Make sure that the plan is in the directory. Call this with the lock of a subvolume.

        Until then, a refused command may have removed the plan (`discard`). From then on, none does.

        Raises:
            InvalidArgumentError: If there is a plan for something else now.
        """
        if not self._begun:
            self._settled()
            self._begun = True

    def discard(self) -> None:
        """Remove the plan if no subvolume is segmented or under way: the command for which it was made is refused."""
        path = self.directory / PLAN
        with contextlib.suppress(Error, OSError), reserved("segment", path, unchecked):
            if set(os.listdir(self.directory)) <= {PLAN, lock_path(path).name}:
                path.unlink(missing_ok=True)

    @classmethod
    def _read(cls, path: Path, plan: Any) -> Pieces:
        with reading.reading(path, _EXPECTED):
            if plan["format"] != _FORMAT:
                raise InvalidFileError(f"{path}: format {plan['format']!r}, expected {_FORMAT!r}")
            try:
                box = parse_box(plan["box"])
                cut = Cut(
                    ((0, 0, 0), (0, 0, 0)) if box is None else box,
                    as_vec3(plan["subvolume"]),
                    as_vec3(plan["overlap"]),
                )
                shape = as_vec3(plan["volume_shape"])
                limits.VOXELS.check(math.prod(shape), "the number of voxels")
            except InvalidArgumentError as error:
                raise InvalidFileError(f"{path}: is not {_EXPECTED}: {error}") from None
            if box is None or any(a + n > whole for a, n, whole in zip(*box, shape, strict=True)):
                raise InvalidFileError(
                    f"{path}: box {plan['box']!r}, expected one inside a volume of {shape}"
                )
            forward = str(plan.get(_FORWARD, "layers"))
            return cls(path.parent, cut, shape, dict(plan["settings"]), forward)

    def _plan(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "box": box_text(self.cut.box),
            "subvolume": list(self.cut.size),
            "overlap": list(self.cut.overlap),
            "volume_shape": list(self.volume_shape),
            "settings": json.loads(json.dumps(self.settings)),
            _FORWARD: self.forward,
        }

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

    def missing(self, numbers: range | None = None) -> Iterator[int]:
        """Yield the numbers of the subvolumes that are not segmented yet."""
        return (n for n in numbers or range(len(self.cut)) if not self.done(n))

    def network_calls(self) -> list[int]:
        """Return the network calls of the subvolumes that are segmented and state them.

        Raises:
            InvalidFileError: If the file of a subvolume is damaged.
        """
        found = []
        for number in range(len(self.cut)):
            if self.done(number):
                text = Volume(str(self.path(number)), DATASET).text(CALLS)
                if text and not text.isdecimal():
                    raise InvalidFileError(
                        f"{self.reference(number)}: attribute {CALLS} is {text!r}, expected a number"
                    )
                if text:
                    found.append(int(text))
        return found

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
            raise InvalidFileError(
                f"{volume.name}: holds {volume.dtype}, expected unsigned integers"
            )
        z, y, x = (a - b for a, b in zip(box[0], start, strict=True))
        return volume.read(((z, y, x), box[1]))
