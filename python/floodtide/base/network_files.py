# SPDX-License-Identifier: Apache-2.0
"""Files of networks: paths of the checkpoints in a run directory, and the texts that a file keeps of the training.

A checkpoint has the attributes `statistics` (of the training images) and `configuration`. In the HDF5 file of a
converted network, the attribute `statistics` is a JSON object of both texts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.base import reading
from floodtide.base.libraries import library
from floodtide.errors import InvalidFileError

DECODING = "decoding.json"
"""Name of the file of a run directory that keeps how affinities become segments: what was chosen on held-out voxels."""

CHECKPOINT = re.compile(r"step-(\d+)\.h5")

TRAINING_IMAGES = "training_images"
"""Name of the statistics in the metadata of files for other programs."""


def checkpoint_path(run: Path, step: int) -> Path:
    """Return the path of the checkpoint that is written after `step` training steps."""
    return run / "checkpoints" / f"step-{step}.h5"


def checkpoints(run: Path) -> list[Path]:
    """Return all checkpoints of a run directory, oldest first. Raise InvalidFileError if the folder cannot be read."""
    with reading.reading(run, "a run directory"):
        paths = (run / "checkpoints").glob("step-*.h5")
        found = [(int(step[1]), p) for p in paths if (step := CHECKPOINT.fullmatch(p.name))]
    return [path for _, path in sorted(found)]


def stored_text(path: str | os.PathLike[str], name: str) -> str:
    """Return the text `statistics` (JSON) or `configuration` (TOML) of a checkpoint or safetensors file; else ""."""
    path = os.fspath(path)
    if is_safetensors(path):
        return metadata(path).get(TRAINING_IMAGES if name == "statistics" else name, "")
    text = _core.stored_text(path, "statistics")
    if text.startswith("{"):
        return str(reading.parse_json(text, path).get(name, ""))
    return text if name == "statistics" else _core.stored_text(path, name)


def joined(statistics: str, configuration: str) -> str:
    """Return the attribute `statistics` of the HDF5 file of a network that is no checkpoint of a training."""
    both = {"statistics": statistics, "configuration": configuration}
    return json.dumps(both) if configuration else statistics


def is_safetensors(path: str | os.PathLike[str]) -> bool:
    """Return True if a name ends in .safetensors."""
    return os.fspath(path).lower().endswith(".safetensors")


def metadata(path: str) -> dict[str, str]:
    """Return the metadata of a safetensors file."""
    with opened(path) as file:
        return dict(file.metadata() or {})


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """Yield an open safetensors file. Raise InvalidFileError if the block fails, as for a type that NumPy lacks."""
    module = library("safetensors", f"load {path}", "safetensors")
    where, expected = f"load: {path}", "a safetensors file of float32 arrays"
    with reading.blaming(InvalidFileError, where, expected), module.safe_open(path, "np") as file:
        yield file
