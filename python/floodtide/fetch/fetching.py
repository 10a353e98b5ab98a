# SPDX-License-Identifier: Apache-2.0
"""The public data sets, and how to bring one: read its files, prepare them, compare checksums, write them.

`data_sets.toml` describes the data sets. A new one is a table there and a function in `prepare`. Every file is read
whole, up to a limit. docs/decisions/20261123-volumes.md says why this does not use pooch.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.files import make_folder, replace_bytes, replace_text
from floodtide.base.reading import read_bytes, read_toml
from floodtide.data.boxes import Progress
from floodtide.data.volumes import write_volume
from floodtide.errors import InvalidArgumentError, InvalidFileError, StorageError
from floodtide.fetch import prepare

Content = bytes | dict[str, NDArray[Any]]  # of a file that is copied, or the arrays of an HDF5 file

TIMEOUT_S = 60.0
"""Seconds without an answer after which a download fails."""

_TOGETHER = 8  # files that are downloaded at the same time

_TABLE = Path(__file__).with_name("data_sets.toml")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A public repository at one commit."""

    name: str  # owner/name on GitHub
    commit: str

    def address(self, path: str) -> str:
        """Return the address of a file."""
        return f"https://raw.githubusercontent.com/{self.name}/{self.commit}/{path}"


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file of a data set, as the table describes it.

    Attributes:
        path: Its place below the data folder.
        repository: Where the original files are.
        names: The names that an original may have, in the order in which they are tried; patterns, if there are many
            originals.
        numbers: First number and end of those that replace {number} in a pattern.
        slices: Lines "patient: slice slice ...", whose numbers replace {patient} and {slice}. {kind} is images, then
            masks.
        make: Name of the function of `prepare` that turns the originals into arrays, for an HDF5 file; "": the file is
            copied.
        arrays: SHA-256 of the voxels of each array, by the name of the dataset; empty: the file is copied.
        sha256: Of a file that is copied.
        voxel_size_nm: Of the arrays with three axes.
        limit: Most bytes of an original, or of the prepared file.
    """

    path: str
    repository: Repository
    names: Sequence[str]
    numbers: Sequence[int] = ()
    slices: str = ""
    make: str = ""
    arrays: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""
    voxel_size_nm: Sequence[float] | None = None
    limit: int = 64 << 20

    @property
    def originals(self) -> list[list[str]]:
        """Return the paths of the originals in the repository; each with the names that it may have."""
        rows: list[dict[str, Any]] = [{"number": number} for number in range(*self.numbers or (0,))]
        for line in self.slices.splitlines():
            patient, _, found = line.partition(":")
            for n in found.split():
                rows += ({"kind": k, "patient": patient, "slice": n} for k in ("images", "masks"))
        return [[name.format(**row) for name in self.names] for row in rows or [{}]]


class DataSet(NamedTuple):
    """A data set: what `floodtide fetch NAME` brings."""

    summary: str  # one line for the list of data sets
    about: str  # of SOURCES-name.md: what it is, licences, attribution, publications, and how it was made
    items: Sequence[Item]


def _data_sets() -> dict[str, DataSet]:
    tables = read_toml(_TABLE)
    repositories = {name: Repository(**row) for name, row in tables["repositories"].items()}
    found = {}
    for name, row in tables["data_sets"].items():
        for file in row["files"]:
            file["repository"] = repositories[file["repository"]]
        items = [Item(**file) for file in row["files"]]
        found[name] = DataSet(summary=row["summary"], about=row["about"], items=items)
    return found


DATA_SETS: dict[str, DataSet] = _data_sets()


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
        raise InvalidArgumentError(f"{source}: is no folder; expected the folder with the files")
    total = sum(len(item.originals) for item in data_set.items)
    done = itertools.count(1)

    def read() -> None:
        if progress is not None:
            progress(next(done), total)

    paths, written = [], False
    for item in data_set.items:
        path = folder / item.path
        if os.path.lexists(path):
            _require_right(path, item)
        else:
            content = _found(item, source, read)
            make_folder(path.parent)
            if isinstance(content, bytes):
                replace_bytes(path, content)
            else:
                size = item.voxel_size_nm
                write_volume(path, content, voxel_size_nm=size, gzip=4, command="floodtide fetch")
            written = True
        paths.append(path)
    notes = folder / f"SOURCES-{name}.md"
    if written:
        replace_text(notes, sources_text(name, data_set))
    return [*paths, notes] if os.path.lexists(notes) else paths


def sources_text(name: str, data_set: DataSet) -> str:
    """Return the text that is written beside the files: licence, attribution and origin."""
    lines = [f"# {name}: sources and licences", "", data_set.about, "| file | from |", "|---|---|"]
    for item in data_set.items:
        first = item.originals[0][0] + (" ..." if len(item.originals) > 1 else "")
        origin = f"{item.repository.name} at {item.repository.commit[:12]}, `{first}`"
        lines.append(f"| `{item.path}` | {origin} |")
    return "\n".join([*lines, ""])


def _found(item: Item, source: Path | None, read: Callable[[], None]) -> Content:
    """Return the content of a file, from the prepared file or the originals of a source, or from the public origin."""
    if source is not None and (prepared := _in_folder(source / item.path, item.limit)) is not None:
        for _ in item.originals:
            read()
        return _checked(prepared, item, str(source / item.path))

    def one(alternatives: Sequence[str]) -> tuple[bytes, str]:
        for name in alternatives:
            if (content := _original(item, name, source)) is not None:
                return content, name
        raise InvalidFileError(
            f"{source or 'github.com'}: has neither {item.path} nor {alternatives[0]} of {item.repository.name};"
            " expected the prepared file, or a clone"
        )

    found = []
    with ThreadPoolExecutor(1 if source else _TOGETHER) as pool:
        for original in pool.map(one, item.originals):
            found.append(original)
            read()
    contents, names = zip(*found, strict=True)
    if not item.make:
        return _checked(contents[0], item, names[0])
    made = getattr(prepare, item.make)(contents, names)
    return _checked(made, item, f"{item.path} made of {names[0]}")


def _original(item: Item, path: str, source: Path | None) -> bytes | None:
    """Return an original file; in a source, the repository may be a folder, or all of the source."""
    if source is None:
        return download(item.repository.address(path), item.limit)
    folders = sorted(source.glob(f"{item.repository.name.rpartition('/')[2]}*"))
    found = (_in_folder(folder / path, item.limit) for folder in (*folders, source))
    return next((content for content in found if content is not None), None)


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
        raise StorageError(f"{address}: more than {_core.describe_bytes(limit)}, the most expected")
    return content


def _checked(content: Content, item: Item, where: str) -> Content:
    """Return what a prepared file holds, unless its checksums say that it is not the expected one."""
    if isinstance(content, bytes) and item.arrays:
        content = prepare.hdf5_arrays(content, where, list(item.arrays))
    parts: dict[str, Any] = {"": content} if isinstance(content, bytes) else dict(content)
    for name, right in (item.arrays or {"": item.sha256}).items():
        part = parts[name]
        if not isinstance(part, bytes):
            part = np.ascontiguousarray(part, part.dtype.newbyteorder("<")).data
        if (digest := hashlib.sha256(part).hexdigest()) != right:
            raise StorageError(
                f"{where}: SHA-256{name and f' of {name}'} is {digest}, expected {right}: damaged, or another version"
            )
    return content


def _require_right(path: Path, item: Item) -> None:
    """Refuse a file that is there already, if it is another one."""
    content = read_bytes(path, "a file of the data set", item.limit)
    try:
        _checked(content, item, str(path))
    except (StorageError, InvalidFileError) as error:
        raise InvalidArgumentError(
            f"{path}: exists and is not the file of this data set, so it is not replaced: move it away ({error})"
        ) from None
