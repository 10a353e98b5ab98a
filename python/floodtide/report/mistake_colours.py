# SPDX-License-Identifier: Apache-2.0
"""Where a segmentation differs from the truth: splits, mergers and unsegmented voxels, in colours and patterns.

The three kinds differ in lightness and in pattern as well as in hue. They stay apart in grey print and for
colour-blind readers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from floodtide.base import style

CORRECT, UNSEGMENTED, SPLIT, MERGED = range(4)

_STRIPE = 4  # pixels between two stripes of unsegmented voxels


def kinds(
    segments: npt.NDArray[np.int64], objects: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Return the kind of each voxel: CORRECT, UNSEGMENTED, SPLIT or MERGED.

    A voxel is merged if its segment has more voxels of another object. Otherwise it is split if its object has more
    voxels in another segment. Voxels without object are correct.

    Args:
        segments: Segment ids, any shape; 0 is no segment.
        objects: Object ids of the same shape; 0 is no object.
        pairs: Rows (segment, object, voxels) from which the largest parts are taken.
    """
    main_object = _largest(pairs, 0)
    main_segment = _largest(pairs, 1)
    found = np.zeros(segments.shape, np.uint8)
    found[(objects > 0) & (segments <= 0)] = UNSEGMENTED
    both = (objects > 0) & (segments > 0)
    here = np.stack([segments[both], objects[both]], axis=1)
    unique, places = np.unique(here, axis=0, return_inverse=True)
    named = [
        MERGED
        if main_object.get(segment, obj) != obj
        else SPLIT
        if main_segment.get(obj, segment) != segment
        else CORRECT
        for segment, obj in unique.tolist()
    ]
    found[both] = np.array(named, np.uint8)[places.ravel()]
    return found


def _largest(pairs: npt.NDArray[np.int64], column: int) -> dict[int, int]:
    """Return {id of the column: id of the other column with which it has most voxels}. Ids 0 are left out."""
    kept = pairs[(pairs[:, :2] > 0).all(axis=1)]
    order = np.argsort(kept[:, 2], kind="stable")
    return dict(kept[order][:, [column, 1 - column]].tolist())


def painted(grey: npt.NDArray[np.float64], kind: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return the picture (rows, columns, 3) of a plane: the image, pale, under the colours of the mistakes."""
    picture = 0.62 + 0.38 * grey
    for which, colour in ((SPLIT, style.SPLIT), (MERGED, style.MERGED)):
        where = kind == which
        picture[where] = 0.15 * picture[where] + 0.85 * np.array(to_rgb(colour))
    rows, columns = np.indices(kind.shape)
    striped = (kind == UNSEGMENTED) & ((rows + columns) % _STRIPE < _STRIPE // 2)
    picture[striped] = to_rgb(style.NOT_SEGMENTED)
    return picture


def legend(axis: Axes | Figure, *, columns: int = 1, **where: Any) -> None:
    """Draw the legend of the three kinds."""
    axis.legend(
        handles=[
            Patch(
                facecolor="white",
                edgecolor=style.NOT_SEGMENTED,
                hatch="////",
                label="not segmented (striped)",
            ),
            Patch(facecolor=style.SPLIT, label="split"),
            Patch(facecolor=style.MERGED, label="merged"),
        ],
        ncols=columns,
        **where,
    )
