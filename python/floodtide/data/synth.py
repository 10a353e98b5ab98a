# SPDX-License-Identifier: Apache-2.0
"""Synthetic electron-microscopy volumes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.data.boxes import Progress, Vec3

_SYNTH = Arguments(shape=limits.SYNTH_EXTENT, seed=limits.SEED)


def synth(
    shape: Vec3, *, seed: int = 0, progress: Progress | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return a synthetic electron-microscopy volume: (image, labels), both of `shape` (z, y, x) in voxels.

    Curved, branching processes of 8 to 30 voxels across are packed densely; membranes are dark, of
    uneven width and contrast; there are mitochondria, vesicles, noise and sections of uneven
    brightness. Ids count from 1; membranes are 0. Same arguments, same volume.

    Raises:
        InvalidArgumentError: If an extent is below 8 or above 4096.
    """
    _SYNTH.check("synth", shape=shape, seed=seed)
    return _core.data.synth(shape, seed, progress)
