# SPDX-License-Identifier: Apache-2.0
"""A picture of the objects in which two segmentations differ: for each the plane with most of the voxels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from floodtide.base import style
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, WAIT_S, reserved
from floodtide.data import Vec3, Volume
from floodtide.data.volumes import volume_exists
from floodtide.evaluate.voxels import Compared, Difference
from floodtide.report import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 6  # panels
_COLUMNS = 3
_WIDTH = 80  # voxels along each side of a panel
_FEW = 9  # most voxels that differ in a panel with rings
_NEAR = 4  # voxels within a ring


def save_differences(pair: Compared, path: Path, voxel_nm: Sequence[float] | None = None) -> None:
    """Draw the objects that differ most, one panel each, over the image that the segmentation states.

    Args:
        pair: The segmentations.
        path: The PNG file.
        voxel_nm: Voxel size (z, y, x) in nanometres, for the scale bar; None: as a file says, else voxels.

    Raises:
        StorageError: If the file cannot be written.
        InvalidArgumentError: If a file of that name exists and is not a PNG picture.
    """
    shown, image = pair.differences[:_MOST], pair.found.text("image")
    size = voxel_nm or pair.found.geometry.voxel_size_nm or pair.other.geometry.voxel_size_nm
    raw = Volume(image) if image and volume_exists(image) else None
    rows = max(1, -(-len(shown) // _COLUMNS))
    with reserved("picture", path, PICTURES[".png"], wait_s=WAIT_S):
        with style.figure(2.9 * _COLUMNS, 3.2 * rows + 0.5) as drawn:
            drawn.set_layout_engine("constrained")
            axes = drawn.subplots(rows, _COLUMNS, squeeze=False).ravel()
            for axis in axes:
                axis.set_axis_off()
            for axis, difference in zip(axes, shown, strict=False):
                _panel(axis, pair.labels, pair.stored, difference, raw, pair.start, size)
            _legend(axes[0].figure)
            content = style.rendered(drawn, "png", dpi=130)
        replace_bytes(path, content)


def _panel(
    axis: Axes,
    labels: npt.NDArray[np.integer[Any]],
    reference: npt.NDArray[np.integer[Any]],
    difference: Difference,
    raw: Volume | None,
    start: Vec3,
    voxel_nm: Sequence[float] | None,
) -> None:
    own = reference == difference.object
    found = labels == difference.segment if difference.segment > 0 else np.zeros(labels.shape, bool)
    wrong = own != found
    z = int(wrong.sum(axis=(1, 2)).argmax())
    y, x = (int(np.median(places)) for places in np.nonzero(wrong[z]))
    y0, x0 = (
        max(0, min(at - _WIDTH // 2, n - _WIDTH))
        for at, n in zip((y, x), wrong.shape[1:], strict=True)
    )
    view = (slice(y0, y0 + _WIDTH), slice(x0, x0 + _WIDTH))
    mine, theirs = found[z][view], own[z][view]
    grey = np.full((*mine.shape, 3), 0.7)
    if raw is not None:
        corner = (start[0] + z, start[1] + y0, start[2] + x0)
        grey = drawing.grey(raw.read((corner, (1, *mine.shape)))[0])
    axis.imshow(coloured(grey, mine, theirs), interpolation="nearest")
    drawing.outline(axis, mine & ~theirs, "black", width=0.9)
    for row, column in _rings(mine != theirs):
        for colour, width in (("white", 3.0), ("black", 1.2)):
            axis.plot(column, row, marker="o", ms=17, mfc="none", mec=colour, mew=width, ls="")
    high, wide = mine.shape
    style.scale_bar(axis, wide, high, None if voxel_nm is None else float(voxel_nm[2]))
    axis.set_title(
        f"object {difference.object}: {difference.missing} missing, {difference.additional} additional\n"
        f"z = {start[0] + z}, y from {start[1] + y0}, x from {start[2] + x0}",
        fontsize="small",
    )


def coloured(
    grey: npt.NDArray[np.float64], mine: npt.NDArray[np.bool_], theirs: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return a plane in colours that also differ in grey print: light image, darker object, dark or light differences.

    Args:
        grey: Image (y, x, 3) in [0, 1].
        mine: Voxels of the object in the segmentation.
        theirs: Voxels of the object in the reference.
    """
    both, missing, additional = (np.array(colour) for colour in _colours())
    picture = 0.62 + 0.38 * grey
    inside = mine & theirs
    picture[inside] = 0.6 * both + 0.06 + 0.28 * grey[inside]
    picture[theirs & ~mine] = missing
    picture[mine & ~theirs] = additional
    return picture


def _rings(wrong: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return centres (y, x) of rings around pixels that differ, none if there are many. Near pixels share a ring."""
    pixels = [(int(y), int(x)) for y, x in np.argwhere(wrong)]
    centres: list[tuple[int, int]] = []
    for y, x in pixels if len(pixels) <= _FEW else ():
        if all(max(abs(y - row), abs(x - column)) > _NEAR for row, column in centres):
            centres.append((y, x))
    return centres


def _colours() -> tuple[tuple[float, float, float], ...]:
    """Return the colours of voxels in both, in the reference alone (dark), and in the segmentation alone (light)."""
    from matplotlib.colors import to_rgb

    return to_rgb(style.SERIES[2]), to_rgb(style.MERGED), to_rgb(style.SPLIT)


def _legend(figure: Any) -> None:
    from matplotlib.patches import Patch

    names = ("in both", "in the reference alone", "in the segmentation alone")
    edges = (None, None, "black")
    handles = [
        Patch(facecolor=colour, edgecolor=edge, label=name)
        for colour, edge, name in zip(_colours(), edges, names, strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
