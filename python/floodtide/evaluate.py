# SPDX-License-Identifier: Apache-2.0
"""Scores of a segmentation against truth: adapted Rand error, variation of information, coverage.

Voxels whose truth is 0 are left out. Every score exists twice: over the voxels that the
segmentation labels (id > 0), and, with the prefix `all_`, over all voxels with the unsegmented
ones as one segment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core

ContingencyTable = _core.evaluate.ContingencyTable

Labels = NDArray[np.integer[Any]]


def scores(segmentation: Labels, truth: Labels) -> dict[str, float]:
    """Compare two labellings of the same voxels.

    Args:
        segmentation: Integer array (z, y, x) of segment ids; values <= 0 are unsegmented voxels.
        truth: Integer array of the same shape with object ids; values <= 0 are left out.

    Returns:
        By name, for segmented voxels and with the prefix `all_` for all voxels:
        `adapted_rand_error` (0 is perfect), `rand_precision` (mergers lower it), `rand_recall`
        (splits lower it), `voi_split` = H(segmentation | truth) and `voi_merge` =
        H(truth | segmentation) in bits, `voxels`, `segments`, `objects`; and `coverage`, the
        share of voxels that are segmented. Not-a-number where no voxel can be compared.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If an array does not hold integers.
    """
    table = ContingencyTable()
    table.add(np.ascontiguousarray(segmentation), np.ascontiguousarray(truth))
    result: dict[str, float] = table.scores()
    return result


def rand_error(segmentation: Labels, truth: Labels, *, segmented_only: bool = True) -> float:
    """Adapted Rand error, 1 - F-score of voxel pairs: 0 is perfect. See `scores`."""
    prefix = "" if segmented_only else "all_"
    return scores(segmentation, truth)[prefix + "adapted_rand_error"]


def variation_of_information(
    segmentation: Labels, truth: Labels, *, segmented_only: bool = True
) -> tuple[float, float]:
    """Variation of information in bits as (split, merge). See `scores`."""
    prefix = "" if segmented_only else "all_"
    result = scores(segmentation, truth)
    return result[prefix + "voi_split"], result[prefix + "voi_merge"]
