# SPDX-License-Identifier: Apache-2.0
"""Objects of predicted classes and distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.tasks import Classes, PatchTask
from floodtide.base.tasks.affinities import NEAREST
from floodtide.segment.affinities import segments_of


def objects_of(task: PatchTask | None, predicted: NDArray[Any]) -> NDArray[Any]:
    """Return the objects (z, y, x) of a prediction of classes (z, y, x), or of distances (z, y, x); 0 is none.

    Objects of classes are the face-connected components of each class but the background. Of distances, the affinity
    of two neighbours is the smaller distance of both, scaled to 0 at the boundary and 1 far from it.
    """
    if isinstance(task, Classes):
        labels: NDArray[Any] = np.zeros(predicted.shape, np.int64)
        for value in task.written[1:]:
            mask = (predicted == value).astype(np.uint8)
            found = _core.segment.connected_components(mask, 1)
            labels += np.where(found > 0, found + labels.max(), 0)
        return labels
    inside = np.clip(2 * predicted.astype(np.float32) - 1, 0, 1)
    affinities = np.zeros((3, *inside.shape), np.float32)
    for axis in range(3):
        here = tuple(slice(1 if axis == k else 0, None) for k in range(3))
        before = tuple(slice(None, -1 if axis == k else None) for k in range(3))
        affinities[axis][here] = np.minimum(inside[here], inside[before])
    labels = segments_of(affinities, NEAREST)
    labels[inside == 0] = 0
    return labels
