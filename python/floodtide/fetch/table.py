# SPDX-License-Identifier: Apache-2.0
"""The public data sets, as `data_sets.toml` describes them. A new one is a table there and a function in `prepare`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from floodtide.base.reading import read_toml
from floodtide.fetch import prepare

Make = Callable[[Sequence[bytes], Sequence[str]], dict[str, NDArray[Any]]]

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
class Array:
    """An array of a prepared file. `sha256` is the checksum of its voxels."""

    sha256: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file of a data set.

    Attributes:
        path: Its place below the data folder.
        repository: Where the original files are.
        originals: Their paths there; each with the names that it may have, in the order in which they are tried.
        make: Turns the originals into arrays, for an HDF5 file; None: the file is copied.
        arrays: The arrays by the name of the dataset, if there are any.
        sha256: Of a file that is copied.
        voxel_size_nm: Of the arrays with three axes.
        limit: Most bytes of an original, or of the prepared file.
    """

    path: str
    repository: Repository
    originals: tuple[tuple[str, ...], ...]
    make: Make | None = None
    arrays: dict[str, Array] = field(default_factory=dict)
    sha256: str = ""
    voxel_size_nm: tuple[float, ...] | None = None
    limit: int = 64 << 20


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set: what `floodtide fetch NAME` brings.

    Attributes:
        summary: One line for `--list`.
        about: Text of SOURCES-name.md: what it is, licences, attribution, publications, and how it was made.
        items: Its files.
    """

    summary: str
    about: str
    items: tuple[Item, ...]


def _originals(
    names: Sequence[str], numbers: Sequence[int], slices: str
) -> Iterator[Sequence[str]]:
    """Yield the names that each original may have.

    Args:
        names: The names of one original; or patterns, if there are many.
        numbers: First number and end of those that replace {} in a pattern.
        slices: Lines "patient: slice slice ...", whose numbers replace {patient} and {slice}. {kind} is images, then
            masks.
    """
    for line in slices.splitlines():
        patient, _, found = line.partition(":")
        for number in found.split():
            for kind in ("images", "masks"):
                yield [n.format(kind=kind, patient=patient, slice=number) for n in names]
    if numbers:
        yield from ([name.format(n) for name in names] for n in range(*numbers))
    if not numbers and not slices:
        yield names


def _item(
    path: str,
    repository: Repository,
    names: Sequence[str],
    numbers: Sequence[int] = (),
    slices: str = "",
    make: str = "",
    arrays: dict[str, dict[str, Any]] | None = None,
    sha256: str = "",
    voxel_size_nm: Sequence[float] | None = None,
) -> Item:
    """Return a file of a data set from the keys of its table."""
    return Item(
        path=path,
        repository=repository,
        originals=tuple(map(tuple, _originals(names, numbers, slices))),
        make=getattr(prepare, make) if make else None,
        arrays={
            name: Array(sha256=row["sha256"], shape=tuple(row["shape"]), dtype=row["dtype"])
            for name, row in (arrays or {}).items()
        },
        sha256=sha256,
        voxel_size_nm=None if voxel_size_nm is None else tuple(voxel_size_nm),
    )


def _data_sets() -> dict[str, DataSet]:
    tables = read_toml(_TABLE)
    repositories = {name: Repository(**row) for name, row in tables["repositories"].items()}
    return {
        name: DataSet(
            summary=row["summary"],
            about=row["about"],
            items=tuple(
                _item(**{**file, "repository": repositories[file["repository"]]})
                for file in row["files"]
            ),
        )
        for name, row in tables["data_sets"].items()
    }


DATA_SETS: dict[str, DataSet] = _data_sets()
