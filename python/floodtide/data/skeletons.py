# SPDX-License-Identifier: Apache-2.0
"""Skeletons: the centre lines of objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Skeleton:
    """The centre lines of an object.

    Attributes:
        id: The object.
        nodes: Positions (n, 3) of z, y, x, in voxels of the labels.
        edges: Pairs (m, 2) of nodes that are connected.
    """

    id: int
    nodes: NDArray[np.float64]
    edges: NDArray[np.int64]
