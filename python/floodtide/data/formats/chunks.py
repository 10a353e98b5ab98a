# SPDX-License-Identifier: Apache-2.0
"""Files of chunks. An absent chunk holds the fill value by definition, so that a lost one looks like zeros."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from floodtide.base import notes
from floodtide.errors import InvalidFileError

_ENDINGS = (".gz", ".br", ".zst", ".zstd", ".bz2", ".xz", ".lz4")
_MANY = 0.1  # share of absent chunks above which a note says so
_MOST = 1 << 16  # files that rank 0 looks at
_FEW = 64  # files that every other rank looks at: a volume is listed once, and each rank refuses what it would misread


def check_chunks(
    name: str, folder: Path, known: Callable[[str], object], expected: int, writer: Any
) -> None:
    """Refuse files of chunks that would be passed over. On rank 0, note if many chunks do not exist.

    Args:
        name: The volume, for messages.
        folder: Where its chunks are.
        known: Says if a path in the folder is that of a chunk.
        expected: Number of chunks of the volume.
        writer: The attribute `written_by`. floodtide writes all chunks, so that every absent one is noted.

    Raises:
        InvalidFileError: If a chunk has another ending or is no file, or all have names of another form.
    """
    digits = re.compile(r"[\dc]+([./][\dc]+)*|(-?\d+--?\d+_){2}-?\d+--?\d+")
    found, other, most = 0, "", _MOST if notes.speaks() else _FEW
    for number, path in enumerate(_files(folder, "")):
        if number >= most:
            expected = 0  # not all are listed
            break
        if known(path):
            found += 1
            continue
        plain, ending = os.path.splitext(path)
        if ending in _ENDINGS and known(plain):
            raise InvalidFileError(
                f"{name}: the chunk {folder / path} is compressed as a whole file, expected {plain}: decompress the"
                f" chunks, or write the volume without the ending {ending} (CloudVolume: compress=False)"
            )
        if digits.fullmatch(path):
            other = path
    if not found and other:
        raise InvalidFileError(
            f"{name}: no chunk has the name that its metadata states, and {folder / other} has another one; expected"
            " the separator and the chunk size of the metadata"
        )
    own = isinstance(writer, str) and writer.startswith("floodtide")
    if expected - found > (0 if own else _MANY * expected):
        more = f" ({writer} wrote all of them)" if own else ""
        notes.show(
            f"{name}: {expected - found} of {expected} chunks do not exist{more}, and are read as the fill value"
        )


def of_precomputed(
    start: Sequence[int], size: Sequence[int], chunk: Sequence[int]
) -> Callable[[str], bool]:
    """Return a function that says if a name is that of a chunk of a precomputed scale: "0-64_64-128_0-40".

    Args:
        start: The first voxel (x, y, z) of the scale.
        size: Of the scale.
        chunk: Of a chunk.
    """
    ranges = [
        {f"{a}-{min(a + c, first + n)}" for a in range(first, first + n, c)}
        for first, n, c in zip(start, size, chunk, strict=True)
    ]

    def known(name: str) -> bool:
        parts = name.split("_")
        return len(parts) == 3 and all(one in axis for one, axis in zip(parts, ranges, strict=True))

    return known


def _files(folder: Path, below: str) -> Iterator[str]:
    """Yield the paths of the files in a folder."""
    try:
        entries = os.scandir(folder / below)
    except OSError:
        return  # a folder that does not exist has no chunks; reading names one that cannot be read
    with entries:
        for entry in entries:
            path = f"{below}{entry.name}"
            if entry.is_dir():
                yield from _files(folder, f"{path}/")
            elif not entry.is_file():  # reading a FIFO would never end
                raise InvalidFileError(f"{folder / path} is no regular file, expected a chunk")
            else:
                yield path
