# SPDX-License-Identifier: Apache-2.0
"""All functions with which Python reads files.

Every failure is an InvalidFileError, one line that names the file and what was expected. For a damaged file, other
libraries raise many kinds of exceptions without the name of the file. Sizes are checked before anything is read. Only
the core reads HDF5 files; it verifies checksums and limits the time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from floodtide.errors import Error, InvalidFileError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST_TEXT = 1 << 28
"""Maximum size in bytes of a text file."""

LARGEST_ARRAY = 1 << 28
"""Maximum size in bytes of an array in an .npz file."""

_LONGEST_REASON = 200  # letters

exists = os.path.isfile
"""True if a regular file of this name exists. Names that no file can have give False."""


def reading(path: str | os.PathLike[str], expected: str) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that turns every failure of its block into an InvalidFileError that names the file.

    Args:
        expected: What the file should be, for the message.

    Raises:
        InvalidFileError: If the block fails. Errors of floodtide are passed on unchanged.
    """
    return blaming(InvalidFileError, f"{os.fspath(path)}: cannot be read", expected)


@contextlib.contextmanager
def blaming(kind: type[Error], what: str, expected: str = "") -> Iterator[None]:
    """Turn every exception of a library in the block into an error of floodtide: "what: its reason; expected ...".

    Errors of floodtide are passed on unchanged.
    """
    try:
        yield
    except Error:
        raise
    except Exception as error:  # libraries raise many kinds
        raise kind(f"{what}: {reason(error)}{expected and f'; expected {expected}'}") from error


def reason(error: BaseException) -> str:
    """Return the message of an exception as one line. Messages of other libraries are cut to a limited length."""
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        text = f"there is no {text}"
    text = " ".join(text.split()).rstrip(".") or type(error).__name__
    own = isinstance(error, Error)  # such a message is long only if the names of files are
    return text if own or len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def require_file(path: str, name: str = "") -> None:
    """Refuse a path that is no regular file. Reading a FIFO would wait without end.

    Args:
        path: The path.
        name: What messages call the volume that has the file; "": the path.
    """
    where = f"{name}: {path}" if name else path
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise InvalidFileError(f"{where}: no such file") from None
    except (OSError, ValueError) as error:
        raise InvalidFileError(f"{where}: cannot be read: {reason(error)}") from None
    if not stat.S_ISREG(mode):
        raise InvalidFileError(f"{where}: is no regular file")


@contextlib.contextmanager
def opened(path: str | os.PathLike[str], expected: str) -> Iterator[BinaryIO]:
    """Yield an open regular file; every failure of the block is an InvalidFileError, as in `reading`.

    Raises:
        InvalidFileError: If the file is missing, or is not a regular file. Reading a FIFO or a device might never end.
    """
    with reading(path, expected):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidFileError(
                    f"{os.fspath(path)}: is not a regular file; expected {expected}"
                )
            yield file


def read_bytes(path: str | os.PathLike[str], expected: str, limit: int = LARGEST_TEXT) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises:
        InvalidFileError: If the file is missing, is larger, or is not a regular file.
    """
    with opened(path, expected) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise InvalidFileError(
                f"{os.fspath(path)}: has {size} bytes; expected {expected}, of at most {limit} bytes"
            )
        return file.read(limit)


def read_text(path: str | os.PathLike[str], expected: str = "text in UTF-8") -> str:
    """Return the content of a text file in UTF-8."""
    content = read_bytes(path, expected)
    with reading(path, expected):
        return content.decode("utf-8")


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    with blaming(InvalidFileError, f"{where}: is not TOML"):
        return tomllib.loads(text)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    return parse_toml(read_text(path, "a TOML file"), os.fspath(path))


def parse_json(text: str, where: str, expected: str = "JSON") -> Any:
    """Return the value of a JSON text."""
    with blaming(InvalidFileError, f"{where}: is not JSON", expected):
        return json.loads(text)


def read_json(path: str | os.PathLike[str], expected: str = "JSON") -> Any:
    """Return the value in a JSON file."""
    return parse_json(read_text(path, expected), os.fspath(path), expected)


def read_json_lines(
    path: str | os.PathLike[str], expected: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects of a file with one JSON object per line, each with its place ("FILE, line 3").

    Empty lines are skipped. A last line without a line end is an incomplete write and is skipped too.
    """
    rows = []
    for number, line in enumerate(read_text(path, expected).split("\n")[:-1], start=1):
        if not line.strip():
            continue
        where = f"{os.fspath(path)}, line {number}"
        row = parse_json(line, where, expected)
        if not isinstance(row, dict):
            raise InvalidFileError(f"{where}: is not a JSON object; expected {expected}")
        rows.append((where, row))
    return rows


def read_arrays(
    path: str | os.PathLike[str], names: Sequence[str], expected: str, limit: int
) -> list[NDArray[Any]]:
    """Return arrays of an .npz file. Python objects, which would need pickle, are refused."""
    content = read_bytes(path, expected, limit)
    with reading(path, expected), np.load(io.BytesIO(content), allow_pickle=False) as archive:
        for name in names:
            size = archive.zip.getinfo(f"{name}.npy").file_size
            if size > limit:
                raise InvalidFileError(
                    f"{os.fspath(path)}: {name} has {size} bytes; expected at most {limit}"
                )
        return [archive[name] for name in names]
