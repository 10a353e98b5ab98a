# SPDX-License-Identifier: Apache-2.0
"""Where files come from: their public origin, another address, a folder, or an archive, which is unpacked first.

Every file is read whole, up to a limit.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from floodtide import _core
from floodtide.base import reading
from floodtide.errors import InvalidArgumentError, InvalidFileError, StorageError

TIMEOUT_S = 60.0
"""Seconds without an answer after which a download fails."""

TOGETHER = 8
"""Number of files that are downloaded at the same time."""

_SCHEMES = ("http", "https", "file")


@dataclass(frozen=True)
class FileSource:
    """A place to read files from.

    Attributes:
        name: For messages.
        read: Called as read(path, limit). Returns a file of at most `limit` bytes; None if there is none of this name.
        together: Number of files to read at the same time.
    """

    name: str
    read: Callable[[str, int], bytes | None]
    together: int = 1


@contextmanager
def opened(text: str) -> Iterator[FileSource]:
    """Return a context manager with the source that a text means: an address, a folder, or an archive.

    Raises:
        InvalidArgumentError: If the text is none of these.
        InvalidFileError: If the archive cannot be read, or has a link or a name that leads out of it.
    """
    if urllib.parse.urlsplit(text).scheme in _SCHEMES:
        base = text if text.endswith("/") else f"{text}/"
        yield FileSource(
            text, lambda path, limit: download(base + urllib.parse.quote(path), limit), TOGETHER
        )
    elif os.path.isdir(text):
        yield _folder(text, text)
    elif reading.exists(text):
        with tempfile.TemporaryDirectory() as folder:
            _unpack(text, folder)
            yield _folder(text, folder)
    else:
        raise InvalidArgumentError(
            f"--from {text}: there is none; expected a folder, a zip or tar archive, or an address (http:, https:,"
            " file:)"
        )


def download(address: str, limit: int) -> bytes | None:
    """Return what is at an address; None if there is nothing.

    Raises:
        StorageError: If it cannot be read, or has more than `limit` bytes.
    """
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read(limit + 1)
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
    if len(content) > limit:
        raise StorageError(
            f"{address}: has more than {_core.describe_bytes(limit)}, the most expected"
        )
    return content


def _folder(name: str, root: str) -> FileSource:
    def read(path: str, limit: int) -> bytes | None:
        place = Path(root, path)
        if not os.path.lexists(place):
            return None
        return reading.read_bytes(place, "a file of the data set", limit)

    return FileSource(name, read)


def _unpack(archive: str, folder: str) -> None:
    """Unpack an archive of files and folders. Links, devices, and names that lead out of the folder are refused."""
    with reading.reading(archive, "a folder, or a zip or tar archive"):
        try:
            if tarfile.is_tarfile(archive):
                with tarfile.open(archive) as file:
                    for member in file:
                        if not _belongs(member, folder):
                            raise tarfile.TarError(
                                f"{member.name} is no file or folder inside of it"
                            )
                    file.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
                    file.extractall(folder)
            else:
                shutil.unpack_archive(archive, folder, "zip")
        except (tarfile.TarError, shutil.Error) as error:
            raise InvalidFileError(f"{archive}: cannot be unpacked: {error}") from None


def _belongs(member: tarfile.TarInfo, folder: str) -> bool:
    place = os.path.realpath(os.path.join(folder, member.name))
    inside = os.path.join(os.path.realpath(folder), "")
    return (member.isfile() or member.isdir()) and f"{place}/".startswith(inside)
