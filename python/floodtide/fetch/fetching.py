# SPDX-License-Identifier: Apache-2.0
"""Bring a data set: read its files, prepare them, compare checksums, write them with their sources.

Every file is read whole, up to a limit. docs/decisions/20261123-volumes.md says why this does not use pooch.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.files import make_folder, replace_bytes, replace_text
from floodtide.base.outputs import WAIT_S, reserved, unchecked
from floodtide.base.reading import read_bytes
from floodtide.data.boxes import Progress
from floodtide.data.volumes import write_volume
from floodtide.errors import InvalidArgumentError, InvalidFileError, StorageError
from floodtide.fetch.prepare import hdf5_arrays
from floodtide.fetch.table import DataSet, Item

Content = bytes | dict[str, NDArray[Any]]  # of a file that is copied, or the arrays of an HDF5 file

COMMAND = "floodtide fetch"
TIMEOUT_S = 60.0
"""Seconds without an answer after which a download fails."""

_TOGETHER = 8  # files that are downloaded at the same time
_GZIP = 4


def fetch(
    name: str,
    data_set: DataSet,
    folder: Path,
    source: Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Bring the files of a data set that are not yet there, and return all its files.

    Args:
        folder: The data folder. It is made if it is missing.
        source: Folder with the files; None: their public origin. It may have prepared files, under the paths of the
            table, or clones or unpacked archives of the repositories.
        progress: Called as progress(files read, files).

    Raises:
        StorageError: If a download fails, or a file is not the expected one by its checksum.
        InvalidFileError: If the source has not all of the files, or a damaged one.
        InvalidArgumentError: If another file of that name is there, or the source is no folder.
    """
    if source is not None and not source.is_dir():
        raise InvalidArgumentError(
            f"{source}: is no folder; expected the folder that has the files"
        )
    total = sum(len(item.originals) for item in data_set.items)
    done = itertools.count(1)

    def read() -> None:
        if progress is not None:
            progress(next(done), total)

    paths, written = [], False
    for item in data_set.items:
        path = folder / item.path
        with _in_new_folder(path.parent), reserved("fetch", path, unchecked, wait_s=WAIT_S):
            if os.path.lexists(path):
                _require_right(path, item)
            else:
                _write(path, _found(item, source, read), item)
                written = True
        paths.append(path)
    notes = folder / f"SOURCES-{name}.md"
    if written:
        replace_text(notes, sources_text(name, data_set))
    return [*paths, notes] if os.path.lexists(notes) else paths


@contextlib.contextmanager
def _in_new_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents. If the block fails, remove the folders that this call made, if they are empty."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        make_folder(folder)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for one in new:
                one.rmdir()
        raise


def sources_text(name: str, data_set: DataSet) -> str:
    """Return the text that is written beside the files: origin, licence, attribution and checksums."""
    lines = [f"# {name}: sources and licences", "", data_set.about]
    lines += ["| file | from | SHA-256 |", "|---|---|---|"]
    for item in data_set.items:
        origin = f"{item.repository.name} at {item.repository.commit[:12]}"
        sums = {dataset: array.sha256 for dataset, array in item.arrays.items()}
        sums = sums or {"file": item.sha256}
        cells = "<br>".join(f"{what} `{value}`" for what, value in sums.items())
        first = item.originals[0][0] + (" ..." if len(item.originals) > 1 else "")
        lines.append(f"| `{item.path}` | {origin}, `{first}` | {cells} |")
    checksums = "The checksum of an array is that of its voxels, first axis slowest, little-endian."
    return "\n".join([*lines, "", checksums, ""])


def _found(item: Item, source: Path | None, read: Callable[[], None]) -> Content:
    """Return the content of a file, from the prepared file or the originals of a source, or from the public origin."""
    if source is not None and (prepared := _in_folder(source / item.path, item.limit)) is not None:
        for _ in item.originals:
            read()
        return _prepared(prepared, item, str(source / item.path))

    def one(alternatives: Sequence[str]) -> tuple[bytes, str]:
        for name in alternatives:
            if (content := _original(item, name, source)) is not None:
                return content, name
        if source is None:
            raise InvalidFileError(
                f"{item.repository.address(alternatives[0])}: there is no such file"
            )
        raise InvalidFileError(
            f"{source}: has neither {item.path} nor {alternatives[0]} of {item.repository.name}; expected the prepared"
            " file, or a clone"
        )

    contents, names = [], []
    with ThreadPoolExecutor(1 if source else _TOGETHER) as pool:
        for content, name in pool.map(one, item.originals):
            contents.append(content)
            names.append(name)
            read()
    if item.maker is None:
        return _checked(contents[0], item, names[0])
    return _checked(item.maker(contents, names), item, f"{item.path} made of {names[0]}")


def _original(item: Item, path: str, source: Path | None) -> bytes | None:
    """Return an original file; in a source, the repository may be a folder, or all of the source."""
    if source is None:
        return download(item.repository.address(path), item.limit)
    tail = item.repository.name.rpartition("/")[2]
    for folder in (tail, f"{tail}-{item.repository.commit}", f"{tail}-master", ""):
        if (content := _in_folder(source / folder / path, item.limit)) is not None:
            return content
    return None


def _in_folder(path: Path, limit: int) -> bytes | None:
    return read_bytes(path, "a file of the data set", limit) if os.path.lexists(path) else None


def download(address: str, limit: int) -> bytes | None:
    """Return what is at an address; None if there is nothing."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read(limit + 1)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            return None
        raise StorageError(f"{address}: cannot be read: {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        cause = " ".join(str(getattr(error, "reason", error)).split())
        raise StorageError(
            f"{address}: cannot be read: {cause}; without internet: --from FOLDER"
        ) from None
    if len(content) > limit:
        raise StorageError(
            f"{address}: has more than {_core.describe_bytes(limit)}, the most expected"
        )
    return content


def _prepared(content: bytes, item: Item, where: str) -> Content:
    """Return what a prepared file holds, checked."""
    arrays = hdf5_arrays(content, where, list(item.arrays)) if item.make else None
    return _checked(arrays or content, item, where)


def _checked(content: Content, item: Item, where: str) -> Content:
    """Return the content of a file, unless its checksums say that it is not the expected one."""
    if isinstance(content, bytes):
        sums = [("", item.sha256, hashlib.sha256(content).hexdigest())]
    else:
        sums = []
        for name, expected in item.arrays.items():
            found, dtype = content[name], np.dtype(expected.dtype)
            if found.shape != tuple(expected.shape) or found.dtype != dtype:
                raise StorageError(
                    f"{where}: {name} is {found.dtype} of shape {found.shape}, expected {dtype} of {expected.shape}:"
                    " damaged, or another version"
                )
            little = np.ascontiguousarray(found).astype(dtype.newbyteorder("<"), copy=False)
            sums.append((f" of {name}", expected.sha256, hashlib.sha256(little.data).hexdigest()))
    for what, right, digest in sums:
        if digest != right:
            raise StorageError(
                f"{where}: SHA-256{what} is {digest}, expected {right}: damaged, or another version"
            )
    return content


def _require_right(path: Path, item: Item) -> None:
    """Refuse a file that is there already, if it is another one."""
    content = read_bytes(path, "a file of the data set", item.limit)
    try:
        _prepared(content, item, str(path))
    except (StorageError, InvalidFileError) as error:
        raise InvalidArgumentError(
            f"{path}: exists and is not the file of this data set, so it is not replaced: move it away ({error})"
        ) from None


def _write(path: Path, content: Content, item: Item) -> None:
    """Write a copied file, or arrays to an HDF5 file. It takes its name when it is complete."""
    if isinstance(content, bytes):
        replace_bytes(path, content)
        return
    arrays = {name: np.ascontiguousarray(values) for name, values in content.items()}
    write_volume(path, arrays, voxel_size_nm=item.voxel_size_nm, gzip=_GZIP, command=COMMAND)
