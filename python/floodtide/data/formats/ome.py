# SPDX-License-Identifier: Apache-2.0
"""Metadata of OME-Zarr images: axes, and the transformations of a level and of the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floodtide.data.formats import geometry
from floodtide.errors import InvalidFileError

_BEFORE_AXES = ("t", "c", "z", "y", "x")  # of OME-Zarr 0.1 and 0.2, which name no axes


def geometry_of_level(
    name: str, image: Mapping[str, Any], level: Mapping[str, Any], rank: int
) -> tuple[tuple[str, ...], geometry.Geometry]:
    """Return the names of the axes of a level, and the geometry that level and image state.

    Args:
        image: An item of `multiscales`.
        level: An item of its `datasets`.
    """
    given, owners = image.get("axes"), [level, image]
    if given is None and isinstance(image.get("coordinateSystems"), list):
        given, owners = _axes_of_system(level, image["coordinateSystems"]), [level]
    names = (
        _BEFORE_AXES if given is None and rank == len(_BEFORE_AXES) else geometry.axis_names(given)
    )
    if names is None or len(names) != rank:
        raise InvalidFileError(
            f"{name}: its OME-Zarr metadata names the axes {given}, expected {rank} names such as z, y, x"
        )
    scale, moved, known, placed = [1.0] * rank, [0.0] * rank, False, False
    for change in _changes(owners):
        kind = change.get("type") if isinstance(change, Mapping) else None
        if kind == "identity":
            continue
        numbers: Any = change.get(kind) if kind in ("scale", "translation") else None
        if not geometry.are_numbers(numbers, rank):
            raise InvalidFileError(
                f"{name}: has the transformation {geometry.shown(change)}, expected scale or translation with"
                f" {rank} numbers"
            )
        if kind == "scale":
            scale = [a * b for a, b in zip(scale, numbers, strict=True)]
            moved = [a * b for a, b in zip(moved, numbers, strict=True)]
            known = True
        else:
            placed = True
            moved = [a + b for a, b in zip(moved, numbers, strict=True)]
    if not set("zyx") <= set(names):
        return names, geometry.Geometry()
    at = [names.index(axis) for axis in "zyx"]
    step, start = [scale[i] for i in at], [moved[i] for i in at]
    if not min(step) > 0:
        raise InvalidFileError(f"{name}: states scale {step}, expected numbers above 0 (z, y, x)")
    source = "its OME-Zarr metadata"
    offset = None
    if placed:
        offset = geometry.voxels_of(name, [a / b for a, b in zip(start, step, strict=True)], source)
    size = None
    if known:
        axes = [given[i] if given is not None else {} for i in at]
        units = [str(a.get("unit") or "") if isinstance(a, Mapping) else "" for a in axes]
        size = geometry.stated_size(name, source, step, units)
    return names, geometry.Geometry.by(source, size, offset, source)


def _axes_of_system(level: Mapping[str, Any], systems: Sequence[Any]) -> Any:
    """Return the axes of the coordinate system of a level (OME-Zarr 0.6). Others of the image are not used."""
    known = [one for one in systems if isinstance(one, Mapping)]
    ends = [one.get("output") for one in level.get("coordinateTransformations") or [{}]]
    found = [one for one in known if one.get("name") in ends or {"name": one.get("name")} in ends]
    return next((one.get("axes") for one in (*found, *known)), None)


def _changes(owners: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the transformations of a level and its image. The parts of a sequence replace it."""
    found: list[Any] = []
    for owner in owners:
        for change in owner.get("coordinateTransformations") or []:
            parts = change.get("transformations") if isinstance(change, Mapping) else None
            found += parts if isinstance(parts, list) else [change]
    return found
