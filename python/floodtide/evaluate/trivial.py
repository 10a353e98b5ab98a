# SPDX-License-Identifier: Apache-2.0
"""Trivial answers: scores that a segmentation must beat before its own score means anything.

Two answers need no training. The first puts all voxels into one object. The second takes the connected pieces of a
smoothed image on one side of a grey level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.data.boxes import as_vec3, middle, slices
from floodtide.evaluate.voxels import ContingencyTable, Labels, scores

ONE_OBJECT = "everything one object"
GREY_LEVEL = "best grey level"

ERROR = "all_adapted_rand_error"
"""The score that decides: the adapted Rand error over all voxels, unsegmented voxels as one segment."""

_SHARES = tuple(range(10, 95, 5))  # percentiles of the image that are tried as levels
_MOST = 1 << 20  # voxels on which the level is chosen
MIN_VOXELS = 200
"""Smaller pieces are left out."""


class GreyLevel(NamedTuple):
    """A grey level, and the side of it that is object."""

    level: float
    above: bool


class Verdict(NamedTuple):
    """How a score compares with the best trivial score; not `sure` if the 95 % interval of the score reaches that."""

    better: bool
    text: str
    sure: bool = True


def one_object(table: _core.evaluate.ContingencyTable) -> dict[str, float]:
    """Return the scores of the answer that puts all voxels of a table into one object."""
    rows = table.rows()
    rows[:, 0] = 1
    whole = ContingencyTable()
    whole.add_rows(rows)
    return whole.scores()


def of_grey_level(
    image: NDArray[Any], truth: Labels
) -> tuple[GreyLevel, dict[str, float], NDArray[np.int32]]:
    """Return the best grey level, the scores of its pieces, and the pieces.

    The best level has pieces with the lowest error over all voxels. 17 percentiles of the image are tried, with the
    pieces above and below each. If the image has more than a million voxels, the level is chosen on the middle of the
    box.

    Args:
        image: Intensities (z, y, x).
        truth: Object ids (z, y, x). Voxels with values <= 0 are ignored.
    """
    factor = min(1.0, (_MOST / max(image.size, 1)) ** (1 / 3))
    extents = [max(1, int(n * factor)) for n in image.shape]
    part = slices(middle(((0, 0, 0), as_vec3(image.shape)), extents))
    smooth, known = smoothed(image[part]), np.ascontiguousarray(truth[part])
    levels = sorted(set(np.percentile(smooth, _SHARES).tolist()))
    tried = [GreyLevel(level, above) for level in levels for above in (True, False)]

    def error(level: GreyLevel) -> float:
        found = scores(pieces(smooth, level), known)[ERROR]
        return math.inf if math.isnan(found) else found

    best = min(tried, key=error)
    found = pieces(smoothed(image), best)
    return best, scores(found, truth), found


def pieces(smooth: NDArray[Any], level: GreyLevel) -> NDArray[np.int32]:
    """Return the connected components of an image on one side of a grey level, int32 ids (z, y, x) from 1.

    Components of fewer than 200 voxels are left out.
    """
    mask = smooth > level.level if level.above else smooth < level.level
    found: NDArray[np.int32] = _core.segment.connected_components(mask.astype(np.uint8), MIN_VOXELS)
    return found


def smoothed(image: NDArray[Any]) -> NDArray[np.float32]:
    """Return the image (z, y, x) convolved with the weights 1 2 1 (divided by 4) along each axis.

    Voxels that are not finite count as 0.
    """
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite
        finite = np.nan_to_num(image.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    sums: NDArray[np.float32] = np.pad(finite, 1, mode="edge")
    sums = sums[:-2] + 2 * sums[1:-1] + sums[2:]
    sums = sums[:, :-2] + 2 * sums[:, 1:-1] + sums[:, 2:]
    sums = sums[..., :-2] + 2 * sums[..., 1:-1] + sums[..., 2:]
    sums /= 64
    return sums


def verdict(
    own: Mapping[str, Any],
    answers: Mapping[str, Mapping[str, Any]],
    interval: tuple[float, float] | None = None,
) -> Verdict | None:
    """Compare the error over all voxels with the lowest error of the trivial answers.

    Args:
        own: Scores of a segmentation, as `scores` returns them.
        answers: {name: scores} of the trivial answers.
        interval: 95 % interval of the segmentation's error, if it is known.

    Returns:
        The verdict in one sentence, or None if an error is unknown.
    """
    errors = {name: row[ERROR] for name, row in answers.items() if is_number(row.get(ERROR))}
    error, covered = own.get(ERROR), own.get("coverage")
    if not errors or not is_number(error):
        return None
    name = min(errors, key=lambda key: errors[key])
    covering = f" at coverage {covered:.2f}" if is_number(covered) else ""
    sentence = (
        f"over all voxels, the segmentation has an adapted Rand error of {error:.3f}{covering},"
        f" the best trivial answer ({name}) {errors[name]:.3f}"
    )
    sure = interval is None or not error < errors[name] <= interval[1]
    if interval is not None and not sure:
        ends = f"{interval[0]:.3f} to {interval[1]:.3f}"
        sentence += f"; the 95 % interval of the error, {ends}, reaches it: too few objects"
    return judged(errors[name] - error, sentence, sure=sure)


def judged(gain: float, sentence: str, *, sure: bool = True) -> Verdict:
    """Return the verdict for a score that is better than the best trivial score by `gain`."""
    if gain > 0:
        better = "Better" if sure else "Perhaps better"
        return Verdict(True, f"{better} than trivial by {gain:.3f}: {sentence}.", sure)
    return Verdict(False, f"Not yet better than trivial (worse by {abs(gain):.3f}): {sentence}.")


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)
