# SPDX-License-Identifier: Apache-2.0
"""Skeletons: the centre lines of objects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Skeleton(NamedTuple):
    """The centre lines of an object."""

    id: int  # the object
    nodes: NDArray[np.float64]  # positions (n, 3) of z, y, x, in voxels of the labels
    edges: NDArray[np.int64]  # pairs (m, 2) of nodes that are connected
