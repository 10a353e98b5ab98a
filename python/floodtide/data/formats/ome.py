# SPDX-License-Identifier: Apache-2.0
"""Metadata of OME-Zarr images: axes, and the transformations of a level and of the image."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from floodtide.data.formats.geometry import Geometry, axis_names, stated_size, voxels_of
from floodtide.errors import InvalidFileError

_BEFORE_AXES = ("t", "c", "z", "y", "x")  # of OME-Zarr 0.1 and 0.2, which name no axes


def images_of(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the OME-Zarr images that the attributes of a group describe."""
    ome = attributes.get("ome", attributes)
    return _objects(ome.get("multiscales")) if isinstance(ome, Mapping) else []


def levels_of(image: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the levels of an image, the finest first."""
    return sorted(_objects(image.get("datasets")), key=_coarseness)


def _objects(values: Any) -> list[dict[str, Any]]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def path_of(level: Mapping[str, Any]) -> str:
    """Return the path of the array of a level, relative to its image; "" if there is none below the image."""
    path = posixpath.normpath(str(level.get("path", "")))
    return "" if path.startswith(("/", "..")) or path == "." else path


def _coarseness(level: Mapping[str, Any]) -> float:
    changes = level.get("coordinateTransformations") or []
    scale = next((c.get("scale") for c in changes if isinstance(c, dict) and "scale" in c), None)
    known = isinstance(scale, list) and all(isinstance(n, int | float) for n in scale)
    return math.prod(scale) if known and scale is not None else 1.0


def geometry_of_level(
    name: str, image: Mapping[str, Any], level: Mapping[str, Any], rank: int
) -> tuple[tuple[str, ...], Geometry]:
    """Return the names of the axes of a level, and the geometry that level and image state.

    Args:
        image: An item of `multiscales`.
        level: An item of its `datasets`.
    """
    given, owners = image.get("axes"), [level, image]
    if given is None and isinstance(image.get("coordinateSystems"), list):
        given, owners = _axes_of_system(level, image["coordinateSystems"]), [level]
    names = _BEFORE_AXES if given is None and rank == len(_BEFORE_AXES) else axis_names(given)
    if names is None or len(names) != rank:
        raise InvalidFileError(
            f"{name}: its OME-Zarr metadata names the axes {given}, expected {rank} names such as z, y, x"
        )
    scale, moved, known = [1.0] * rank, [0.0] * rank, False
    for owner in owners:
        for change in _flat(owner.get("coordinateTransformations") or []):
            kind, factors = _change(name, change, rank)
            if kind == "scale":
                scale = [a * b for a, b in zip(scale, factors, strict=True)]
                moved = [a * b for a, b in zip(moved, factors, strict=True)]
                known = True
            else:
                moved = [a + b for a, b in zip(moved, factors, strict=True)]
    if not set("zyx") <= set(names):
        return names, Geometry()
    at = [names.index(axis) for axis in "zyx"]
    step = [scale[i] for i in at]
    if not min(step) > 0:
        raise InvalidFileError(
            f"{name}: states a scale of {step} (z, y, x), expected numbers above 0"
        )
    source = "its OME-Zarr metadata"
    offset = None
    if any(moved[i] for i in at):
        offset = voxels_of(name, [moved[i] / n for i, n in zip(at, step, strict=True)], source)
    size = stated_size(name, source, step, [_unit(given, i) for i in at]) if known else None
    return names, Geometry(
        voxel_size_nm=size,
        offset=offset,
        size_source=source,
        offset_source=source,
        axes_source=source,
    )


def _axes_of_system(level: Mapping[str, Any], systems: Sequence[Any]) -> Any:
    """Return the axes of the coordinate system of a level (OME-Zarr 0.6). Others of the image are not used."""
    known = [one for one in systems if isinstance(one, Mapping)]
    ends = [one.get("output") for one in level.get("coordinateTransformations") or [{}]]
    found = [one for one in known if one.get("name") in ends or {"name": one.get("name")} in ends]
    return next((one.get("axes") for one in (*found, *known)), None)


def _flat(changes: Sequence[Any]) -> list[Any]:
    """Return transformations in which a sequence is replaced by its parts."""
    found: list[Any] = []
    for change in changes:
        parts = change.get("transformations") if isinstance(change, dict) else None
        found += parts if isinstance(parts, list) else [change]
    return found


def _change(name: str, change: Any, rank: int) -> tuple[str, list[float]]:
    """Return the kind and the numbers of a transformation."""
    kind = change.get("type") if isinstance(change, dict) else None
    if kind == "identity":
        return "translation", [0.0] * rank
    numbers = change.get(kind) if kind in ("scale", "translation") else None
    if (
        not isinstance(numbers, list)
        or len(numbers) != rank
        or not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers)
    ):
        raise InvalidFileError(
            f"{name}: has the transformation {str(change)[:80]}, expected scale or translation with {rank} numbers"
        )
    return str(kind), [float(n) for n in numbers]


def _unit(axes: Sequence[Any] | None, index: int) -> str:
    axis = axes[index] if axes is not None else None
    return str(axis.get("unit") or "") if isinstance(axis, Mapping) else ""
