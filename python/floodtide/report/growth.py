# SPDX-License-Identifier: Apache-2.0
"""Pictures of an object that grows with each move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from floodtide.base import style
from floodtide.base.notes import count_of
from floodtide.data import Vec3
from floodtide.data.boxes import difference
from floodtide.report import drawing
from floodtide.segment import Move, Segmenter

_SNAPSHOTS = 14  # number of snapshots of an object, more of them at the beginning
_VISITED = 0.16  # strength of the tint of the visited region


class Snapshots(NamedTuple):
    """Snapshots of the canvas of one object, after some of the moves."""

    probability: npt.NDArray[np.float32]  # (k, z, y, x), NaN in voxels that were not visited
    moves: npt.NDArray[Any]  # number of moves made (k,)
    image: npt.NDArray[Any]  # (z, y, x)
    seed: Vec3  # where the object began to grow (z, y, x)


def grow(segmenter: Segmenter, image: npt.NDArray[Any], zyx: Sequence[int]) -> Snapshots:
    """Grow one object and return snapshots of its canvas, of the part that was visited.

    Args:
        zyx: The seed, in voxels of the image.
    """
    moves: list[tuple[tuple[slice, ...], npt.NDArray[Any]]] = []

    def keep(move: Move) -> None:
        corner = [c - n // 2 for c, n in zip(move.position_zyx, move.logits.shape, strict=True)]
        box = tuple(slice(c, c + n) for c, n in zip(corner, move.logits.shape, strict=True))
        with np.errstate(over="ignore"):
            moves.append((box, 1 / (1 + np.exp(-move.logits.astype(np.float32)))))

    segmenter.segment_at(image, zyx, on_move=keep)
    counts = np.unique(np.geomspace(1, len(moves), _SNAPSHOTS).round().astype(np.int64))
    low = [min(box[axis].start for box, _ in moves) for axis in range(3)]
    high = [max(box[axis].stop for box, _ in moves) for axis in range(3)]
    visited = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    canvas = np.full(image.shape, np.nan, np.float32)
    snapshots = []
    for count, (box, probability) in enumerate(moves, start=1):
        canvas[box] = probability
        if count in counts:
            snapshots.append(canvas[visited].copy())
    return Snapshots(np.stack(snapshots), counts, image[visited], difference(zyx, low))


def frames(growth: Snapshots, voxel_size_nm: Sequence[float] | None) -> list[tuple[str, str]]:
    """Return one picture for each snapshot, for the player: (caption, PNG as data URI)."""
    size = voxel_size_nm or (1.0, 1.0, 1.0)
    z, y, x = (n * s for n, s in zip(growth.image.shape, size, strict=True))
    widths = [style.bounded_ratio(ratio) for ratio in (x / y, x / z, y / z)]
    height = min(3.2, 9.6 / sum(widths))  # the three planes are drawn at equal height
    result = []
    for index in range(len(growth.moves)):
        with style.figure(height * sum(widths), height + 0.3) as drawn:
            axes = drawn.subplots(1, 3, width_ratios=widths)
            for axis, fixed in zip(axes, range(3), strict=True):
                _draw(axis, growth, index, fixed, size)
                axis.set_title(f"{'zyx'[fixed]} = {growth.seed[fixed]}")
            wide, high = growth.image.shape[2], growth.image.shape[1]
            style.scale_bar(axes[0], wide, high, float(size[2]) if voxel_size_nm else None)
            voxels = int((np.nan_to_num(growth.probability[index], nan=0.0) >= 0.5).sum())
            caption = f"{count_of(int(growth.moves[index]), 'move')}, {voxels:,} voxels at probability 0.5 or more"
            result.append((caption, style.data_uri(drawn, "png", dpi=100)))
    return result


def _draw(axis: Axes, growth: Snapshots, index: int, fixed: int, size: Sequence[float]) -> None:
    """Draw one plane through the seed: image in grey, mask in colour with its outline, visited region and seed."""
    plane = tuple(growth.seed[fixed] if i == fixed else slice(None) for i in range(3))
    rows, columns = (i for i in range(3) if i != fixed)
    picture = drawing.grey(growth.image[plane], growth.image)
    probability = growth.probability[index][plane]
    visited = ~np.isnan(probability)
    filled = np.nan_to_num(probability, nan=0.0)
    picture[visited] = (1.0 - _VISITED) * picture[visited] + _VISITED * np.array([1.0, 0.9, 0.4])
    alpha = 0.62 * np.clip((filled - 0.3) / 0.7, 0.0, 1.0)[..., None]
    picture = (1.0 - alpha) * picture + alpha * np.array([0.0, 0.60, 0.86])
    drawing.show(axis, picture, float(size[rows]) / float(size[columns]))
    for colour, width in (("black", 2.6), ("white", 1.2)):
        axis.plot(growth.seed[columns], growth.seed[rows], "+", mec=colour, ms=9.0, mew=width)
    if visited.any() and filled.max() >= 0.5 > filled.min():
        axis.contour(filled, levels=[0.5], colors=[style.SERIES[1]], linewidths=1.0)
