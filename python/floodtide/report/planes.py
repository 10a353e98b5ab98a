# SPDX-License-Identifier: Apache-2.0
"""Image, truth and segmentation in three planes through the middle of the segmented box.

A run directory holds them in `segmentation.h5`: datasets `segmentation` and, where known, `image`
and `truth` of the same shape (z, y, x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from floodtide.errors import InvalidFileError
from floodtide.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "segmentation.h5"
# Fixed axis, its name, and the axes drawn downwards and to the right.
_PLANES = ((0, "z", "y", "x"), (1, "y", "z", "x"), (2, "x", "z", "y"))


@dataclass(frozen=True, kw_only=True)
class Plane:
    """One plane of the box. Arrays are (rows, columns); image and truth may be None."""

    title: str
    rows_nm: float
    columns_nm: float
    segmentation: npt.NDArray[np.int64]
    image: npt.NDArray[np.float64] | None
    truth: npt.NDArray[np.int64] | None


def read_planes(folder: Path, voxel_size_nm: Sequence[float] | None) -> list[Plane]:
    """The three middle planes; reads nothing else of the volumes. Empty without a segmentation.

    Raises:
        InvalidFileError: If the file is no HDF5 or its volumes are not of one rank-3 shape.
    """
    import h5py

    path = folder / FILE
    if not path.is_file():
        return []
    try:
        with h5py.File(path, "r") as file:
            names = [name for name in ("segmentation", "image", "truth") if name in file]
            shapes = {name: file[name].shape for name in names}
            if (
                "segmentation" not in shapes
                or len(set(shapes.values())) != 1
                or len(shapes[names[0]]) != 3
            ):
                raise InvalidFileError(
                    f"report: {path} holds {shapes}; expected segmentation (z, y, x) "
                    "and image and truth of its shape"
                )
            size = voxel_size_nm or (1.0, 1.0, 1.0)
            planes = []
            for axis, name, _, _ in _PLANES:
                at = shapes["segmentation"][axis] // 2
                index = tuple(at if i == axis else slice(None) for i in range(3))
                rows, columns = (i for i in range(3) if i != axis)
                read = {part: file[part][index] for part in names}
                planes.append(
                    Plane(
                        title=f"{name} = {at}",
                        rows_nm=float(size[rows]),
                        columns_nm=float(size[columns]),
                        segmentation=_as_labels(read["segmentation"]),
                        image=read["image"].astype(np.float64) if "image" in read else None,
                        truth=_as_labels(read["truth"]) if "truth" in read else None,
                    )
                )
            return planes
    except OSError as error:
        raise (
            error
            if isinstance(error, InvalidFileError)
            else InvalidFileError(f"report: {path} is no readable HDF5 file: {error}")
        ) from error


def planes_figure(planes: Sequence[Plane], voxel_size_nm: Sequence[float] | None) -> str:
    """A row a plane: image, truth, segmentation, and where the two differ. PNG as data URI."""
    with_truth = all(plane.truth is not None for plane in planes)
    titles = (
        ["Image", "Truth", "Segmentation", "Differences"]
        if with_truth
        else ["Image", "Segmentation"]
    )
    matches = matching(planes) if with_truth else {}
    heights = [
        p.segmentation.shape[0] * p.rows_nm / (p.segmentation.shape[1] * p.columns_nm)
        for p in planes
    ]
    width = 2.75
    with style.figure(width * len(titles) + 0.4, width * sum(heights) + 0.55) as drawn:
        axes = drawn.subplots(len(planes), len(titles), squeeze=False, height_ratios=heights)
        for row, (plane, (_, _, down, right)) in enumerate(zip(planes, _PLANES, strict=True)):
            shown = matched(plane.segmentation, matches) if with_truth else plane.segmentation
            pictures = [_grey(plane), _overlay(plane, shown)]
            if plane.truth is not None and with_truth:
                pictures = [
                    _grey(plane),
                    _overlay(plane, plane.truth),
                    _overlay(plane, shown),
                    _differences(plane, shown),
                ]
            for column, (axis, picture) in enumerate(zip(axes[row], pictures, strict=True)):
                axis.imshow(
                    picture, aspect=plane.rows_nm / plane.columns_nm, interpolation="nearest"
                )
                axis.set_xticks([])
                axis.set_yticks([])
                axis.grid(False)
                for spine in axis.spines.values():
                    spine.set_visible(False)
                if row == 0:
                    axis.set_title(titles[column])
                if column == 0:
                    axis.set_ylabel(f"{plane.title}   ({down} ↓, {right} →)")
                    high, wide = plane.segmentation.shape
                    style.scale_bar(axis, wide, high, plane.columns_nm if voxel_size_nm else None)
        if with_truth:
            _legend_differences(axes[-1][-1])
        return style.data_uri(drawn, "png", dpi=130)


def _as_labels(values: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    return values.astype(np.int64)


def _grey(plane: Plane) -> npt.NDArray[np.float64]:
    if plane.image is None:
        return np.full((*plane.segmentation.shape, 3), 0.85)
    low, high = np.percentile(plane.image, (0.5, 99.5))
    grey = np.clip((plane.image - low) / max(high - low, 1e-9), 0.0, 1.0)
    return np.repeat(grey[..., None], 3, axis=-1)


def _overlay(plane: Plane, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    grey = _grey(plane)
    colour = style.label_colours(labels)
    picture = 0.45 * grey + 0.55 * colour
    picture[style.boundaries(labels)] *= 0.35
    return np.where((labels > 0)[..., None], picture, grey)


def matching(planes: Sequence[Plane]) -> dict[int, int]:
    """Segment to the object that it overlaps most; an object goes to its best segment only."""
    pairs = np.concatenate(
        [np.stack([p.segmentation.ravel(), np.asarray(p.truth).ravel()], axis=1) for p in planes]
    )
    pairs = pairs[(pairs > 0).all(axis=1)]
    values, counts = np.unique(pairs, axis=0, return_counts=True)
    matches: dict[int, int] = {}
    for segment, truth in values[np.argsort(-counts, kind="stable")].tolist():
        if segment not in matches and truth not in matches.values():
            matches[segment] = truth
    return matches


def matched(labels: npt.NDArray[np.int64], matches: dict[int, int]) -> npt.NDArray[np.int64]:
    """Labels renamed to the objects that they match, the others to numbers of their own."""
    values, inverse = np.unique(labels, return_inverse=True)
    free = max(matches.values(), default=0) + 1
    names = [0 if v == 0 else matches.get(v, free + v) for v in values.tolist()]
    return np.array(names, dtype=np.int64)[inverse].reshape(labels.shape)


def _differences(plane: Plane, shown: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    from matplotlib.colors import to_rgb

    truth = np.asarray(plane.truth)
    picture = 0.35 + 0.6 * _grey(plane)
    for where, colour in (
        ((truth > 0) & (shown == 0), style.NOT_SEGMENTED),
        ((truth > 0) & (shown > 0) & (shown != truth), style.OTHER_OBJECT),
    ):
        picture[where] = 0.35 * picture[where] + 0.65 * np.array(to_rgb(colour))
    return picture


def _legend_differences(axis: Axes) -> None:
    from matplotlib.patches import Patch

    axis.legend(
        handles=[
            Patch(color=style.NOT_SEGMENTED, label="not segmented"),
            Patch(color=style.OTHER_OBJECT, label="split or merged"),
        ],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.01),
        ncols=2,
    )
