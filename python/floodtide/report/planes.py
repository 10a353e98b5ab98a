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
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from floodtide.base import style
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, WAIT_S, reserved
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3, difference, is_inside, total
from floodtide.data.no_label import cleared
from floodtide.data.volumes import volume_exists
from floodtide.errors import InvalidFileError
from floodtide.evaluate.voxels import ContingencyTable, first_voxels
from floodtide.report import drawing, mistake_colours
from floodtide.report.drawing import Floats, Ids

_MISTAKES = "Mistakes"
_MOST_PIXELS = 2048  # maximum number of pixels along a side of a plane
_PANEL, _LABEL = 2.75, 0.5  # inches: width of the widest plane, and height of the label of a row
_WIDTH = 160  # voxels along each side of the surroundings of a voxel
_BRIGHTEST = 1e30  # higher intensities would overflow in drawings
# Of each plane: the fixed axis, and the axes drawn downwards and to the right.
_AXES = (("z", "y", "x"), ("y", "z", "x"), ("x", "z", "y"))


@dataclass(frozen=True, kw_only=True)
class Plane:
    """One plane of the box. Arrays are (rows, columns), None if there is no such volume.

    `pairs` are the rows (segment, object, voxels) of the whole box that tell splits from mergers; None: those of the
    plane. `marked` is the voxel (row, column) around which the planes lie. `aspect` is the height of a drawn voxel over
    its width, `pixel_nm` its width in nanometres; None: unknown. `pixel` is this width, or that in voxels.
    """

    title: str
    shape: tuple[int, int]
    aspect: float
    pixel: float
    pixel_nm: float | None
    marked: tuple[float, float]
    image: Floats | None = None
    truth: Ids | None = None
    before: Ids | None = None
    segmentation: Ids | None = None
    pairs: Ids | None = None


def middle_planes(
    image: Volume, labels: Volume | None, voxel_size_nm: Sequence[float] | None
) -> list[Plane]:
    """Return the three middle planes of an image, and of labels of its shape as the truth."""
    start = (0, 0, 0)
    layers = {"image": (image, start), "truth": None if labels is None else (labels, start)}
    middle = as_vec3([n // 2 for n in image.shape])
    return _cut(layers, (start, image.shape), middle, start, voxel_size_nm)


def read_segmentation(
    segmentation: Volume,
    image: str,
    truth: str | Volume,
    voxel_size_nm: Sequence[float] | None,
    around: Vec3 | None = None,
    before: Volume | None = None,
    pairs: Ids | None = None,
    placed: Vec3 | None = None,
    start: Vec3 | None = None,
) -> list[Plane]:
    """Return the three middle planes of a segmentation, or three planes through a voxel. Only these planes are read.

    Args:
        segmentation: Volume of segment ids. Its attribute `box_start` is the position in the whole volume.
        image: Name of the image of the whole volume; "": the one that the attribute `image` names.
        truth: Name of the labels of the whole volume, or labels of the segmentation's box; "": no truth.
        around: A voxel of the whole volume; the planes then show its surroundings, 160 voxels wide.
        before: An earlier segmentation that covers the same voxels; None: there is none.
        pairs: Rows (segment, object, voxels) of the whole box, to tell splits from mergers; None: those of each plane.
        placed: Position of the segmentation in the whole volume; None: its attribute `box_start`.
        start: Position that a comparison with the truth has found; None: what the files state.
    """
    if segmentation.dtype.kind not in "iu":
        raise InvalidFileError(
            f"report: {segmentation.name}: has {segmentation.dtype} voxels, expected integers"
        )
    shape = segmentation.shape
    whole = placed or start or segmentation.whole.offset or (0, 0, 0)
    corner, middle = (0, 0, 0), as_vec3([n // 2 for n in shape])  # in the segmentation
    if around is not None:
        middle = difference(around, whole)
        corner, shape = _surroundings(middle, shape)
    raw = covering(opened(image or segmentation.text("image")), segmentation, placed, start)
    labels: tuple[Volume, Vec3] | None = (truth, (0, 0, 0)) if isinstance(truth, Volume) else None
    if isinstance(truth, str):
        labels = covering(opened(truth), segmentation, placed, start)
    earlier = covering(before, segmentation, placed, start)
    if labels is not None and labels[0].dtype.kind not in "iu":
        raise InvalidFileError(
            f"report: {labels[0].name}: has {labels[0].dtype} voxels, expected labels"
        )
    if before is not None and (earlier is None or before.dtype.kind not in "iu"):
        raise InvalidFileError(
            f"report: {before.name}: has {before.dtype} voxels and shape {before.shape}, expected integers that cover"
            " the other segmentation"
        )
    layers = {
        "segmentation": (segmentation, (0, 0, 0)),
        "image": raw,
        "truth": labels,
        "before": earlier,
    }
    return _cut(layers, (corner, shape), middle, whole, voxel_size_nm, pairs)


def _cut(
    layers: Mapping[str, tuple[Volume, Vec3] | None],
    box: Box,
    middle: Vec3,
    placed: Vec3,
    voxel_size_nm: Sequence[float] | None,
    pairs: Ids | None = None,
) -> list[Plane]:
    """Return the three planes of a box through its voxel `middle`.

    Args:
        layers: By name of a field of `Plane`: a volume, and the place in it of the voxel (0, 0, 0) of the box's volume.
        middle: Where the planes lie, in the same voxels.
        placed: Place of these voxels in the whole volume, for titles.
    """
    corner, shape = box
    size = voxel_size_nm or (1.0, 1.0, 1.0)
    known = {layer: one for layer, one in layers.items() if one is not None}
    planes = []
    for axis, (name, _, _) in enumerate(_AXES):
        rows, columns = (i for i in range(3) if i != axis)
        steps = _step(shape[rows]), _step(shape[columns])
        start, extents = list(corner), list(shape)
        start[axis], extents[axis] = middle[axis], 1
        found = {}
        for layer, (volume, first) in known.items():
            voxels = volume.read((total(start, first), as_vec3(extents))).squeeze(axis)
            found[layer] = voxels[:: steps[0], :: steps[1]]
        image = found.pop("image", None)
        planes.append(
            Plane(
                title=f"{name} = {placed[axis] + middle[axis]}",
                shape=(-(-shape[rows] // steps[0]), -(-shape[columns] // steps[1])),
                aspect=float(size[rows]) * steps[0] / (float(size[columns]) * steps[1]),
                pixel=float(size[columns]) * steps[1],
                pixel_nm=float(size[columns]) * steps[1] if voxel_size_nm else None,
                marked=(
                    (middle[rows] - corner[rows]) / steps[0],
                    (middle[columns] - corner[columns]) / steps[1],
                ),
                image=None if image is None else _finite(image),
                pairs=pairs,
                **{layer: cleared(voxels).astype(np.int64) for layer, voxels in found.items()},
            )
        )
    return planes


def opened(name: str) -> Volume | None:
    """Return the volume of a name in which variables of the environment may stand; None if there is none."""
    name = os.path.expandvars(name)
    return Volume(name) if name and volume_exists(name) else None


def covering(
    volume: Volume | None, segmentation: Volume, placed: Vec3 | None, start: Vec3 | None = None
) -> tuple[Volume, Vec3] | None:
    """Return a volume and the first voxel of a segmentation in it; None if it does not cover all of it.

    Args:
        placed: Its first voxel in the volume; None: as the volumes state their places.
        start: Its first voxel in the whole volume, for a volume of another shape; None: as it states it.
    """
    if volume is None:
        return None
    own, other = first_voxels(segmentation, volume)
    if start is not None and segmentation.shape != volume.shape:
        own = start
    first = placed or difference(own, other)
    return (volume, first) if is_inside((first, segmentation.shape), volume.shape) else None


def _step(extent: int) -> int:
    """Return the distance between drawn voxels, along a side of `extent` voxels."""
    return -(-extent // _MOST_PIXELS)


def _surroundings(voxel: Vec3, shape: Vec3) -> tuple[Vec3, Vec3]:
    """Return corner and size of the part of a volume around a voxel."""
    size = [min(n, _WIDTH) for n in shape]
    corner = [
        min(max(at - n // 2, 0), whole - n) for at, n, whole in zip(voxel, size, shape, strict=True)
    ]
    return as_vec3(corner), as_vec3(size)


def _finite(values: npt.NDArray[Any]) -> Floats:
    """Return intensities that can be drawn. NaN becomes black."""
    drawn = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(drawn, -_BRIGHTEST, _BRIGHTEST)


def planes_figure(planes: Sequence[Plane]) -> str:
    """Return a figure with one row per plane: image, truth, segmentation and mistakes. PNG as data URI."""
    with _drawn(planes) as drawn:
        return style.data_uri(drawn, "png", dpi=130)


def save_planes(planes: Sequence[Plane], path: Path) -> None:
    """Write the figure of `planes_figure` to a PNG file."""
    with reserved("picture", path, PICTURES[".png"], wait_s=WAIT_S), _drawn(planes) as drawn:
        replace_bytes(path, style.rendered(drawn, "png", dpi=130))


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
    steps = tuple(_step(n) for n in truth.shape)
    truth, predicted = (a[:: steps[0], :: steps[1]] for a in (truth, predicted))
    background = np.full((*truth.shape, 3), 0.85)
    if image is not None:
        background = drawing.grey(_finite(image[:: steps[0], :: steps[1]]))
    size = voxel_size_nm or (1.0, 1.0, 1.0)
    rows_nm, columns_nm = size[1] * steps[0], size[2] * steps[1]
    width, panels = 5.5, 1 if image is None else 2
    ratio = style.bounded_ratio(len(truth) * rows_nm / (truth.shape[1] * columns_nm))
    with (
        reserved("picture", path, PICTURES[".png"], wait_s=WAIT_S),
        style.figure(panels * width + 0.2, width * ratio + 0.7) as drawn,
    ):
        drawn.set_layout_engine("compressed")  # for axes of a fixed aspect
        axes = drawn.subplots(1, panels, squeeze=False)[0]
        drawing.outlined(axes, background, truth, predicted, rows_nm / columns_nm)
        axes[0].set_title(style.plain(title))
        rows, columns = truth.shape
        style.scale_bar(axes[0], columns, rows, columns_nm if voxel_size_nm else None)
        drawing.outline_legend(drawn)
        replace_bytes(path, style.rendered(drawn, "png", dpi=130))


@contextmanager
def _drawn(planes: Sequence[Plane]) -> Iterator[Figure]:
    matches, earlier = _matches(planes, "segmentation"), _matches(planes, "before")
    shown = [_panels(plane, matches, earlier) for plane in planes]
    titles = list(shown[0])
    widest = max(p.pixel * p.shape[1] for p in planes)  # all planes have one scale
    heights = [style.bounded_ratio(p.aspect * p.pixel * p.shape[0] / widest) for p in planes]
    height = sum(max(_PANEL * ratio, _LABEL) for ratio in heights)
    with style.figure(_PANEL * len(titles) + 1.1, height + 0.7) as drawn:
        drawn.set_layout_engine("compressed")  # for axes of a fixed aspect
        axes = drawn.subplots(len(planes), len(titles), squeeze=False, height_ratios=heights)
        rows = zip(axes, planes, shown, _AXES, strict=True)
        for row, plane, pictures, (_, down, right) in rows:
            for axis, picture in zip(row, pictures.values(), strict=True):
                show_plane(axis, plane, picture, widest / plane.pixel)
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
        for axis, title in zip(axes[0], titles, strict=True):
            axis.set_title(title)
        if _MISTAKES in titles:
            mistake_colours.legend(drawn, columns=3, loc="outside lower right")
        yield drawn


def show_plane(axis: Axes, plane: Plane, picture: Floats, widest: float | None = None) -> None:
    """Show a picture of a plane at the aspect of its voxels, with a scale bar.

    Args:
        widest: Width in pixels that the axes show, so that planes beside each other have one scale; None: the plane's.
    """
    drawing.show(axis, picture, plane.aspect)
    rows, columns = plane.shape
    style.scale_bar(axis, columns, rows, plane.pixel_nm, widest)
    if widest is not None:
        axis.set_xlim(-0.5, widest - 0.5)


def _matches(planes: Sequence[Plane], which: str) -> dict[int, int]:
    """Return the matching of the segmentation or of the earlier one; empty if it or the truth is missing."""
    if any(plane.truth is None or getattr(plane, which) is None for plane in planes):
        return {}
    return matching([(getattr(plane, which), np.asarray(plane.truth)) for plane in planes])


def _panels(plane: Plane, matches: dict[int, int], earlier: dict[int, int]) -> dict[str, Floats]:
    """Return {title: picture} of a plane, in the order in which they stand side by side."""
    background = grey(plane)
    pictures = {"Image": background}
    if plane.truth is not None:
        pictures["Truth"] = drawing.overlay(background, plane.truth)
    for title, labels, names in (
        ("Before", plane.before, earlier),
        ("Segmentation" if plane.before is None else "After", plane.segmentation, matches),
    ):
        if labels is not None:
            shown = labels if plane.truth is None else matched(labels, names)
            pictures[title] = drawing.overlay(background, shown)
    if plane.truth is not None and plane.segmentation is not None:
        pairs = plane.pairs
        if pairs is None:
            table = ContingencyTable()
            table.add(plane.segmentation, plane.truth)
            pairs = table.rows().astype(np.int64)
        kinds = mistake_colours.kinds(plane.segmentation, plane.truth, pairs)
        pictures[_MISTAKES] = mistake_colours.painted(background, kinds)
    return pictures


def grey(plane: Plane) -> Floats:
    if plane.image is None:
        return np.full((*plane.shape, 3), 0.85)
    return drawing.grey(plane.image)


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
