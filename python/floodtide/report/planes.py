# SPDX-License-Identifier: Apache-2.0
"""Pictures of image, ground truth and segmentation in three planes through the middle of the segmented box.

Image and truth come from the volumes that the caller names. If a volume does not exist any more, the pictures omit it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from floodtide.base import style
from floodtide.data import Vec3, Volume
from floodtide.data.boxes import as_vec3, difference, is_inside, total
from floodtide.data.no_label import cleared
from floodtide.data.volumes import volume_exists
from floodtide.errors import InvalidFileError
from floodtide.evaluate.voxels import first_voxels
from floodtide.report import drawing
from floodtide.report.drawing import Floats, Ids

_MISTAKES = "Mistakes"
_MOST_PIXELS = 2048  # maximum number of pixels along a side of a plane
_PANEL, _LABEL = 2.75, 0.5  # inches: width of the widest plane, and height of the label of a row
_CLASSES = 5.5  # inches: width of a picture of classes
# Of each plane: the fixed axis, and the axes drawn downwards and to the right.
_AXES = (("z", "y", "x"), ("y", "z", "x"), ("x", "z", "y"))

Layer = tuple[Volume, Vec3]
"""A volume, and the place in it of the first voxel of a box."""


@dataclass(frozen=True, kw_only=True)
class Plane:
    """One plane of a box. Arrays are (rows, columns), None if there is no such volume.

    `pixel` is height and width of a drawn voxel, in nanometres if `in_nm`. `marked` is the voxel (row, column) around
    which the planes lie. `pairs` are the rows (segment, object, voxels) of the whole box that tell splits from mergers;
    without them, mistakes are not shown.
    """

    title: str
    shape: tuple[int, int]
    pixel: tuple[float, float]
    in_nm: bool
    marked: tuple[float, float]
    image: npt.NDArray[Any] | None = None
    truth: Ids | None = None
    segmentation: Ids | None = None
    pairs: Ids | None = None

    @property
    def aspect(self) -> float:
        """Height of a drawn voxel over its width."""
        return self.pixel[0] / self.pixel[1]

    @property
    def background(self) -> Floats:
        """The image in shades of grey, RGB."""
        if self.image is None:
            return np.full((*self.shape, 3), 0.85)
        return drawing.grey(self.image)

    def mistakes(self) -> Floats | None:
        """Return the picture of the mistakes; None if they are unknown."""
        if self.truth is None or self.segmentation is None or self.pairs is None:
            return None
        kinds = drawing.kinds(self.segmentation, self.truth, self.pairs)
        return drawing.painted(self.background, kinds)


def read_segmentation(
    segmentation: Volume,
    image: str,
    truth: str,
    voxel_size_nm: Sequence[float] | None,
    around: Vec3 | None = None,
    *,
    pairs: Ids | None = None,
    start: Vec3 | None = None,
) -> list[Plane]:
    """Return the three middle planes of a segmentation, or three planes through a voxel. Only these planes are read.

    Args:
        segmentation: Volume of segment ids.
        image: Name of the image of the whole volume; "": the one that the attribute `image` names.
        truth: Name of the labels of the whole volume; "": no truth.
        around: A voxel of the whole volume; the planes then show its surroundings.
        pairs: Rows (segment, object, voxels) of the whole box, to tell splits from mergers; None: no mistakes.
        start: Position that a comparison with the truth has found; None: what the files state.
    """
    others = {"image": opened(image or segmentation.text("image")), "truth": opened(truth)}
    covered = {name: covering(volume, segmentation, start) for name, volume in others.items()}
    layers = {"segmentation": (segmentation, (0, 0, 0)), **covered}
    place = start or segmentation.whole.offset or (0, 0, 0)
    return cut(layers, voxel_size_nm, around=around, start=place, pairs=pairs)


def cut(
    layers: Mapping[str, Layer | None],
    voxel_size_nm: Sequence[float] | None,
    *,
    around: Vec3 | None = None,
    width: int = 160,
    start: Vec3 = (0, 0, 0),
    pairs: Ids | None = None,
) -> list[Plane]:
    """Return three planes through the middle of a box, or through a voxel.

    Args:
        layers: By name of a field of `Plane`: a volume, and the place of the box in it; None: there is none. The first
            volume has the shape of the box.
        around: A voxel of the whole volume; the planes then show its surroundings.
        width: Voxels along each side of the surroundings.
        start: Place of the box in the whole volume.
        pairs: As in `Plane`.
    """
    known = {name: layer for name, layer in layers.items() if layer is not None}
    for name, (volume, _) in known.items():
        if name != "image" and volume.dtype.kind not in "iu":
            raise InvalidFileError(
                f"report: {volume.name}: has {volume.dtype} voxels, expected integers"
            )
    shape = next(iter(known.values()))[0].shape
    middle = as_vec3([n // 2 for n in shape]) if around is None else difference(around, start)
    size = shape if around is None else as_vec3([min(n, width) for n in shape])
    corner = [
        min(max(at - n // 2, 0), whole - n)
        for at, n, whole in zip(middle, size, shape, strict=True)
    ]
    voxel = voxel_size_nm or (1.0, 1.0, 1.0)
    planes = []
    for axis, (fixed, _, _) in enumerate(_AXES):
        rows, columns = (i for i in range(3) if i != axis)
        steps = [-(-size[i] // _MOST_PIXELS) for i in (rows, columns)]
        first, extents = list(corner), list(size)
        first[axis], extents[axis] = middle[axis], 1
        found = {}
        for name, (volume, place) in known.items():
            voxels = volume.read((total(first, place), as_vec3(extents))).squeeze(axis)
            voxels = voxels[:: steps[0], :: steps[1]]
            found[name] = voxels if name == "image" else cleared(voxels).astype(np.int64)
        marked = [(middle[i] - corner[i]) / n for i, n in zip((rows, columns), steps, strict=True)]
        drawn_rows, drawn_columns = next(iter(found.values())).shape
        planes.append(
            Plane(
                title=f"{fixed} = {start[axis] + middle[axis]}",
                shape=(drawn_rows, drawn_columns),
                pixel=(float(voxel[rows]) * steps[0], float(voxel[columns]) * steps[1]),
                in_nm=voxel_size_nm is not None,
                marked=(marked[0], marked[1]),
                pairs=pairs,
                **found,
            )
        )
    return planes


def opened(name: str) -> Volume | None:
    """Return the volume of a name in which variables of the environment may stand; None if there is none."""
    name = os.path.expandvars(name)
    return Volume(name) if name and volume_exists(name) else None


def covering(volume: Volume | None, segmentation: Volume, start: Vec3 | None) -> Layer | None:
    """Return a volume and the place of a segmentation in it; None if it does not cover all of it.

    Args:
        start: Place of the segmentation in the whole volume, for a volume of another shape; None: as it states it.
    """
    if volume is None:
        return None
    own, other = first_voxels(segmentation, volume)
    if start is not None and segmentation.shape != volume.shape:
        own = start
    return placed(volume, difference(own, other), segmentation.shape)


def placed(volume: Volume | None, place: Vec3, shape: Vec3) -> Layer | None:
    """Return a volume and the place of a box of a shape in it; None if there is none, or the box is not inside."""
    if volume is None or not is_inside((place, shape), volume.shape):
        return None
    return volume, place


def save_planes(planes: Sequence[Plane], path: Path) -> None:
    """Write the figure of `planes_figure` to a PNG file."""
    with _drawn(planes) as drawn:
        drawing.save(drawn, path)


def save_classes(
    title: str,
    image: npt.NDArray[Any] | None,
    truth: Ids,
    predicted: Ids,
    voxel_size_nm: Sequence[float] | None,
    path: Path,
) -> None:
    """Write a figure of a section: the image, and with outlines of true and predicted classes. PNG.

    Args:
        image: Intensities (y, x); None: unknown.
        truth: True classes (y, x); values below 1 have no outline, those below 0 are voxels without a label.
        predicted: Predicted classes (y, x), of the same kind.
    """
    steps = [-(-n // _MOST_PIXELS) for n in truth.shape]
    part = np.s_[:: steps[0], :: steps[1]]
    background = (
        np.full((*truth[part].shape, 3), 0.85) if image is None else drawing.grey(image[part])
    )
    pictures: list[drawing.Picture] = [(background, truth[part], predicted[part])]
    if image is not None:
        pictures.insert(0, (background, None, None))
    shown = [(title if n == 0 else "", {"": one}) for n, one in enumerate(pictures)]
    _, y, x = voxel_size_nm or (1.0, 1.0, 1.0)
    pixel = (y * steps[0], x * steps[1])
    with drawing.columns(shown, _CLASSES, pixel, in_nm=voxel_size_nm is not None) as drawn:
        drawing.save(drawn, path)


def planes_figure(planes: Sequence[Plane]) -> str:
    """Return a figure with one row per plane: image, truth, segmentation and mistakes. PNG as data URI."""
    with _drawn(planes) as drawn:
        return style.data_uri(drawn, "png", dpi=130)


@contextmanager
def _drawn(planes: Sequence[Plane]) -> Iterator[Figure]:
    matches = None
    if not any(plane.truth is None or plane.segmentation is None for plane in planes):
        known = [(np.asarray(one.segmentation), np.asarray(one.truth)) for one in planes]
        matches = matching(known)
    shown = [_panels(plane, matches) for plane in planes]
    titles = list(shown[0])
    widest = max(p.pixel[1] * p.shape[1] for p in planes)  # all planes have one scale
    heights = [style.bounded_ratio(p.pixel[0] * p.shape[0] / widest) for p in planes]
    height = sum(max(_PANEL * ratio, _LABEL) for ratio in heights)
    size = (_PANEL * len(titles) + 1.1, height + 0.7)
    with drawing.grid(len(planes), len(titles), *size, height_ratios=heights) as (drawn, axes):
        for row, plane, pictures, (_, down, right) in zip(axes, planes, shown, _AXES, strict=True):
            rows, columns = plane.shape
            pixel_nm, most = plane.pixel[1] if plane.in_nm else None, widest / plane.pixel[1]
            for axis, (title, picture) in zip(row, pictures.items(), strict=True):
                drawing.show(axis, picture, plane.aspect)
                style.scale_bar(axis, columns, rows, pixel_nm, most)
                axis.set_xlim(-0.5, most - 0.5)
                if plane is planes[0]:
                    axis.set_title(title)
            # Unlike the label of the axis, the layout makes room for the height of this text.
            row[0].annotate(
                f"{plane.title}\n{down} down, {right} right",
                (0.0, 0.5),
                (-6.0, 0.0),
                xycoords="axes fraction",
                textcoords="offset points",
                ha="right",
                va="center",
            )
        if _MISTAKES in titles:
            drawing.mistakes_legend(drawn, "outside lower right")
        yield drawn


def _panels(plane: Plane, matches: dict[int, int] | None) -> dict[str, Floats]:
    """Return {title: picture} of a plane, in the order in which they stand side by side."""
    background = plane.background
    pictures = {"Image": background}
    if plane.truth is not None:
        pictures["Truth"] = drawing.overlay(background, plane.truth)
    if plane.segmentation is not None:
        labels = plane.segmentation
        shown = labels if matches is None else matched(labels, matches)
        pictures["Segmentation"] = drawing.overlay(background, shown)
    mistakes = plane.mistakes()
    return pictures if mistakes is None else {**pictures, _MISTAKES: mistakes}


def matching(planes: Sequence[tuple[Ids, Ids]]) -> dict[int, int]:
    """Return {segment: object that it overlaps most} of planes of (segments, objects).

    An object is matched only with its best segment.
    """
    pairs = np.concatenate([np.stack([s.ravel(), t.ravel()], axis=1) for s, t in planes])
    pairs = pairs[(pairs > 0).all(axis=1)]
    values, counts = np.unique(pairs, axis=0, return_counts=True)
    matches: dict[int, int] = {}
    for segment, truth in values[np.argsort(-counts, kind="stable")].tolist():
        if segment not in matches and truth not in matches.values():
            matches[segment] = truth
    return matches


def matched(labels: Ids, matches: dict[int, int]) -> Ids:
    """Return labels renamed to their matching objects; other labels get different, unique numbers."""
    values, inverse = np.unique(labels, return_inverse=True)
    free = max(matches.values(), default=0) + 1
    names = [0 if v == 0 else matches.get(v, free + v) for v in values.tolist()]
    return np.array(names, dtype=np.int64)[inverse].reshape(labels.shape)
