# SPDX-License-Identifier: Apache-2.0
"""Files that are never seen half written, and the temporary names under which they are written."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from floodtide import _core
from floodtide.errors import InvalidArgumentError

SUFFIX = ".floodtide-tmp"
"""End of the name of every temporary file: `.NAME.PID-RANDOM.floodtide-tmp`, hidden beside the file NAME."""

_LONGEST_STEM = (
    128  # bytes of NAME: file systems allow 255 for the whole (as cpp/src/base/staged_file.cpp)
)


def path_and_dataset(reference: str) -> tuple[str, str]:
    """Split "volume.h5:group/raw" at its last colon into the file's path and the dataset's name.

    Raises:
        InvalidArgumentError: If it has not this form, or is not text in UTF-8, as names in HDF5 files are.
    """
    try:
        reference.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{reference!r}: is not text in UTF-8; expected FILE:DATASET"
        ) from None
    path, dataset = _core.data.parse_dataset_name(reference)
    return path, dataset


def temporary(path: Path) -> Path:
    """A new name for a temporary file beside `path`, which nobody can guess."""
    return path.with_name(f".{_stem(path)}.{os.getpid()}-{secrets.token_hex(8)}{SUFFIX}")


def temporaries(path: Path) -> Iterator[Path]:
    """The temporary files of `path` that are there now."""
    pattern = re.compile(re.escape(f".{_stem(path)}.") + r"[0-9a-f-]+" + re.escape(SUFFIX))
    for name in os.listdir(path.parent):
        if pattern.fullmatch(name):
            yield path.with_name(name)


def _stem(path: Path) -> str:
    return os.fsdecode(os.fsencode(path.name)[:_LONGEST_STEM])


def replace_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes beside `path`, wait until they are on disk, and rename them.

    An older file stays as it was until then. A symbolic link is followed: the file that it points to is replaced.

    Raises:
        StorageError: If they cannot be written, or another process changes the file at the same time.
        InvalidArgumentError: If the path is a folder, a device or the like, or a write-protected file.
    """
    _core.replace_file(os.fsencode(path), content)


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by a text, as `replace_bytes` does."""
    replace_bytes(path, text.encode())
