# SPDX-License-Identifier: Apache-2.0
"""Consensus of two segmentations of the same voxels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.errors import InvalidArgumentError

_CONSENSUS = Arguments(min_size=limits.VOXELS)


def consensus(
    a: NDArray[np.integer[Any]], b: NDArray[np.integer[Any]], *, min_size: int = 1000
) -> NDArray[np.int32]:
    """Return the split consensus of two segmentations: voxels have the same id only if both give them the same id.

    Of the parts into which `b` splits a segment of `a`, the largest keeps its id, the others get new ids. Parts of
    fewer than `min_size` voxels, and voxels without segment in `a`, become 0. Source: google/ffn, consensus.py.

    Args:
        a: Segmentation (z, y, x) of integers; values <= 0 are unsegmented voxels.
        b: Segmentation of the same shape. Its unsegmented voxels count as one segment.
        min_size: Least number of voxels of a part.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If an array does not hold integers of at most 31 bits.
    """
    _CONSENSUS.check("consensus", min_size=min_size)
    labels: NDArray[np.int32] = _core.segment.split_consensus(_int32(a), _int32(b), min_size)
    return labels


def _int32(labels: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    if not np.issubdtype(labels.dtype, np.integer) or labels.max(initial=0) >= 2**31:
        raise InvalidArgumentError(
            f"consensus: a segmentation of {labels.dtype}, expected integers below 2^31"
        )
    return np.ascontiguousarray(np.maximum(labels, 0), dtype=np.int32)
