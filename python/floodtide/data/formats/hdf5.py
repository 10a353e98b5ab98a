# SPDX-License-Identifier: Apache-2.0
"""HDF5 datasets. The core reads them; this file reads what their attributes state."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import notes
from floodtide.base.files import path_and_dataset
from floodtide.base.reading import reason
from floodtide.data.formats.conventions import (
    KEYS,
    NAMES,
    SIZES,
    UNITS,
    axis_names,
    geometry_of,
    names_of,
)
from floodtide.data.formats.readers import Opened, object_volume
from floodtide.errors import InvalidFileError

_TEXTS = (*NAMES, *UNITS)
_ELSEWHERE = {
    r"t\d+/s\d+/\d+/cells": "the .xml file of BigDataViewer has the voxel size",
    r"DataSet/ResolutionLevel \d+/TimePoint \d+/Channel \d+/Data": "Imaris states the sizes of image and voxels in"
    " DataSetInfo and in the channel (a margin of zeros may follow the image)",
}
"""Where other programs state the voxel size, by the names of their datasets."""


def open_hdf5(reference: str, channel: int | None) -> Opened:
    """Open a dataset of three axes, or a channel of one of four, with the axes in the order that it states."""
    return open_dataset(*path_and_dataset(reference), channel)


def open_dataset(path: str, dataset: str, channel: int | None) -> Opened:
    """Open a dataset of a file. See `open_hdf5`."""
    volume = _core.data.Volume(path, dataset, channel)
    stated = {key: value for key in KEYS if (value := _attribute(volume, key))}
    names = names_of(volume.name, stated, len(_stated_names(stated)) or 3)
    geometry = geometry_of(volume.name, stated, names)
    if geometry.voxel_size_nm is None:
        _note_elsewhere(volume.name, path, dataset)
    if names is None or names[-3:] == ("z", "y", "x"):
        return Opened(volume, geometry, plain=True)
    if len(names) != 3 or set(names) != set("zyx"):
        raise InvalidFileError(
            f"{volume.name}: names the axes {', '.join(names)}, expected z, y, x, after a channel if there is one"
        )
    turned = _Turned(volume, tuple(names.index(axis) for axis in "zyx"))
    return Opened(
        object_volume(turned, volume.name, chunks=turned.chunks, geometry=geometry), geometry
    )


def _note_elsewhere(name: str, path: str, dataset: str) -> None:
    """Note a voxel size that another place than the dataset states."""
    if _core.data.has_attributes(path, dataset, ["DIMENSION_LIST"]):
        notes.show(f"{name}: its dimension scales are not used; --voxel-nm states a voxel size")
        return
    said = [text for form, text in _ELSEWHERE.items() if re.fullmatch(form, dataset.strip("/"))]
    for group in PurePosixPath("/", dataset.strip("/")).parents:
        found = _core.data.has_attributes(path, str(group), [one.key for one in SIZES])
        if found:
            said.append(f"the group {group} has an attribute {found[0]}")
    if said:
        notes.show(f"{name}: {said[0]}: not used; --voxel-nm states a voxel size")


class _Turned:
    """A dataset whose axes x, y, z are stored in another order."""

    def __init__(self, volume: _core.data.Volume, order: tuple[int, ...]) -> None:
        self._volume, self._order = volume, order
        self.shape = tuple(volume.shape[i] for i in order)
        self.chunks = tuple(volume.chunks[i] for i in order)
        self.dtype = np.dtype(volume.dtype)

    def __getitem__(self, box: tuple[slice, slice, slice]) -> NDArray[Any]:
        start, size = [0] * 3, [0] * 3
        for part, axis in zip(box, self._order, strict=True):
            start[axis], size[axis] = part.start, part.stop - part.start
        return np.ascontiguousarray(self._volume.read(start, size).transpose(self._order))


def _stated_names(stated: dict[str, Any]) -> tuple[str, ...]:
    return next((found for key in NAMES if (found := axis_names(stated.get(key)))), ())


def _attribute(volume: _core.data.Volume, key: str) -> Any:
    """Return an attribute as JSON would hold it: a text, a list of texts or numbers, or what a text of JSON holds."""
    if key not in _TEXTS:
        try:
            return volume.numbers(key)
        except InvalidFileError:  # of another type, or damaged
            return _integers_or_text(volume, key)
    try:
        texts = volume.texts(key)
    except InvalidFileError as error:
        if not str(error).endswith("is not a text"):
            raise
        return f"unreadable ({reason(error)})"
    return texts[0] if len(texts) == 1 else texts


def _integers_or_text(volume: _core.data.Volume, key: str) -> Any:
    """Return the integers of an attribute; else what a note says about it."""
    try:
        return volume.integers(key)
    except InvalidFileError as error:
        if key == "box_start":
            raise
        problem = reason(error)
    try:
        return volume.text(key)
    except InvalidFileError:
        return f"unreadable ({problem})"
