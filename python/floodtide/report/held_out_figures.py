# SPDX-License-Identifier: Apache-2.0
"""Pictures of predictions and ground truth: outlines on slices, and affinities of a section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from floodtide.base import style
from floodtide.report import drawing
from floodtide.report.drawing import Floats

if TYPE_CHECKING:
    pass

# Outlines: colour and line style, so that they differ in grey print, too.
_TRUTH, _PREDICTED = ("#56B4E9", "solid"), ("#E69F00", "dashed")


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A slice with its image, true classes and predicted classes, each (y, x)."""

    title: str
    below: str
    image: Floats
    truth: npt.NDArray[np.uint8]
    predicted: npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a volume.

    The image is (y, x). True affinities, the mask of counted affinities and predicted affinities are (y, x, 3), for the
    axes z, y, x. `voxel_nm` is the size (y, x) of a voxel in nanometres, None if unknown.
    """

    title: str
    image: Floats
    truth: npt.NDArray[Any]
    counted: npt.NDArray[np.bool_]
    predicted: npt.NDArray[Any]
    voxel_nm: tuple[float, float] | None


def slices_figure(slices: Sequence[Slice]) -> str:
    """Return a figure with one column per slice: the image, and the image with outlines of classes. PNG as data URI."""
    from matplotlib.lines import Line2D

    width = 3.2
    heights = [style.bounded_ratio(s.image.shape[0] / s.image.shape[1]) for s in slices]
    with style.figure(width * len(slices) + 0.1, 2 * width * max(heights) + 0.9) as drawn:
        drawn.set_layout_engine("compressed")  # for axes of a fixed aspect
        axes = drawn.subplots(2, len(slices), squeeze=False)
        for (above, below), one in zip(axes.T, slices, strict=True):
            for axis in (above, below):
                drawing.show(axis, drawing.grey(one.image))
            for classes, (colour, line) in ((one.truth, _TRUTH), (one.predicted, _PREDICTED)):
                for number in np.unique(classes[classes > 0]).tolist():
                    drawing.outline(below, classes == number, colour, line)
            above.set_title(style.plain(one.title), fontsize=9)
            below.set_xlabel(one.below)
        handles = [
            Line2D([], [], color=colour, ls=line, label=label)
            for (colour, line), label in ((_TRUTH, "truth"), (_PREDICTED, "prediction"))
        ]
        drawn.legend(handles=handles, loc="outside lower center", ncols=2)
        return style.data_uri(drawn, "png", dpi=130)


def section_figure(section: Section) -> str:
    """Return a figure of a section: image, true and predicted affinities, and boundary map. PNG as data URI."""
    rows, columns = section.image.shape
    aspect = 1.0 if section.voxel_nm is None else section.voxel_nm[0] / section.voxel_nm[1]
    truth = np.where(section.counted, section.truth, 0.0)
    boundary = 1.0 - section.predicted[..., 1:].mean(axis=-1)
    width = 4.2
    with style.figure(
        2 * width + 0.3, 2 * width * style.bounded_ratio(aspect * rows / columns) + 0.6
    ) as drawn:
        drawn.set_layout_engine("compressed")
        axes = drawn.subplots(2, 2)
        for axis, title, picture in (
            (axes[0][0], f"Image, {section.title}", drawing.grey(section.image)),
            (axes[0][1], "Boundary map", np.repeat(boundary[..., None], 3, axis=-1)),
            (axes[1][0], "True affinities", truth),
            (axes[1][1], "Predicted affinities", section.predicted),
        ):
            drawing.show(axis, np.clip(picture, 0.0, 1.0), aspect)
            axis.set_title(title)
        pixel = None if section.voxel_nm is None else section.voxel_nm[1]
        style.scale_bar(axes[0][0], columns, rows, pixel)
        return style.data_uri(drawn, "png", dpi=130)
