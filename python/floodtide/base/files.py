# SPDX-License-Identifier: Apache-2.0
"""Replace files atomically, and name the temporary files that this needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from floodtide import _core
from floodtide.errors import InvalidArgumentError, StorageError

SUFFIX = ".floodtide-tmp"
"""Suffix of temporary files: `.NAME.PID-RANDOM.floodtide-tmp`, a hidden file in the folder of the file NAME."""

# bytes of NAME; the whole name may have 255 (as in cpp/src/base/staged_file.cpp)
_LONGEST_STEM = 128


def path_and_dataset(reference: str) -> tuple[str, str]:
    """Split "volume.h5:group/raw" at the last colon, and return the path of the file and the name of the dataset.

    Raises:
        InvalidArgumentError: If the text does not have this form, or is not valid UTF-8, which HDF5 names must be.
    """
    require_utf8(reference, "FILE:DATASET")
    return _core.data.parse_dataset_name(reference)


def require_utf8(name: str, expected: str) -> None:
    """Raise InvalidArgumentError if a name is not valid UTF-8. `expected` describes the name in the message."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name!r}: is not valid UTF-8; expected {expected}") from None


def temporary(path: Path) -> Path:
    """Return a new, unpredictable name for a temporary file in the folder of `path`."""
    return path.with_name(f".{_stem(path)}.{os.getpid()}-{os.urandom(8).hex()}{SUFFIX}")


def temporaries(path: Path) -> Iterator[Path]:
    """Yield the existing temporary files of `path`."""
    pattern = re.compile(re.escape(f".{_stem(path)}.") + r"[0-9a-f-]+" + re.escape(SUFFIX))
    for name in os.listdir(path.parent):
        if pattern.fullmatch(name):
            yield path.with_name(name)


def _stem(path: Path) -> str:
    return os.fsdecode(os.fsencode(path.name)[:_LONGEST_STEM])


def make_folder(path: Path) -> None:
    """Create a folder, and those above it, if it does not exist. Raise StorageError if it cannot be created."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: cannot be made: {error.strerror}") from None


def replace_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file atomically by these bytes.

    The bytes go to a temporary file in the same folder. When they are on disk, the temporary file is renamed to `path`.
    Until then an older file is unchanged. If `path` is a symbolic link, the file that it points to is replaced.

    Raises:
        StorageError: If the bytes cannot be written, or another process changes the file at the same time.
        InvalidArgumentError: If `path` is not a regular file, such as a folder or a device, or is write-protected.
    """
    _core.replace_file(os.fsencode(path), content)


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file atomically by a text in UTF-8, as `replace_bytes` does."""
    replace_bytes(path, text.encode())
