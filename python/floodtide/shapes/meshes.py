# SPDX-License-Identifier: Apache-2.0
"""Surface meshes of segments, by zmesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.libraries import library
from floodtide.base.options import Arguments
from floodtide.data.no_label import cleared
from floodtide.errors import ShapeError

_CHECKED = Arguments(voxel_size=limits.VOXEL_SIZE, max_error=limits.NANOMETRES)
_REDUCTION = 100  # times fewer triangles, as far as `max_error` allows


@dataclass(frozen=True)
class Mesh:
    """The surface of a segment.

    Attributes:
        id: The segment.
        vertices: Positions (n, 3) of z, y, x; voxel 0 reaches from 0 to the edge of a voxel.
        triangles: Vertices (m, 3) of each triangle.
    """

    id: int
    vertices: NDArray[np.float32]
    triangles: NDArray[np.uint32]


def meshes_of(
    labels: NDArray[np.integer[Any]],
    *,
    voxel_size: Sequence[float] = (1.0, 1.0, 1.0),
    max_error: float | None = None,
    ids: Sequence[int] | None = None,
) -> Iterator[Mesh]:
    """Yield the surfaces of segments, open at the faces of the array.

    Args:
        labels: Segments (z, y, x); 0, negative values and the largest ones of 32 and 64 bits are no segment.
        voxel_size: Edges of a voxel (z, y, x), in nm or any other unit.
        max_error: Most distance by which simpler surfaces may differ; None: four times the longest edge.
        ids: Only these segments; None: all.

    Raises:
        ShapeError: If the labels are not integers (z, y, x).
        UnsupportedError: If zmesh is not installed.
    """
    _CHECKED.check("meshes", voxel_size=list(voxel_size), max_error=max_error)
    require_ids(labels, "meshes")
    zmesh = library("zmesh", "meshes", "view")
    names, own = compact(labels)
    mesher = zmesh.Mesher(tuple(map(float, voxel_size)))
    mesher.mesh(own, close=False)
    wanted = None if ids is None else set(ids)
    error = 4.0 * max(voxel_size) if max_error is None else max_error
    for label in sorted(mesher.ids()):
        name = int(names[label])
        if wanted is None or name in wanted:
            simpler = {"reduction_factor": _REDUCTION, "max_error": error}
            mesh = mesher.get(label, voxel_centered=True, **simpler)
            yield Mesh(name, np.asarray(mesh.vertices), np.asarray(mesh.faces))
        mesher.erase(label)


def require_ids(labels: NDArray[Any], what: str) -> None:
    """Raise a ShapeError, whose message begins with `what`, unless labels are integers (z, y, x)."""
    if labels.ndim != 3 or not np.issubdtype(labels.dtype, np.integer):
        raise ShapeError(
            f"{what}: {labels.ndim} axes of {labels.dtype}, expected integers (z, y, x)"
        )


def compact(
    labels: NDArray[np.integer[Any]],
) -> tuple[NDArray[np.integer[Any]], NDArray[np.uint32]]:
    """Return the ids of all segments, behind a 0, and the place of each voxel's segment among them.

    The places are uint32 (z, y, x).
    """
    ids, place = np.unique(cleared(labels), return_inverse=True)
    missing = int(ids[0] > 0)  # every voxel is in a segment
    names = np.concatenate([np.zeros(missing, ids.dtype), ids])
    return names, place.reshape(labels.shape).astype(np.uint32) + np.uint32(missing)
