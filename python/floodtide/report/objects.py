# SPDX-License-Identifier: Apache-2.0
"""A picture of the largest objects of a segmentation in three dimensions (as figure 7 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LightSource
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from floodtide.base import style
from floodtide.data import Volume
from floodtide.shapes.arrays import meshes_of

_SIDE = 160  # drawn voxels along the longest side; of larger volumes, every n-th voxel is drawn
_MOST = len(style.SERIES) - 1  # objects; the last colour is black, which shows no shape


def picture(volume: Volume, voxel_size_nm: Sequence[float] | None) -> str | None:
    """Draw the largest objects of a segmentation. Return a PNG as data URI; None: there is no object.

    Raises:
        UnsupportedError: If the package that makes surfaces is missing.
    """
    step = -(-max(volume.shape) // _SIDE)
    nz, ny, nx = volume.shape
    planes = [volume.read(((z, 0, 0), (1, ny, nx)))[0, ::step, ::step] for z in range(0, nz, step)]
    labels = np.stack(planes)
    z, y, x = (step * edge for edge in voxel_size_nm or (1.0, 1.0, 1.0))
    ids, counts = np.unique(labels[labels > 0], return_counts=True)
    largest = ids[np.argsort(-counts, kind="stable")][:_MOST].tolist()
    if not largest:
        return None
    found = meshes_of(np.pad(labels, 1), voxel_size=(z, y, x), max_error=max(z, y, x), ids=largest)
    meshes = {mesh.id: mesh for mesh in found}
    size = np.array(labels.shape) * (z, y, x)
    flat = size[0] < 0.5 * max(size)
    light = LightSource(azdeg=146, altdeg=44)
    with style.figure(7.0, 4.4 if flat else 6.2) as drawn:
        axes: Any = drawn.add_subplot(projection="3d")
        for index, name in enumerate(name for name in largest if name in meshes):
            # x, y, z in the picture; z points downwards in the volume.
            dz, dy, dx = (meshes[name].vertices.astype(np.float64) - (z, y, x)).T
            corners = np.stack([dx, dy, size[0] - dz], axis=1)[meshes[name].triangles]
            colour = style.series_colour(index)
            solid = Poly3DCollection(
                corners, facecolors=colour, edgecolors=colour, lw=0.3, shade=True, lightsource=light
            )
            axes.add_collection3d(solid)
        axes.set(xlim=(0, size[2]), ylim=(0, size[1]), zlim=(0, size[0]))
        axes.set_box_aspect(size[::-1], zoom=1.25 if flat else 1.0)
        axes.view_init(elev=24, azim=-58)
        axes.set(xticks=[], yticks=[], zticks=[], xlabel="x", ylabel="y", zlabel="z")
        return style.data_uri(drawn, "png", dpi=130)
