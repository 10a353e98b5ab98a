# SPDX-License-Identifier: Apache-2.0
"""What a segmentation depends on, for work that continues later, and its checkpoints, also in the middle of an object.

A checkpoint is an .npz file without pickles, with what `_core.segment.Flooder.state` returns. It appears when it is
complete. A segmentation that continues from it finds the same segments, bit for bit, as one that was not interrupted.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import reading
from floodtide.base.files import replace_bytes, temporaries
from floodtide.config import SegmentOptions, to_dict
from floodtide.errors import InvalidArgumentError, InvalidFileError, StorageError

_FORMAT = "floodtide segment checkpoint 1"
_EXPECTED = "a checkpoint of floodtide segment"
_ARRAYS = (
    "segmentation", "probability", "logits", "touched", "queue", "done", "growth", "origins",
    "origin_starts", "overlaps",
)  # fmt: skip
_OTHERS = (
    "iterations", "walltime_s", "next_seed", "evaluations", "origin_walltimes_s", "counters",
    "times_s",
)  # fmt: skip
_LEFT_OUT = ("checkpoint", "image", "box", "subvolume", "overlap", "checkpoint_interval", "forward")
_ANOTHER = "expected the same, or another directory"
_LETTERS = 16  # of a digest
_LARGEST_TABLES = 1 << 30  # bytes of what does not have the size of the image


def digest(model: Any) -> str:
    """Return a text that differs for networks with other parameters; empty for an object that does not show them."""
    if not hasattr(model, "parameters"):
        return ""
    return digest_of_arrays(values for _, values in sorted(model.parameters().items()))


def digest_of_arrays(arrays: Iterable[NDArray[Any]]) -> str:
    """Return a text that differs for arrays of other numbers, types or shapes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.name} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:_LETTERS]


def options_of(options: SegmentOptions, model: Any) -> dict[str, Any]:
    """Return the options on which a segmentation depends, as JSON values.

    Options that place it, or only decide how fast it is, are left out.
    """
    kept = {name: value for name, value in to_dict(options).items() if name not in _LEFT_OUT}
    return kept | {"fov": list(model.fov), "deltas": list(model.deltas)}


def other_work(
    begun: str, key: str, here: Any, there: Any, how: str = _ANOTHER
) -> InvalidArgumentError:
    """Return the error of work that cannot continue, because it was begun with another value.

    Args:
        begun: What was begun, for the message: "out: its subvolumes were made".
        key, here, there: Name of the value, the value now and the one then. Of dictionaries, the first difference
            counts.
        how: How the work can go on, for the message.
    """
    while isinstance(here, dict) and isinstance(there, dict):
        changed = [name for name in here if here[name] != there.get(name)]
        if not changed:
            break
        key, here, there = changed[0], here[changed[0]], there.get(changed[0])
    return InvalidArgumentError(f"{begun} with {key} = {there}, now it is {here}; {how}")


class Checkpoint:
    """The checkpoint of one pass over the seeds.

    Args:
        path: The file. The folder must exist.
        settings: What the segmentation depends on, JSON values.
        forward: How forward passes are computed, "layers" or "fft".

    Attributes:
        forward: The same; after `read`, that of the checkpoint.
    """

    def __init__(
        self, path: Path, interval_s: float, settings: Mapping[str, Any], forward: str
    ) -> None:
        self.path = path
        self._interval_s = interval_s
        self._settings = json.loads(json.dumps(settings))
        self.forward = forward
        self._written_s = time.monotonic()

    def read(self, shape: Sequence[int]) -> dict[str, Any] | None:
        """Return the state of the flooder in the checkpoint; None if there is no checkpoint.

        Args:
            shape: Size (z, y, x) in voxels of the image with its halo.
        """
        if not reading.exists(self.path):
            return None
        limit = 16 * math.prod(shape) + _LARGEST_TABLES
        text, *arrays = reading.read_arrays(self.path, ("text", *_ARRAYS), _EXPECTED, limit)
        with reading.reading(self.path, _EXPECTED):
            stored = json.loads(bytes(text))
            if stored["format"] != _FORMAT:
                raise InvalidFileError(
                    f"{self.path}: format {stored['format']!r}, expected {_FORMAT!r}"
                )
            if stored["settings"] != self._settings:
                begun, settings = f"{self.path}: this checkpoint was made", stored["settings"]
                how = "expected the same, or no such file"
                raise other_work(begun, "settings", self._settings, settings, how)
            self.forward = str(stored.get("forward", "layers"))
            others = {name: stored["state"][name] for name in _OTHERS}
            return others | dict(zip(_ARRAYS, arrays, strict=True))

    def restore(self, flooder: Any, state: dict[str, Any]) -> None:
        """Give a new flooder the state that `read` has returned. Raise InvalidFileError if the state is damaged."""
        with reading.reading(self.path, _EXPECTED):
            flooder.restore(state)
        self._written_s = time.monotonic()

    def due(self, flooder: Any) -> None:
        """Write the checkpoint if the interval is over."""
        if time.monotonic() - self._written_s >= self._interval_s:
            self.write(flooder)

    def write(self, flooder: Any) -> None:
        """Write the checkpoint. Raise StorageError if it cannot be written. The older checkpoint stays."""
        state = flooder.state()
        text = json.dumps(
            {
                "format": _FORMAT,
                "settings": self._settings,
                "forward": self.forward,
                "state": {name: state[name] for name in _OTHERS},
            }
        )
        data = io.BytesIO()
        arrays: dict[str, Any] = {name: state[name] for name in _ARRAYS}
        np.savez_compressed(data, text=np.frombuffer(text.encode(), np.uint8), **arrays)
        replace_bytes(self.path, data.getvalue())
        self._written_s = time.monotonic()


def passes_of(path: Path) -> tuple[Path, Path]:
    """Return the files of the first and the second pass over a box, for the consensus of both."""
    return path, path.with_name(f"{path.name}.reverse")


def remove_checkpoints(path: Path) -> None:
    """Remove the checkpoints of a box whose segmentation is stored, and what killed processes have left of them.

    The caller has the lock of the segmentation, so that no other process writes a checkpoint.
    """
    try:
        for file in passes_of(path):
            for stale in (file, *temporaries(file)):
                stale.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: cannot be removed: {error.strerror}") from None
