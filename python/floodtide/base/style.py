# SPDX-License-Identifier: Apache-2.0
"""Common style of all figures: colour-blind safe colours, labelled axes, scale bars."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, the most different entries first. It marks series, never values.
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P")
_LONGEST_NAME = 80  # characters of the name of a run in a legend
_STEEPEST = 20.0  # maximum ratio of height and width of a picture, or of width and height
GREY = "#6b7280"
# Mistakes of a segmentation: light, dark and striped, so that they differ in grey print, too.
NOT_SEGMENTED = "#7F7F7F"
SPLIT = "#F0A020"
MERGED = "#2B2F8F"

_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": "#374151",
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.8,
    "xtick.color": "#6b7280",
    "ytick.color": "#6b7280",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "floodtide",
    "figure.constrained_layout.use": True,
}


def series_colour(index: int) -> str:
    """Return the colour of the run with an index in the list of runs."""
    return SERIES[index % len(SERIES)]


def series_look(colour: str, points: int = 1) -> dict[str, Any]:
    """Return colour and marker of the line of a run. Markers at about eight points tell runs apart in grey print."""
    marker = MARKERS[SERIES.index(colour) % len(MARKERS)]
    return {"color": colour, "marker": marker, "ms": 4.0, "markevery": max(1, points // 8)}


@contextmanager
def figure(width_in: float, height_in: float) -> Iterator[Figure]:
    """Return a context manager that gives an empty figure in this style, without pyplot or the user's settings."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # in the name of a run
        made = Figure(figsize=(width_in, height_in))
        FigureCanvasAgg(made)
        yield made


def data_uri(drawn: Figure, file_format: str, dpi: int = 110) -> str:
    """Return the figure as a data URI for an `img` element. Formats: `svg` for curves, `png` for images."""
    kind = {"svg": "image/svg+xml", "png": "image/png"}[file_format]
    content = rendered(drawn, file_format, dpi)
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def rendered(drawn: Figure, file_format: str, dpi: int = 110) -> bytes:
    """Return the bytes of the figure as a `svg`, `png` or `pdf` file. Equal figures give equal bytes."""
    buffer = io.BytesIO()
    metadata = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}
    drawn.savefig(buffer, format=file_format, dpi=dpi, metadata=metadata[file_format])
    return buffer.getvalue()


def plain(text: str) -> str:
    """Return a name for use in a figure: printable, of limited length, and not interpreted as a formula."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    shown = shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}..."
    shown = shown.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown  # legends omit names that begin with _


def bounded_ratio(ratio: float) -> float:
    """Return height / width of a picture, limited to a range that can be drawn."""
    return min(max(ratio, 1.0 / _STEEPEST), _STEEPEST)


def label_colours(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return RGB colours in [0, 1] for every label. A label has the same colour in every picture.

    Hues follow the golden ratio and lightness cycles, so that consecutive labels differ in both.
    """
    from matplotlib.colors import hsv_to_rgb

    values = labels.astype(np.uint64)
    hue = np.modf(values * 0.6180339887498949)[0]
    lightness = np.array([0.62, 0.48, 0.74])[(values % np.uint64(3)).astype(np.int64)]
    saturation = np.array([0.75, 0.9])[(values // np.uint64(3) % np.uint64(2)).astype(np.int64)]
    chroma = (1.0 - np.abs(2.0 * lightness - 1.0)) * saturation
    value = lightness + chroma / 2.0
    colours: npt.NDArray[np.float64] = hsv_to_rgb(np.stack([hue, chroma / value, value], axis=-1))
    return colours


def boundaries(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return a mask of the pixels of a plane whose right or lower neighbour has another label."""
    edge = np.zeros(labels.shape, dtype=bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1, :] |= labels[:-1, :] != labels[1:, :]
    return edge


def scale_bar(
    axes: Axes,
    width_px: int,
    height_px: int,
    pixel_nm: float | None,
    widest_px: float | None = None,
    *,
    right: bool = False,
) -> None:
    """Draw a scale bar in a lower corner of a picture, with a round length of about a fifth of the width.

    Args:
        axes: Axes that show a picture of width_px x height_px pixels (extent in pixels).
        pixel_nm: Width of a pixel in nanometres; None: the label of the bar is in voxels.
        widest_px: Width of the widest of several pictures of one scale, whose bars are equal if they fit; None: this.
        right: In the right corner, not in the left one.
    """
    from matplotlib.patches import Rectangle

    unit = pixel_nm or 1.0
    wide = width_px if widest_px is None else min(widest_px, 4.0 * width_px)
    target = 0.22 * wide * unit
    decade = 10.0 ** math.floor(math.log10(max(target, 1.0)))
    length = max(step * decade for step in (1.0, 2.0, 5.0) if step * decade <= max(target, 1.0))
    if pixel_nm is None:
        text = f"{length:g} voxels"
    else:
        text = f"{length / 1000.0:g} µm" if length >= 1000.0 else f"{length:g} nm"
    aspect = axes.get_aspect()
    thick = min(0.012 * wide / (1.0 if isinstance(aspect, str) else aspect), 0.1 * height_px)
    length_px = length / unit
    x = 0.96 * width_px - 1.0 - length_px if right else 0.04 * width_px
    y = height_px - 0.5 - 1.5 * thick  # the last pixel ends at height_px - 0.5
    axes.add_patch(Rectangle((x, y - thick), length_px, thick, color="white", ec="black", lw=0.4))
    side = "right" if right else "left"
    end = x + length_px if right else x
    label = axes.text(end, y - 1.8 * thick, text, color="white", fontsize=8.5, va="bottom", ha=side)
    from matplotlib.patheffects import withStroke

    label.set_path_effects([withStroke(linewidth=2.2, foreground="black")])
