# SPDX-License-Identifier: Apache-2.0
"""Checks of HDF5 datasets whose voxels lie in other files: virtual datasets, and external storage.

The HDF5 library gives the fill value, without an error, for a source that is missing and for a file that is too short.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from typing import Any

from floodtide import _core
from floodtide.base import notes
from floodtide.base.reading import blaming
from floodtide.errors import InvalidFileError


def require_sources(path: str, dataset: str, name: str) -> None:
    """Raise InvalidFileError if voxels of a dataset lie in another file or dataset that lacks them.

    Args:
        path, dataset: A dataset that the core has opened. The core refuses other files unless the user trusts them.
        name: The volume, for messages.
    """
    open_ones = [(path, dataset)]
    seen = set(open_ones)
    with blaming(InvalidFileError, f"{name}: its sources cannot be read"):
        while open_ones:
            for source in _sources(*open_ones.pop(), name):
                if source not in seen:
                    seen.add(source)
                    open_ones.append(source)


def _sources(path: str, dataset: str, name: str) -> list[tuple[str, str]]:
    """Return the sources of a virtual dataset that exist. Raise InvalidFileError if one is missing or too short."""
    import h5py

    with h5py.File(path, "r") as file:
        array = file[dataset]
        home = array.file.filename
        _require_bytes(array, home, name)
        parts = array.virtual_sources() if array.is_virtual else ()
        sizes = [_end(one.vspace)[0] for one in parts]
        ends = [_end(one.src_space)[1] for one in parts]
        if parts and None not in sizes and sum(sizes) < array.size:
            notes.show(
                f"{name}: {array.size - sum(sizes)} of {array.size} voxels of the virtual dataset {home}:{array.name}"
                " have no source, and are read as the fill value"
            )
    found = []
    for part, end in zip(parts, ends, strict=True):
        if "%b" in part.file_name + part.dset_name:
            _require_series(part.file_name, home, name)
            continue
        source, inner = _found(part.file_name, home), part.dset_name
        text = f"{name}: its source {part.file_name}:{inner}"
        if source is None or not _core.data.exists(source, inner):
            raise InvalidFileError(f"{text} does not exist, expected all sources of {home}")
        with h5py.File(source, "r") as file:
            shape = file[inner].shape
        if end and (len(shape) != len(end) or any(n <= m for n, m in zip(shape, end, strict=True))):
            least = tuple(int(m) + 1 for m in end)
            raise InvalidFileError(f"{text} has shape {shape}, expected at least {least}")
        found.append((source, inner))
    return found


def _require_series(file_name: str, home: str, name: str) -> None:
    """Raise InvalidFileError if a file is missing in a series of files, numbered from 0 in place of "%b".

    The library ends at the first that does not exist.
    """
    folder, pattern = os.path.split(file_name)
    number = re.compile(re.escape(pattern).replace("%b", r"(\d+)"))
    place = os.path.join(os.path.dirname(home), folder)
    names = os.listdir(place or ".") if os.path.isdir(place or ".") else []
    found = {int(match[1]) for one in names if (match := number.fullmatch(one))}
    lost = next(n for n in itertools.count() if n not in found)
    if found and lost < max(found):
        first, last = (
            os.path.join(place, pattern.replace("%b", str(n))) for n in (lost, max(found))
        )
        raise InvalidFileError(
            f"{name}: its source {first} does not exist, expected all files up to {last}"
        )


def _end(space: Any) -> tuple[Any, Any]:
    """Return the number of elements of a selection, and the last one; None if it has no end, or is all there is."""
    with contextlib.suppress(RuntimeError, ValueError):
        count = space.get_select_npoints()
        with contextlib.suppress(RuntimeError, ValueError):
            return count, space.get_select_bounds()[1]
        return count, None
    return None, None


def _require_bytes(array: Any, home: str, name: str) -> None:
    """Raise InvalidFileError if a file of external storage is missing or too short."""
    left = array.size * array.dtype.itemsize if array.size else 0
    for file_name, offset, size in array.external or ():
        size = min(left, size)
        left -= size
        place = os.path.join(_prefix("HDF5_EXTFILE_PREFIX", home), os.fsdecode(file_name))
        has = os.path.getsize(place) if os.path.isfile(place) else 0
        if has < offset + size:
            raise InvalidFileError(
                f"{name}: its external file {place} has {has} bytes, expected {offset + size}"
            )


def _found(file_name: str, home: str) -> str | None:
    """Return the path of the file of a source, which the library looks for in several folders; None: in none."""
    if file_name == ".":
        return home
    folders = [*_prefix("HDF5_VDS_PREFIX", home).split(":"), os.path.dirname(home), ""]
    folders.append(os.path.dirname(os.path.realpath(home)))
    names = [file_name, os.path.basename(file_name)] if os.path.isabs(file_name) else [file_name]
    places = (os.path.join(folder, one) for one in names for folder in folders)
    return next((place for place in places if os.path.isfile(place)), None)


def _prefix(variable: str, home: str) -> str:
    return os.environ.get(variable, "").replace("${ORIGIN}", os.path.dirname(home) or ".")
