# SPDX-License-Identifier: Apache-2.0
"""Figures of the page about an image and its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import style
from floodtide.data import Volume
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.sampling import read
from floodtide.report import drawing

_MOST_PIXELS = 1024  # along a side of a plane
_PANEL_IN = 3.1  # mean width of a plane in the figure
_MOST_POINTS = 2000  # of a curve
_AXES = "zyx"
_UNITS = "distance (voxels)"


def planes(image: Volume, labels: Volume | None, voxel_size_nm: SizeNm | None) -> str:
    """Return the three middle planes of an image, and below them with labels. PNG as data URI."""
    size = voxel_size_nm or (1.0, 1.0, 1.0)
    rows = 1 if labels is None else 2
    extents = [n * nm for n, nm in zip(image.shape, size, strict=True)]
    ratios = [extents[1] / extents[2], extents[0] / extents[2], extents[0] / extents[1]]
    # Planes of one height fill the row: their widths differ as their shapes do.
    widths = [1.0 / min(max(ratio, 0.2), 5.0) for ratio in ratios]
    height = min(3 * _PANEL_IN / sum(widths), 1.5 * _PANEL_IN)
    with style.figure(3 * _PANEL_IN + 0.4, height * rows + 0.5) as drawn:
        drawn.set_layout_engine("compressed")
        axes = drawn.subplots(rows, 3, squeeze=False, width_ratios=widths)
        for axis in range(3):
            down, right = (other for other in range(3) if other != axis)
            at = image.shape[axis] // 2
            grey, steps = _plane(image, axis, at)
            pictures = [drawing.grey(grey)]
            if labels is not None:
                pictures.append(drawing.overlay(pictures[0], _plane(labels, axis, at)[0]))
            pixel = size[down] * steps[0], size[right] * steps[1]
            for panel, picture in zip(axes[:, axis], pictures, strict=True):
                drawing.show(panel, picture, pixel[0] / pixel[1])
                high, wide = grey.shape
                style.scale_bar(panel, wide, high, pixel[1] if voxel_size_nm else None)
            axes[0][axis].set_title(f"{_AXES[axis]} = {at}")
            axes[-1][axis].set_xlabel(f"{_AXES[down]} ↓  {_AXES[right]} →")
        axes[0][0].set_ylabel("image")
        if labels is not None:
            axes[1][0].set_ylabel("labels")
        return style.data_uri(drawn, "png", dpi=120)


def histogram(image: ImageStatistics) -> str:
    """Return the histogram with the proposed mean and standard deviation. SVG as data URI."""
    edges = np.linspace(image.minimum, image.maximum, len(image.histogram) + 1)
    if image.maximum == image.minimum:
        edges = image.minimum + np.arange(len(image.histogram) + 1.0)
    share = 100.0 * np.asarray(image.histogram) / sum(image.histogram)
    with style.figure(7.2, 2.9) as drawn:
        axes = drawn.subplots()
        axes.stairs(share, edges, fill=True, color=style.SERIES[5], alpha=0.8)
        mean, std = image.proposed_mean, image.proposed_std
        axes.axvspan(mean - std, mean + std, color=style.SERIES[1], alpha=0.15, lw=0)
        axes.axvline(mean, color=style.SERIES[1], label=f"proposed mean {mean:.1f} ± std {std:.1f}")
        axes.set_xlabel("grey level")
        axes.set_ylabel("voxels (%)")
        axes.margins(x=0)
        axes.legend(loc="upper right")
        return style.data_uri(drawn, "svg")


def sections(image: ImageStatistics) -> str | None:
    """Return brightness and likeness of the sections along z. SVG as data URI; None for a single section."""
    found = image.sections
    if found is None or len(found.means) < 2:
        return None
    step = -(-len(found.means) // _MOST_POINTS)
    z = found.first + np.arange(len(found.means))
    means, stds = np.asarray(found.means), np.asarray(found.stds)
    with style.figure(7.2, 4.2) as drawn:
        upper, lower = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        upper.fill_between(
            z[::step],
            (means - stds)[::step],
            (means + stds)[::step],
            color=style.SERIES[0],
            alpha=0.18,
            lw=0,
            label="± standard deviation",
        )
        upper.plot(z[::step], means[::step], color=style.SERIES[0], lw=1.2, label="mean")
        upper.set_ylabel("grey level")
        lower.plot(
            z[:-1:step] + 0.5,
            np.asarray(found.correlations)[::step],
            color=style.SERIES[2],
            lw=1.2,
        )
        lower.set_ylabel("correlation with\nthe next section")
        lower.set_xlabel("section (z)")
        lower.set_ylim(min(0.0, np.nanmin([0.0, *found.correlations])), 1.02)
        bad = [one.section for one in found.findings]
        if bad:
            at = np.asarray(bad) - found.first
            upper.plot(bad, means[at], "x", color=style.SERIES[1], ms=7, mew=2, label="bad section")
            for section in bad[:50]:
                lower.axvline(section, color=style.SERIES[1], lw=0.8, ls=":")
        upper.legend(loc="upper right", ncols=3)
        return style.data_uri(drawn, "svg")


def sharpness(image: ImageStatistics) -> str | None:
    """Return the autocorrelation along the axes. SVG as data URI; None for an image without one."""
    found = image.sharpness
    if found is None:
        return None
    with style.figure(7.2, 2.7) as drawn:
        axes = drawn.subplots()
        size = image.voxel_size_nm or (1.0, 1.0, 1.0)
        for axis, curve in enumerate(found.autocorrelation):
            lags = np.asarray(found.lags[: len(curve)]) * size[axis]
            length = found.length[axis]
            label = f"along {_AXES[axis]}" + (f": half at {length:.1f} voxels" if length else "")
            axes.plot(lags, curve, label=label, **style.line_style(axis))
        axes.axhline(0.5, color=style.GREY, lw=0.8, ls=":")
        axes.set_xlabel("distance (nm)" if image.voxel_size_nm else _UNITS)
        axes.set_ylabel("autocorrelation")
        axes.legend(loc="upper right")
        return style.data_uri(drawn, "svg")


def _plane(volume: Volume, axis: int, at: int) -> tuple[NDArray[Any], tuple[int, int]]:
    """Return a plane of at most 1024 x 1024 pixels, and how many voxels lie between two pixels."""
    start, size = [0, 0, 0], list(volume.shape)
    start[axis], size[axis] = at, 1
    voxels = read(volume, ((start[0], start[1], start[2]), (size[0], size[1], size[2])))
    plane = voxels.squeeze(axis)
    rows, columns = (-(-extent // _MOST_PIXELS) for extent in plane.shape)
    return plane[::rows, ::columns], (rows, columns)
