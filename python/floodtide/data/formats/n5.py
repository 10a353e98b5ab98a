# SPDX-License-Identifier: Apache-2.0
"""What the attributes of an N5 dataset and of the groups above it state. Numbers are in the order of its dimensions.

`axes` names the dimensions. Without it they are x, y, z.

Paintera and n5-viewer write a group with the datasets s0, s1, ... The group states the voxel size of
s0, and the group or each level states how many voxels of s0 make one voxel of the level.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide.base import notes
from floodtide.base.reading import read_json
from floodtide.data.formats import geometry
from floodtide.errors import InvalidFileError

_LEVEL = re.compile(r"s(\d+)")
_BIGDATAVIEWER = re.compile(r"/setup\d+/timepoint\d+/s\d+$")
_FACTORS = ("downsamplingFactors", "scales")
_SIZES = (*(one.key for one in geometry.SIZES), "pixelResolution")
_ABOVE = (
    *(*_SIZES, *geometry.UNITS, *_FACTORS),
    *("axes", "offset", "translate", "affineTransform", "multiscales"),
)
_REVERSED = ("axis_names", "_ARRAY_DIMENSIONS")  # of funlib and xarray, which name the axes z, y, x
# Cellmap names the axes z, y, x of its arrays in memory. floodtide reads axisOrder for Zarr only.
_NAMES = tuple(key for key in geometry.NAMES if key not in ("transform", "axisOrder"))
_ONE = (1.0, 1.0, 1.0)
_MOST = 8  # groups above a dataset that are looked at


def geometry_of_dataset(
    name: str, folder: Path, attributes: Mapping[str, Any], axes: Sequence[str]
) -> geometry.Geometry:
    """Return the geometry of an N5 dataset with axes of these names, in the order of `dimensions`."""
    above, level = _above(folder), _LEVEL.fullmatch(folder.name)
    if _BIGDATAVIEWER.search(folder.absolute().as_posix()) and not set(geometry.UNITS) & set(
        attributes
    ):
        geometry.not_used(name, "the .xml file of BigDataViewer has the voxel size")
        return geometry.Geometry()
    if "affineTransform" in above or "affineTransform" in attributes:
        notes.show(f"{name}: attribute affineTransform is not used")
    own = any(key in attributes for key in _SIZES)
    inherited = {} if own or level is None else above
    if level is None and not own and any(key in above for key in _SIZES):
        geometry.not_used(name, "a group above states a voxel size for s0, s1, ...")
    others = [
        axis
        for axis in geometry.axis_names(inherited.get("axes")) or axes
        if axis in ("z", "y", "x")
    ]
    if others != [axis for axis in axes if axis in ("z", "y", "x")]:
        raise InvalidFileError(
            f"{name}: its group names the axes {', '.join(others)}, expected {', '.join(axes)} as the dataset does"
        )
    stated = _of_attributes(name, {**inherited, **attributes}, axes)
    size = stated.voxel_size_nm
    if size is None and "multiscales" in above:
        geometry.not_used(name, "the multiscales of a group above")
    if level is None or size is None:
        return stated
    factors = _ONE if level[1] == "0" else _factors(name, int(level[1]), above, attributes, axes)
    if own:
        base = _size(above, axes) or _size(_attributes(folder.with_name("s0")), axes)
        if factors is None or (base is None and factors == _ONE):
            return stated
        if base is None:
            return _scaled(name, stated, size, None)
        expected = _times(base, factors)
        if geometry.same_size(size, expected):
            return stated
        if not geometry.same_size(size, base):
            raise InvalidFileError(
                f"{name}: {stated.size_source} states voxels of {geometry.size_text(size)} nm,"
                f" expected {geometry.size_text(expected)} nm"
                " by the attributes of its group and of s0"
            )
    return stated if factors == _ONE else _scaled(name, stated, size, factors)


def names_of_dataset(
    name: str, folder: Path, attributes: Mapping[str, Any], rank: int
) -> tuple[str, ...] | None:
    """Return the names of the axes, in the order of `dimensions`; None if neither the dataset nor its group has them.

    Raises:
        InvalidFileError: As `names_of`.
    """
    stated = {key: attributes[key] for key in _NAMES if key in attributes}
    turned = {key: stated[key][::-1] for key in _REVERSED if isinstance(stated.get(key), list)}
    names = geometry.names_of(name, {**stated, **turned}, rank)
    if names is None and _LEVEL.fullmatch(folder.name):
        return geometry.names_of(name, {"axes": _above(folder).get("axes")}, rank)
    return names


def _of_attributes(
    name: str, attributes: Mapping[str, Any], axes: Sequence[str]
) -> geometry.Geometry:
    """Return the geometry that some attributes state in the order of these axes, without a look at levels."""
    if "axis_names" in attributes:  # funlib writes all numbers in the order z, y, x
        twice = {"resolution"} if "voxel_size" in attributes else set()
        kept = {key: attributes[key] for key in attributes if key not in twice}
        return geometry.geometry_of(name, kept, geometry.axis_names(attributes["axis_names"]))
    plain = {key: value for key, value in attributes.items() if key not in _NAMES}
    for one in (*geometry.SIZES, *geometry.OFFSETS):
        # PlantSeg and floodtide write these in the order z, y, x to all formats
        values = plain.get(one.key)
        if one.unit is not None and isinstance(values, list) and len(values) == 3:
            of_axis = dict(zip("zyx", values, strict=True))
            plain[one.key] = [of_axis[axis] for axis in axes if axis in of_axis]
    pixels = plain.get("pixelResolution")  # of n5-viewer
    unit = pixels.get("unit") if isinstance(pixels, Mapping) else plain.get("units")
    if pixels is None or unit is None:
        return geometry.geometry_of(name, plain, axes)
    plain["pixelResolution"] = pixels.get("dimensions") if isinstance(pixels, Mapping) else pixels
    if not any(one.key in plain for one in geometry.SIZES if not one.part):
        plain["units"] = unit  # of the offset, too
    return geometry.geometry_of(
        name, plain, axes, sizes=(geometry.Stated("pixelResolution", unit), *geometry.SIZES)
    )


def _scaled(
    name: str, stated: geometry.Geometry, size: geometry.SizeNm, factors: geometry.SizeNm | None
) -> geometry.Geometry:
    """Return the geometry of a level, from that of s0. The offset is that of the first voxel of s0."""
    if factors is None:
        notes.show(
            f"{name}: {stated.size_source} states voxels of {geometry.size_text(size)} nm, and nothing says how many"
            " of them make one of this level: the voxel size is unknown"
        )
        return geometry.Geometry()
    source = f"{stated.size_source} with the factors {geometry.size_text(factors)} of the level"
    offset = stated.offset
    if offset is not None:
        place = [n / factor for n, factor in zip(offset, factors, strict=True)]
        offset = geometry.voxels_of(name, place, stated.offset_source)
    size_nm = geometry.size_of(name, source, _times(size, factors))
    return dataclasses.replace(stated, voxel_size_nm=size_nm, offset=offset, size_source=source)


def _times(size: geometry.SizeNm, factors: geometry.SizeNm) -> geometry.SizeNm:
    return size[0] * factors[0], size[1] * factors[1], size[2] * factors[2]


def _factors(
    name: str,
    level: int,
    above: Mapping[str, Any],
    attributes: Mapping[str, Any],
    axes: Sequence[str],
) -> geometry.SizeNm | None:
    """Return how many voxels of s0 (z, y, x) make one voxel of a level; None if nothing states it."""
    lists = next((above[key] for key in _FACTORS if key in above), None)
    found = attributes.get("downsamplingFactors")
    if isinstance(lists, list) and level < len(lists):
        found = lists[level]
    if found is None:
        return None
    factors = geometry.in_order(found, axes)
    if not geometry.are_numbers(factors) or min(factors or ()) <= 0:
        raise InvalidFileError(
            f"{name}: the downsampling factors are {str(found)[:100]}, expected three numbers above 0"
        )
    z, y, x = map(float, factors or ())
    return z, y, x


def _size(attributes: Mapping[str, Any], axes: Sequence[str]) -> geometry.SizeNm | None:
    kept = {key: value for key, value in attributes.items() if key != "offset"}
    axes = geometry.axis_names(attributes.get("axes")) or axes
    return _of_attributes("its group", kept, axes).voxel_size_nm


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
