# SPDX-License-Identifier: Apache-2.0
"""Where files come from: their public origin, another address, a folder, or an archive.

Every file is read whole, up to a limit. Names in an archive are only compared, never used as paths. Links are refused.
"""

from __future__ import annotations

import os
import stat
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from floodtide import _core
from floodtide.base import reading
from floodtide.errors import InvalidArgumentError, InvalidFileError, StorageError

TIMEOUT_S = 60.0
"""Seconds without an answer after which a download fails."""

_MOST_MEMBERS = 1_000_000  # of an archive
_SCHEMES = ("http", "https", "file")


class Source(Protocol):
    """A place to read files from.

    Attributes:
        name: For messages.
        together: Number of files to read at the same time.
    """

    name: str
    together: int

    def read(self, path: str, limit: int) -> bytes | None:
        """Return a file of at most `limit` bytes; None if there is none of this name."""


@contextmanager
def opened(text: str) -> Iterator[Source]:
    """Return a context manager with the source that a text means: an address, a folder, or an archive.

    Raises:
        InvalidArgumentError: If the text is none of these.
        InvalidFileError: If the archive cannot be read.
    """
    scheme = urllib.parse.urlsplit(text).scheme
    if scheme in _SCHEMES and ":" in text:
        yield Address(text)
    elif os.path.isdir(text):
        yield Folder(text)
    elif reading.exists(text) and zipfile.is_zipfile(text):
        with reading.reading(text, "a zip archive"), zipfile.ZipFile(text) as file:
            yield _zip(text, file)
    elif reading.exists(text):
        with reading.reading(text, "a folder, or a zip or tar archive"), tarfile.open(text) as file:
            yield _tar(text, file)
    else:
        raise InvalidArgumentError(
            f"--from {text}: there is none; expected a folder, a zip or tar archive, or an address (http:, https:,"
            " file:)"
        )


class Address:
    """Files below a base address, http:, https: or file:."""

    together = 8

    def __init__(self, base: str) -> None:
        self.name = base
        self._base = base if base.endswith("/") else f"{base}/"

    def read(self, path: str, limit: int) -> bytes | None:
        return download(self._base + urllib.parse.quote(path), limit)


def download(address: str, limit: int) -> bytes | None:
    """Return what is at an address; None if there is nothing.

    Raises:
        StorageError: If it cannot be read, or has more than `limit` bytes.
    """
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            return _limited(answer, address, limit)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            return None
        raise StorageError(f"{address}: cannot be read: {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, FileNotFoundError) or "No such file" in str(cause):
            return None
        raise StorageError(
            f"{address}: cannot be read: {' '.join(str(cause).split())}; without internet: --from FOLDER or ARCHIVE"
        ) from None


class Folder:
    """Files in a folder."""

    together = 1

    def __init__(self, root: str) -> None:
        self.name = root
        self._root = Path(root)

    def read(self, path: str, limit: int) -> bytes | None:
        place = self._root / path
        if not os.path.lexists(place):
            return None
        return reading.read_bytes(place, "a file of the data set", limit)


class Archive:
    """Regular files in an archive.

    Args:
        name: For messages.
        members: {name: function that opens the file, or None for a link or a device}.
    """

    together = 1

    def __init__(self, name: str, members: dict[str, Callable[[], IO[bytes]] | None]) -> None:
        self.name = name
        self._members = members

    def read(self, path: str, limit: int) -> bytes | None:
        if path not in self._members:
            return None
        where = f"{self.name}: {path}"
        member = self._members[path]
        if member is None:
            raise InvalidFileError(f"{where}: is no regular file of the archive; expected no link")
        with reading.reading(where, "a file in an archive"), member() as stream:
            return _limited(stream, where, limit)


def _tar(name: str, file: tarfile.TarFile) -> Archive:
    members: dict[str, Callable[[], IO[bytes]] | None] = {}
    for member in file:
        if len(members) >= _MOST_MEMBERS:
            raise InvalidFileError(f"{name}: has more than {_MOST_MEMBERS} files")
        if member.isdir():
            continue

        def open_member(member: tarfile.TarInfo = member) -> IO[bytes]:
            stream = file.extractfile(member)
            assert stream is not None  # of a regular file
            return stream

        members[_plain(member.name)] = open_member if member.isreg() else None
    return Archive(name, members)


def _zip(name: str, file: zipfile.ZipFile) -> Archive:
    members: dict[str, Callable[[], IO[bytes]] | None] = {}
    for info in file.infolist():
        if info.is_dir():
            continue
        kind = stat.S_IFMT(info.external_attr >> 16)

        def open_member(info: zipfile.ZipInfo = info) -> IO[bytes]:
            return file.open(info)

        members[_plain(info.filename)] = open_member if kind in (0, stat.S_IFREG) else None
    return Archive(name, members)


def _plain(name: str) -> str:
    return name.removeprefix("./")


def _limited(stream: IO[bytes], where: str, limit: int) -> bytes:
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise StorageError(
            f"{where}: has more than {_core.describe_bytes(limit)}, the most expected"
        )
    return content
