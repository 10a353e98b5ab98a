# SPDX-License-Identifier: Apache-2.0
"""What the attributes of an N5 dataset and of the groups above it state. Numbers are in the order x, y, z.

Paintera, BigDataViewer and n5-viewer write a group with the datasets s0, s1, ... The group states the voxel size of
s0, and the group or each level states how many voxels of s0 make one voxel of the level.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from floodtide.base import notes
from floodtide.base.reading import read_json
from floodtide.data.formats.conventions import (
    KEYS,
    NAMES,
    SIZES,
    UNITS,
    Stated,
    axis_names,
    geometry_of,
    geometry_of_transform,
    names_of,
)
from floodtide.data.formats.geometry import (
    Geometry,
    SizeNm,
    is_triple,
    same_size,
    size_of,
    size_text,
    voxels_of,
)
from floodtide.errors import InvalidFileError

_LEVEL = re.compile(r"s(\d+)")
_BIGDATAVIEWER = re.compile(r"/setup(\d+)/timepoint\d+/s(\d+)$")
_FACTORS = ("downsamplingFactors", "scales")
_SIZES = (*(one.key for one in SIZES), "pixelResolution", "transform")
_ABOVE = (
    *_SIZES,
    *UNITS,
    *_FACTORS,
    "axes",
    "offset",
    "translate",
    "affineTransform",
    "multiscales",
)
_REVERSED = ("axis_names", "_ARRAY_DIMENSIONS")  # of funlib and xarray, which name the axes z, y, x
_MOST = 8  # groups above a dataset that are looked at


def level_of_bigdataviewer(
    name: str, folder: Path, attributes: Mapping[str, Any]
) -> tuple[int, SizeNm] | None:
    """Return the setup of a dataset, and how many voxels (x, y, z) of s0 make one; None if it is not BigDataViewer's.

    Raises:
        InvalidFileError: If the factors are impossible.
    """
    found = _BIGDATAVIEWER.search(folder.absolute().as_posix())
    if found is None or any(key in attributes for key in UNITS):
        return None
    z, y, x = _factors(name, int(found[2]), _above(folder), attributes) or (1.0, 1.0, 1.0)
    return int(found[1]), (x, y, z)


def geometry_of_dataset(name: str, folder: Path, attributes: Mapping[str, Any]) -> Geometry:
    """Return the geometry of an N5 dataset.

    Args:
        name: The volume, for messages.
        folder: The folder of the dataset.
        attributes: Its attributes.

    Raises:
        InvalidFileError: If attributes contradict each other, or state something impossible.
    """
    above, level = _above(folder), _LEVEL.fullmatch(folder.name)
    if "affineTransform" in above or "affineTransform" in attributes:
        notes.show(f"{name}: attribute affineTransform is not used")
    own = any(key in attributes for key in _SIZES)
    inherited = {} if own or level is None else above
    if level is None and not own and any(key in above for key in _SIZES):
        notes.show(
            f"{name}: a group above states a voxel size for s0, s1, ...: not used; --voxel-nm states a voxel size"
        )
    stated = geometry_of_attributes(name, {**inherited, **attributes})
    size = stated.voxel_size_nm
    if size is None and "multiscales" in above:
        notes.show(
            f"{name}: the multiscales of a group above are not used; --voxel-nm states a voxel size"
        )
    if level is None or size is None:
        return stated
    factors = _factors(name, int(level[1]), above, attributes)
    if not own:  # the size is that of s0
        return stated if level[1] == "0" else _scaled(name, stated, factors)
    base = _size(above) or _size(_attributes(folder.with_name("s0")))
    expected = base if level[1] == "0" else _times(base, factors)
    if expected is None and (factors is None or set(factors) == {1.0}):
        return stated
    if expected is None:
        return _scaled(name, stated, None)
    if same_size(size, expected):
        return stated
    if base is not None and same_size(size, base):
        return _scaled(name, stated, factors)
    raise InvalidFileError(
        f"{name}: {stated.size_source} states voxels of {size_text(size)} nm, expected {size_text(expected)} nm by the"
        f" attributes of its group and of s0"
    )


def names_of_dataset(
    name: str, folder: Path, attributes: Mapping[str, Any], rank: int
) -> tuple[str, ...] | None:
    """Return the names of the axes, in the order of `dimensions`; None if neither the dataset nor its group has them.

    Raises:
        InvalidFileError: As `names_of`.
    """
    turned = {
        key: attributes[key][::-1] for key in _REVERSED if isinstance(attributes.get(key), list)
    }
    names = names_of(name, {**attributes, **turned}, rank)
    if names is None and _LEVEL.fullmatch(folder.name):
        return names_of(name, {"axes": _above(folder).get("axes")}, rank)
    return names


def geometry_of_attributes(name: str, attributes: Mapping[str, Any]) -> Geometry:
    """Return the geometry that some attributes state, without a look at levels.

    `pixelResolution` is that of n5-viewer. `transform` of Cellmap names its axes.

    Raises:
        InvalidFileError: As `geometry_of`.
    """
    if "axis_names" in attributes:  # funlib writes all numbers in the order z, y, x
        kept = {
            k: v
            for k, v in attributes.items()
            if "voxel_size" not in attributes or k != "resolution"
        }
        return geometry_of(name, kept, axis_names(attributes["axis_names"]))
    if "resolution" not in attributes and "voxel_size" not in attributes:
        found = geometry_of_transform(name, attributes)
        if found is not None:
            return found
    plain = {key: attributes[key] for key in KEYS if key in attributes and key not in NAMES}
    pixels = plain.pop("pixelResolution", None)
    stated = geometry_of(name, plain, reverse=True)
    if pixels is None:
        return stated
    unit = pixels.get("unit") if isinstance(pixels, Mapping) else plain.get("units")
    if unit is None:
        notes.show(
            f"{name}: attribute pixelResolution is {str(pixels)[:100]} without a unit: not used; --voxel-nm states a"
            " voxel size"
        )
        return stated
    numbers = pixels.get("dimensions") if isinstance(pixels, Mapping) else pixels
    stating = {"pixelResolution": numbers, "units": unit, "offset": plain.get("offset")}
    found = geometry_of(name, stating, reverse=True, sizes=[Stated("pixelResolution")])
    sizes = [one.voxel_size_nm for one in (found, stated) if one.voxel_size_nm is not None]
    if len(sizes) == 2 and not same_size(*sizes):
        raise InvalidFileError(
            f"{name}: pixelResolution states voxels of {size_text(sizes[0])} nm, {stated.size_source} of"
            f" {size_text(sizes[1])} nm; expected one voxel size"
        )
    return found if found.voxel_size_nm is not None else stated


def _scaled(name: str, stated: Geometry, factors: SizeNm | None) -> Geometry:
    """Return the geometry of a level, from that of s0. The offset is that of the first voxel of s0."""
    size = _times(stated.voxel_size_nm, factors)
    if size is None or factors is None:
        notes.show(
            f"{name}: {stated.size_source} states voxels of {size_text(stated.voxel_size_nm or ())} nm, and nothing"
            " says how many of them make one of this level: the voxel size is unknown"
        )
        return Geometry()
    source = f"{stated.size_source} with the factors {size_text(factors)} of the level"
    offset = stated.offset
    if offset is not None:
        place = [n / factor for n, factor in zip(offset, factors, strict=True)]
        offset = voxels_of(name, place, stated.offset_source)
    return Geometry(
        voxel_size_nm=size_of(name, source, size),
        offset=offset,
        size_source=source,
        offset_source=stated.offset_source,
    )


def _times(size: SizeNm | None, factors: SizeNm | None) -> SizeNm | None:
    if size is None or factors is None:
        return None
    return size[0] * factors[0], size[1] * factors[1], size[2] * factors[2]


def _factors(
    name: str, level: int, above: Mapping[str, Any], attributes: Mapping[str, Any]
) -> SizeNm | None:
    """Return how many voxels of s0 (z, y, x) make one voxel of a level; None if nothing states it."""
    lists = next((above[key] for key in _FACTORS if key in above), None)
    found = attributes.get("downsamplingFactors")
    if isinstance(lists, list) and level < len(lists):
        found = lists[level]
    if found is None:
        return None
    if not is_triple(found) or min(found) <= 0:
        raise InvalidFileError(
            f"{name}: the downsampling factors are {str(found)[:100]}, expected three numbers above 0"
        )
    x, y, z = map(float, found)
    return z, y, x


def _size(attributes: Mapping[str, Any]) -> SizeNm | None:
    """Return the voxel size that some attributes state."""
    kept = {key: value for key, value in attributes.items() if key != "offset"}
    return geometry_of_attributes("its group", kept).voxel_size_nm


def _above(folder: Path) -> dict[str, Any]:
    """Return the attributes of the groups above a dataset. Those of a nearer group count."""
    found: dict[str, Any] = {}
    for group in folder.absolute().parents[:_MOST]:
        stated = _attributes(group)
        found = {key: stated[key] for key in _ABOVE if stated.get(key) is not None} | found
        if group.suffix.lower() == ".n5" or "n5" in stated:  # the container
            break
    return found


def _attributes(folder: Path) -> dict[str, Any]:
    path = folder / "attributes.json"
    stated = read_json(path, "attributes of an N5 group") if path.is_file() else {}
    return stated if isinstance(stated, dict) else {}
