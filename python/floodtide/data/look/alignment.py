# SPDX-License-Identifier: Apache-2.0
"""Whether labels lie on their image: compared over all orders and directions of the axes.

Membranes are darker (or brighter) than what they enclose. So the mean grey level of voxels at a change of label differs
from that of other voxels, if the labels lie on the image, and hardly does in any other orientation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import Box, Vec3
from floodtide.data.look.labels import changed
from floodtide.data.look.sampling import CUBE, FULL, cubes, read, whole_of
from floodtide.data.volumes import Volume, orders_for

_FEW = 2_000  # voxels at boundaries or inside of objects, below which an orientation is not judged
_SEEN = 0.15  # difference, as a share of the image's standard deviation, that an aligned volume has at least
_CLEAR = 0.3  # the same for an orientation that is better than the stored one
_BETTER = 2.0  # times the stored orientation's difference


@dataclass(frozen=True)
class Orientation:
    """An order and direction of the axes of the labels.

    Attributes:
        axes: The axis of the stored labels (0 is z) that becomes z, y and x.
        reversed: Which of the new axes z, y, x run backwards.
        difference: Mean grey level of voxels at a change of label, less that of the other labelled voxels.
    """

    axes: Vec3 = (0, 1, 2)
    reversed: tuple[bool, bool, bool] = (False, False, False)
    difference: float = field(default=0.0, compare=False)

    @property
    def expression(self) -> str:
        """NumPy's expression that turns labels into this orientation: "labels.transpose(0, 2, 1)[:, ::-1, :]"."""
        text = "labels"
        if self.axes != (0, 1, 2):
            text += f".transpose{self.axes}"
        if any(self.reversed):
            text += "[" + ", ".join("::-1" if back else ":" for back in self.reversed) + "]"
        return text

    def undo(self, image: NDArray[Any]) -> NDArray[Any]:
        """Return a view of an image that lies on the labels as they are stored."""
        steps = tuple(slice(None, None, -1 if back else 1) for back in self.reversed)
        return image[steps].transpose(np.argsort(self.axes))


@dataclass(frozen=True)
class Alignment:
    """How well labels lie on their image, in several orientations.

    Attributes:
        candidates: All orientations that could be judged, the largest absolute difference first.
        std: Standard deviation of the compared voxels of the image.
    """

    candidates: tuple[Orientation, ...]
    std: float

    @property
    def stored(self) -> Orientation | None:
        """The stored orientation; None if it has another shape than the image or too few labels."""
        return next((one for one in self.candidates if one == Orientation()), None)

    def contrast(self, candidate: Orientation | None) -> float:
        """Return the absolute difference of a candidate as a share of the standard deviation; 0 for None."""
        return abs(candidate.difference) / self.std if candidate and self.std > 0 else 0.0

    @property
    def verdict(self) -> str:
        """ "aligned", "other" (another orientation is clearly better) or "unclear" (boundaries do not show)."""
        here = self.contrast(self.stored)
        best = self.candidates[0] if self.candidates else None
        if best != self.stored and self.contrast(best) >= max(_CLEAR, _BETTER * here):
            return "other"
        return "aligned" if here >= max(_SEEN, self.contrast(best) / _BETTER) else "unclear"

    @property
    def clear(self) -> Orientation | None:
        """The orientation that the labels should have; None if they are aligned or nothing is certain."""
        return self.candidates[0] if self.verdict == "other" else None


def alignment(image: Volume, labels: Volume, *, budget: int = FULL) -> Alignment:
    """Return how well labels lie on their image, for every orientation of the labels that has the image's shape.

    Whole volumes are compared, in cubes of 64 voxels that lie on a grid which every orientation maps to itself.

    Args:
        labels: Integer labels; 0 is no object or a boundary.
        budget: Voxels of the image to read; more than 2 ** 23 are never needed.

    Raises:
        ShapeError: If no order of the labels' axes has the shape of the image.
        InvalidFileError: If a volume cannot be read.
    """
    orders = orders_for(image, labels)
    per_axis = 3 if budget >= 27 * CUBE**3 else 2

    def parts(box: Box) -> NDArray[np.uint8]:
        """Return 1 for voxels at a change of label, and 2 for others inside of objects."""
        ids = labels.read(box)
        return np.where(changed(ids)[0], 1, 2 * (ids != 0)).astype(np.uint8)

    marks = _joined(labels.shape, per_axis, parts)
    boundary, inside = (np.flatnonzero(marks == part) for part in (1, 2))
    levels = _joined(image.shape, per_axis, lambda box: read(image, box).astype(np.float32))
    found = []
    for order in orders if min(len(boundary), len(inside)) >= _FEW else ():
        for z, y, x in itertools.product((False, True), repeat=3):
            orientation = Orientation(order, (z, y, x))
            turned = orientation.undo(levels).ravel()
            at, other = (turned[part].mean(dtype=np.float64) for part in (boundary, inside))
            found.append(replace(orientation, difference=float(at - other)))
    best_first = tuple(sorted(found, key=lambda one: -abs(one.difference)))
    return Alignment(best_first, float(levels.std(dtype=np.float64)))


def _joined(shape: Vec3, per_axis: int, of: Callable[[Box], NDArray[Any]]) -> NDArray[Any]:
    """Return what a function returns for each cube of a grid, as one array (z, y, x)."""
    boxes = cubes(whole_of(shape), per_axis)
    edges = boxes[0][1]
    counts = [len({start[axis] for start, _ in boxes}) for axis in range(3)]
    grid = np.stack([of(box) for box in boxes]).reshape(*counts, *edges)
    return grid.transpose(0, 3, 1, 4, 2, 5).reshape(np.multiply(counts, edges))
