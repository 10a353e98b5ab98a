# SPDX-License-Identifier: Apache-2.0
"""A picture of the largest objects of a segmentation in three dimensions (as figure 7 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from floodtide.base import style
from floodtide.data import Volume
from floodtide.errors import UnsupportedError

if TYPE_CHECKING:
    from floodtide.shapes.meshes import Mesh

_SIDE = 160  # drawn voxels along the longest side; of larger volumes, every n-th voxel is drawn
_MOST = len(style.SERIES) - 1  # objects; the last colour is black, which shows no shape


def objects_figure(
    labels: npt.NDArray[Any], voxel_size: tuple[float, float, float]
) -> tuple[str, int]:
    """Return a figure of the largest objects, PNG as data URI, and how many it shows.

    Args:
        labels: Segments (z, y, x); 0 is no segment.
        voxel_size: Edges of a voxel (z, y, x), in nm or any other unit.

    Raises:
        UnsupportedError: If zmesh is not installed.
    """
    from matplotlib.colors import LightSource
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    from floodtide.shapes.meshes import meshes_of

    ids, counts = np.unique(labels[labels > 0], return_counts=True)
    largest = ids[np.argsort(-counts, kind="stable")][:_MOST].tolist()
    found = meshes_of(
        np.pad(labels, 1), voxel_size=voxel_size, max_error=max(voxel_size), ids=largest
    )
    meshes = {mesh.id: mesh for mesh in found}
    size = np.array(labels.shape) * voxel_size
    flat = size[0] < 0.5 * max(size)
    light = LightSource(azdeg=146, altdeg=44)
    with style.figure(7.0, 4.4 if flat else 6.2) as drawn:
        axes: Any = drawn.add_subplot(projection="3d")
        for index, name in enumerate(name for name in largest if name in meshes):
            corners = _corners(meshes[name], voxel_size, size[0])
            colour = style.series_colour(index)
            solid = Poly3DCollection(
                corners, facecolors=colour, edgecolors=colour, lw=0.3, shade=True, lightsource=light
            )
            axes.add_collection3d(solid)
        z, y, x = size
        axes.set(xlim=(0, x), ylim=(0, y), zlim=(0, z))
        axes.set_box_aspect((x, y, z), zoom=1.25 if flat else 1.0)
        axes.view_init(elev=24, azim=-58)
        axes.set(xticks=[], yticks=[], zticks=[], xlabel="x", ylabel="y", zlabel="z")
        return style.data_uri(drawn, "png", dpi=130), len(meshes)


def _corners(mesh: Mesh, voxel_size: Sequence[float], height: float) -> npt.NDArray[np.float64]:
    """Return the corners (triangles, 3, 3) of x, y, z in the picture; z points downwards in the volume."""
    z, y, x = (mesh.vertices.astype(np.float64) - voxel_size).T
    corners: npt.NDArray[np.float64] = np.stack([x, y, height - z], axis=1)[mesh.triangles]
    return corners


def picture(volume: Volume, voxel_size_nm: Sequence[float] | None) -> tuple[str | None, str]:
    """Return the figure of the objects of a segmentation, or None, and a note: what it shows, or why there is none.

    Raises:
        InvalidFileError: If the segmentation is damaged.
    """
    step = -(-max(volume.shape) // _SIDE)
    nz, ny, nx = volume.shape
    planes = [volume.read(((z, 0, 0), (1, ny, nx)))[0, ::step, ::step] for z in range(0, nz, step)]
    labels = np.stack(planes)
    z, y, x = voxel_size_nm or (1.0, 1.0, 1.0)
    if not (labels > 0).any():
        return None, ""
    try:
        figure, count = objects_figure(labels, (step * z, step * y, step * x))
    except UnsupportedError as error:
        return None, f"no picture of the objects in 3-D: {error}"
    return figure, f"The {count} largest segments."
