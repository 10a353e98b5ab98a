# SPDX-License-Identifier: Apache-2.0
"""Whether labels lie on their image: compared over all orders and directions of the axes.

Membranes are darker (or brighter) than what they enclose. So the mean grey level of voxels at a change of label differs
from that of other voxels, if the labels lie on the image, and hardly does in any other orientation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floodtide.data.boxes import Box, Vec3
from floodtide.data.look.image import require_image
from floodtide.data.look.labels import changed, require_labels
from floodtide.data.look.sampling import CUBE, FULL, Array, cubes, read, whole_of
from floodtide.data.volumes import Volume
from floodtide.errors import ShapeError

_FEW = 2_000  # voxels at boundaries or inside of objects, below which an orientation is not judged
_SEEN = 0.15  # difference, as a share of the image's standard deviation, that an aligned volume has at least
_CLEAR = 0.3  # the same for an orientation that is better than the stored one
_BETTER = 2.0  # times the stored orientation's difference
_AXES = "zyx"

Places = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


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
    def stored(self) -> bool:
        """True for the labels as they are."""
        return self == Orientation()

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

    def apply(self, labels: Array) -> Array:
        """Return labels in this orientation, as a view."""
        steps = tuple(slice(None, None, -1 if back else 1) for back in self.reversed)
        return labels.transpose(self.axes)[steps]


@dataclass(frozen=True)
class Candidate:
    """How well labels lie on an image in one orientation.

    Attributes:
        orientation: The orientation.
        boundary: Mean grey level of voxels at a change of label.
        inside: Mean grey level of the other labelled voxels.
    """

    orientation: Orientation
    boundary: float
    inside: float

    @property
    def difference(self) -> float:
        """Grey levels by which boundaries are brighter than the inside of objects; negative if darker."""
        return self.boundary - self.inside


@dataclass(frozen=True)
class Alignment:
    """Candidates for the orientation of labels on their image.

    Attributes:
        candidates: All orientations that could be judged, the largest absolute difference first.
        std: Standard deviation of the compared voxels of the image.
        possible: Number of orientations that have the shape of the image.
    """

    candidates: tuple[Candidate, ...]
    std: float
    possible: int

    @property
    def stored(self) -> Candidate | None:
        """The candidate of the stored orientation; None if it has another shape than the image or too few labels."""
        return next((one for one in self.candidates if one.orientation.stored), None)

    @property
    def best(self) -> Candidate | None:
        """The candidate of the largest difference."""
        return self.candidates[0] if self.candidates else None

    def contrast(self, candidate: Candidate) -> float:
        """Return the absolute difference of a candidate as a share of the standard deviation."""
        return abs(candidate.difference) / self.std if self.std > 0 else 0.0

    @property
    def verdict(self) -> str:
        """ "aligned", "other" (another orientation is clearly better) or "unclear" (boundaries do not show)."""
        best, stored = self.best, self.stored
        if best is None:
            return "unclear"
        here = self.contrast(stored) if stored is not None else 0.0
        if not best.orientation.stored and self.contrast(best) >= max(_CLEAR, _BETTER * here):
            return "other"
        return "aligned" if here >= max(_SEEN, self.contrast(best) / _BETTER) else "unclear"

    @property
    def clear(self) -> Candidate | None:
        """The orientation that the labels should have; None if they are aligned or nothing is certain."""
        return self.best if self.verdict == "other" else None


def alignment(image: Volume, labels: Volume, *, budget: int = FULL) -> Alignment:
    """Return how well labels lie on their image, for every orientation of the labels that has the image's shape.

    Whole volumes are compared, in cubes of 64 voxels that lie on a grid which every orientation maps to itself.

    Args:
        image: The image.
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
    grid = _counts(image.shape, per_axis)
    parts = {at: _parts(labels.read(box)) for at, box in _grid(labels.shape, per_axis).items()}
    sums = np.zeros((len(orientations), 2, 2))  # of boundary and inside: grey levels, voxels
    whole = np.zeros(3)  # voxels, grey levels and their squares
    mean: np.float32 | None = None  # subtracted, so that the sums keep their digits
    for place, box in _grid(image.shape, per_axis).items():
        values = read(image, box).astype(np.float32)
        mean = np.float32(values.mean(dtype=np.float64)) if mean is None else mean
        values -= mean
        cube = np.array([values.size, values.sum(dtype=np.float64)])
        whole += *cube, np.square(values).sum(dtype=np.float64)
        for row, orientation in zip(sums, orientations, strict=True):
            boundary, unlabelled = (
                _sum_at(values, voxels, orientation)
                for voxels in parts[_source(place, grid, orientation)]
            )
            row[0] += boundary
            row[1] += cube[::-1] - boundary - unlabelled
    offset = float(mean or 0.0)
    found = [
        Candidate(
            orientation,
            offset + float(row[0, 0] / row[0, 1]),
            offset + float(row[1, 0] / row[1, 1]),
        )
        for orientation, row in zip(orientations, sums, strict=True)
        if row[:, 1].min() >= _FEW
    ]
    variance = whole[2] / whole[0] - (whole[1] / whole[0]) ** 2
    return Alignment(
        tuple(sorted(found, key=lambda one: -abs(one.difference))),
        float(np.sqrt(max(0.0, variance))),
        len(orientations),
    )


def orders_for(image: Volume, labels: Volume) -> list[Vec3]:
    """Return the orders of the labels' axes that have the shape of the image.

    Raises:
        ShapeError: If there is none.
    """
    orders = [
        (z, y, x)
        for z, y, x in itertools.permutations(range(3))
        if (labels.shape[z], labels.shape[y], labels.shape[x]) == image.shape
    ]
    if not orders:
        raise ShapeError(
            f"{labels.name}: labels have shape {labels.shape}, and the image {image.name} has {image.shape};"
            " expected the same shape (z, y, x): cut both to the same part"
        )
    return orders


def require_same_shape(image: Volume, labels: Volume) -> None:
    """Check that labels have the shape of their image.

    Raises:
        ShapeError: If not. The message says how to turn the labels if their axes are in another order.
    """
    if image.shape != labels.shape:
        orders = orders_for(image, labels)
        raise ShapeError(
            f"{labels.name}: labels have shape {labels.shape}, and the image {image.name} has {image.shape}: the axes"
            f" are in another order, store labels.transpose{orders[0]} (`floodtide inspect` finds which way they lie)"
        )


def _parts(labels: Array) -> tuple[Places, Places]:
    """Return the places of the voxels at a change of label, and of the other voxels that are labelled 0."""
    boundary, _ = changed(labels)
    z, y, x = np.nonzero(boundary)
    other_z, other_y, other_x = np.nonzero((labels == 0) & ~boundary)
    return (z, y, x), (other_z, other_y, other_x)


def _sum_at(values: Array, places: Places, orientation: Orientation) -> NDArray[np.float64]:
    """Return the sum of the grey levels at places in the stored labels, and the number of places."""
    turned = tuple(
        extent - 1 - places[axis] if back else places[axis]
        for axis, extent, back in zip(
            orientation.axes, values.shape, orientation.reversed, strict=True
        )
    )
    chosen = values[turned]
    return np.array([chosen.sum(dtype=np.float64), chosen.size])


def _counts(shape: Vec3, per_axis: int) -> Vec3:
    """Return the number of cubes along each axis."""
    z, y, x = (len({box[0][axis] for box in cubes(whole_of(shape), per_axis)}) for axis in range(3))
    return z, y, x


def _grid(shape: Vec3, per_axis: int) -> dict[Vec3, Box]:
    """Return the cubes of a volume by their place in the grid."""
    depth, rows, columns = map(range, _counts(shape, per_axis))
    places = itertools.product(depth, rows, columns)
    return dict(zip(places, cubes(whole_of(shape), per_axis), strict=True))


def _source(place: Vec3, grid: Vec3, orientation: Orientation) -> Vec3:
    """Return which cube of the stored labels an orientation brings to a place of the image's grid."""
    source = [0, 0, 0]
    for axis, (at, count, back) in enumerate(zip(place, grid, orientation.reversed, strict=True)):
        source[orientation.axes[axis]] = count - 1 - at if back else at
    return source[0], source[1], source[2]
