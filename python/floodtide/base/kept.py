# SPDX-License-Identifier: Apache-2.0
"""Texts that the file of a network keeps of its training: `statistics` of the images, and the `configuration`.

A checkpoint of a training has an attribute for each. In the HDF5 file of a converted network, the attribute
`statistics` is a JSON object of both texts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from floodtide import _core
from floodtide.base import reading
from floodtide.base.libraries import library
from floodtide.errors import InvalidFileError

TRAINING_IMAGES = "training_images"
"""Name of the statistics in the metadata of files for other programs."""


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
    try:
        with module.safe_open(path, "np") as file:
            yield file
    except (module.SafetensorError, OSError, TypeError, AttributeError) as error:
        raise InvalidFileError(
            f"load: {path}: {error}; expected a safetensors file of float32 arrays"
        ) from None
