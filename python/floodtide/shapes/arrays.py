# SPDX-License-Identifier: Apache-2.0
"""Surface meshes and skeletons of segments in arrays, by zmesh and kimimaro."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.libraries import library
from floodtide.data.no_label import cleared
from floodtide.data.skeletons import Skeleton
from floodtide.errors import ShapeError

_SKELETON_BYTES = 40  # per voxel, of kimimaro: labels as 32 bits, distances, and copies of objects
_REDUCTION = 100  # times fewer triangles, as far as `max_error` allows


class Mesh(NamedTuple):
    """The surface of a segment."""

    id: int  # the segment
    # (n, 3) of z, y, x; voxel 0 reaches from 0 to the edge of a voxel
    vertices: NDArray[np.float32]
    triangles: NDArray[np.uint32]  # (m, 3): vertices of each triangle


def meshes_of(
    labels: NDArray[np.integer[Any]],
    *,
    voxel_size: Sequence[float] = (1.0, 1.0, 1.0),
    max_error: float | None = None,
    ids: Sequence[int] = (),
) -> Iterator[Mesh]:
    """Yield the surfaces of segments, open at the faces of the array.

    Args:
        labels: Segments (z, y, x); 0, negative values and the largest ones of 32 and 64 bits are no segment.
        voxel_size: Edges of a voxel (z, y, x), in nm or any other unit.
        max_error: Most distance by which simpler surfaces may differ; None: four times the longest edge.
        ids: Only these segments; none: all.

    Raises:
        ShapeError: If the labels are not integers (z, y, x).
        UnsupportedError: If zmesh is not installed.
    """
    _require_ids(labels, "meshes")
    zmesh = library("zmesh", "meshes", "view")
    names, own = _compact(labels)
    mesher = zmesh.Mesher(tuple(map(float, voxel_size)))
    mesher.mesh(own, close=False)
    error = 4.0 * max(voxel_size) if max_error is None else max_error
    for label in sorted(mesher.ids()):
        name = int(names[label])
        if not ids or name in ids:
            simpler = {"reduction_factor": _REDUCTION, "max_error": error}
            mesh = mesher.get(label, voxel_centered=True, **simpler)
            yield Mesh(name, np.asarray(mesh.vertices), np.asarray(mesh.faces))
        mesher.erase(label)


def skeletons_of(
    truth: NDArray[np.integer[Any]], *, voxel_size: Sequence[float] = (1.0, 1.0, 1.0)
) -> list[Skeleton]:
    """Return the skeletons of all objects with at least 1,000 voxels, by TEASAR (kimimaro).

    Branches that are shorter than 1.5 times the local radius plus 30 edges of a voxel are left out.

    Args:
        truth: Objects (z, y, x); values <= 0 are no object.
        voxel_size: Edges of a voxel (z, y, x), in nm or any other unit.

    Raises:
        InvalidArgumentError: If the memory does not suffice.
        UnsupportedError: If kimimaro is not installed.
    """
    limits.require_memory(
        f"skeletons: {' x '.join(map(str, truth.shape))} voxels need",
        _SKELETON_BYTES * truth.size,
        "a smaller box (--box)",
    )
    _require_ids(truth, "skeletons")
    kimimaro = library("kimimaro", "skeletons", "skeletons")
    ids, labels = _compact(truth)
    found = kimimaro.skeletonize(
        labels,
        teasar_params={"scale": 1.5, "const": 30.0 * max(voxel_size)},
        anisotropy=tuple(map(float, voxel_size)),
        dust_threshold=1000,
        progress=False,
        parallel=1,
    )
    return [
        Skeleton(
            id=int(ids[label]),
            nodes=np.asarray(skeleton.vertices, np.float64) / np.asarray(voxel_size, np.float64),
            edges=np.asarray(skeleton.edges, np.int64).reshape(-1, 2),
        )
        for label, skeleton in sorted(found.items())
    ]


def _require_ids(labels: NDArray[Any], what: str) -> None:
    """Raise a ShapeError, whose message begins with `what`, unless labels are integers (z, y, x)."""
    if labels.ndim != 3 or not np.issubdtype(labels.dtype, np.integer):
        raise ShapeError(
            f"{what}: {labels.ndim} axes of {labels.dtype}, expected integers (z, y, x)"
        )


def _compact(
    labels: NDArray[np.integer[Any]],
) -> tuple[NDArray[np.integer[Any]], NDArray[np.uint32]]:
    """Return the ids of all segments, behind a 0, and the place of each voxel's segment among them.

    The places are uint32 (z, y, x).
    """
    ids, place = np.unique(np.append(cleared(labels), labels.dtype.type(0)), return_inverse=True)
    return ids, place[:-1].reshape(labels.shape).astype(np.uint32)
