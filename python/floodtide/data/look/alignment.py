# SPDX-License-Identifier: Apache-2.0
"""Whether labels lie on their image: compared over all orders and directions of the axes.

Membranes are darker (or brighter) than what they enclose. So the mean grey level of voxels at a change of label differs
from that of other voxels, if the labels lie on the image, and hardly does in any other orientation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import Vec3
from floodtide.data.look.image import require_image
from floodtide.data.look.labels import changed, require_labels
from floodtide.data.look.sampling import CUBE, FULL, cubes, read, whole_of
from floodtide.data.volumes import Volume
from floodtide.errors import ShapeError

_FEW = 2_000  # voxels at boundaries or inside of objects, below which an orientation is not judged
_SEEN = 0.15  # difference, as a share of the image's standard deviation, that an aligned volume has at least
_CLEAR = 0.3  # the same for an orientation that is better than the stored one
_BETTER = 2.0  # times the stored orientation's difference
_AXES = "zyx"


@dataclass(frozen=True)
class Orientation:
    """An order and direction of the axes of the labels.

    Attributes:
        axes: The axis of the stored labels (0 is z) that becomes z, y and x.
        reversed: Which of the new axes z, y, x run backwards.
    """

    axes: Vec3 = (0, 1, 2)
    reversed: tuple[bool, bool, bool] = (False, False, False)

    @property
    def words(self) -> str:
        """The orientation in words: "axes z, x, y; y reversed"."""
        parts = []
        if self.axes != (0, 1, 2):
            parts.append("axes " + ", ".join(_AXES[axis] for axis in self.axes))
        backwards = [name for name, back in zip(_AXES, self.reversed, strict=True) if back]
        if backwards:
            parts.append(f"{' and '.join(backwards)} reversed")
        return "; ".join(parts) or "as stored"

    @property
    def expression(self) -> str:
        """NumPy's expression that turns labels into this orientation: "labels.transpose(0, 2, 1)[:, ::-1, :]"."""
        text = "labels"
        if self.axes != (0, 1, 2):
            text += f".transpose{self.axes}"
        if any(self.reversed):
            text += "[" + ", ".join("::-1" if back else ":" for back in self.reversed) + "]"
        return text

    @property
    def _steps(self) -> tuple[slice, ...]:
        return tuple(slice(None, None, -1 if back else 1) for back in self.reversed)

    def apply(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return labels in this orientation, as a view."""
        return labels.transpose(self.axes)[self._steps]

    def undo(self, image: NDArray[Any]) -> NDArray[Any]:
        """Return a view of an image that lies on the labels as they are stored."""
        return image[self._steps].transpose(np.argsort(self.axes))


@dataclass(frozen=True)
class Candidate:
    """How well labels lie on an image in one orientation.

    Attributes:
        difference: Mean grey level of voxels at a change of label, less that of the other labelled voxels.
    """

    orientation: Orientation
    difference: float


@dataclass(frozen=True)
class Alignment:
    """Candidates for the orientation of labels on their image.

    Attributes:
        candidates: All orientations that could be judged, the largest absolute difference first.
        std: Standard deviation of the compared voxels of the image.
    """

    candidates: tuple[Candidate, ...]
    std: float

    @property
    def stored(self) -> Candidate | None:
        """The candidate of the stored orientation; None if it has another shape than the image or too few labels."""
        return next((one for one in self.candidates if one.orientation == Orientation()), None)

    def contrast(self, candidate: Candidate | None) -> float:
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
    def clear(self) -> Candidate | None:
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
        InvalidFileError: If a volume cannot be read or is of a wrong type.
    """
    require_image(image)
    require_labels(labels)
    orientations = [
        Orientation(order, (bool(z), bool(y), bool(x)))
        for order in orders_for(image, labels)
        for z, y, x in itertools.product((0, 1), repeat=3)
    ]
    per_axis = 3 if budget >= 27 * CUBE**3 else 2
    parts = _grid(labels.shape, per_axis)
    for place, box in np.ndenumerate(parts):
        parts[place] = _parts(labels.read(box))
    sums = np.zeros((len(orientations), 2, 2))  # of boundary and inside: grey levels, voxels
    whole = np.zeros(3)  # voxels, grey levels and their squares
    mean: np.float32 | None = None  # subtracted, so that the sums keep their digits
    for place, box in np.ndenumerate(_grid(image.shape, per_axis)):
        values = read(image, box).astype(np.float32)
        mean = np.float32(values.mean(dtype=np.float64)) if mean is None else mean
        values -= mean
        cube = np.array([values.sum(dtype=np.float64), values.size])
        whole += *cube[::-1], np.square(values).sum(dtype=np.float64)
        for row, orientation in zip(sums, orientations, strict=True):
            turned = orientation.undo(values).ravel()
            boundary, unlabelled = (
                (turned[voxels].sum(dtype=np.float64), voxels.size)
                for voxels in orientation.apply(parts)[place]
            )
            row += boundary, cube - boundary - unlabelled
    means = sums[..., 0] / np.maximum(sums[..., 1], 1)
    found = [
        Candidate(orientation, float(boundary - inside))
        for orientation, (boundary, inside), row in zip(orientations, means, sums, strict=True)
        if row[:, 1].min() >= _FEW
    ]
    variance = whole[2] / whole[0] - (whole[1] / whole[0]) ** 2
    best_first = tuple(sorted(found, key=lambda one: -abs(one.difference)))
    return Alignment(best_first, float(np.sqrt(max(0.0, variance))))


def orders_for(image: Volume, labels: Volume) -> list[Vec3]:
    """Return the orders of the labels' axes that have the shape of the image. Raise ShapeError if there is none."""
    orders = [
        (z, y, x)
        for z, y, x in itertools.permutations(range(3))
        if (labels.shape[z], labels.shape[y], labels.shape[x]) == image.shape
    ]
    if not orders:
        raise ShapeError(
            f"{labels.name}: labels have shape {labels.shape}, and the image {image.name} has {image.shape};"
            " expected the same shape (z, y, x): cut both to the same part, or write a configuration with labels_start"
            " of the volume, the voxel of the image at which the labels begin"
        )
    return orders


def require_same_shape(image: Volume, labels: Volume) -> None:
    """Raise ShapeError unless labels have the shape of their image. The message says how to turn them."""
    if image.shape != labels.shape:
        orders = orders_for(image, labels)
        raise ShapeError(
            f"{labels.name}: labels have shape {labels.shape}, and the image {image.name} has {image.shape}: the axes"
            f" are in another order, store labels.transpose{orders[0]} (`floodtide inspect` finds which way they lie)"
        )


def _parts(labels: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the flat indices of the voxels at a change of label, and of the other voxels that are labelled 0."""
    boundary, _ = changed(labels)
    return np.flatnonzero(boundary), np.flatnonzero((labels == 0) & ~boundary)


def _grid(shape: Vec3, per_axis: int) -> NDArray[Any]:
    """Return the cubes of a volume in their places (z, y, x)."""
    boxes = cubes(whole_of(shape), per_axis)
    found = np.empty([len({start[axis] for start, _ in boxes}) for axis in range(3)], object)
    for place, box in zip(np.ndindex(found.shape), boxes, strict=True):
        found[place] = box
    return found
