# SPDX-License-Identifier: Apache-2.0
"""The public data sets, as `data_sets.toml` describes them. A new one is a table there and a function in `prepare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    shape: Sequence[int]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file of a data set, as the table describes it.

    Attributes:
        path: Its place below the data folder.
        repository: Where the original files are.
        names: The names that an original may have, in the order in which they are tried; patterns, if there are many
            originals.
        numbers: First number and end of those that replace {} in a pattern.
        slices: Lines "patient: slice slice ...", whose numbers replace {patient} and {slice}. {kind} is images, then
            masks.
        make: Name of the function of `prepare` that turns the originals into arrays, for an HDF5 file; "": the file is
            copied.
        arrays: The arrays by the name of the dataset, if there are any.
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
    arrays: Mapping[str, Array] = field(default_factory=dict)
    sha256: str = ""
    voxel_size_nm: Sequence[float] | None = None
    limit: int = 64 << 20

    @property
    def maker(self) -> Make | None:
        """Return the function that `make` names; None if the file is copied."""
        return getattr(prepare, self.make) if self.make else None

    @property
    def originals(self) -> list[list[str]]:
        """Return the paths of the originals in the repository; each with the names that it may have."""
        rows: list[dict[str, str]] = []
        for line in self.slices.splitlines():
            patient, _, found = line.partition(":")
            for number in found.split():
                of_slice = {"patient": patient, "slice": number}
                rows += ({"kind": kind, **of_slice} for kind in ("images", "masks"))
        if rows:
            return [[name.format(**row) for name in self.names] for row in rows]
        if self.numbers:
            return [[name.format(n) for name in self.names] for n in range(*self.numbers)]
        return [list(self.names)]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set: what `floodtide fetch NAME` brings.

    Attributes:
        summary: One line for the list of data sets.
        about: Text of SOURCES-name.md: what it is, licences, attribution, publications, and how it was made.
        items: Its files.
    """

    summary: str
    about: str
    items: Sequence[Item]


def _data_sets() -> dict[str, DataSet]:
    tables = read_toml(_TABLE)
    repositories = {name: Repository(**row) for name, row in tables["repositories"].items()}
    found = {}
    for name, row in tables["data_sets"].items():
        for file in row["files"]:
            file["repository"] = repositories[file["repository"]]
            file["arrays"] = {key: Array(**of) for key, of in file.get("arrays", {}).items()}
        items = [Item(**file) for file in row["files"]]
        found[name] = DataSet(summary=row["summary"], about=row["about"], items=items)
    return found


DATA_SETS: dict[str, DataSet] = _data_sets()
