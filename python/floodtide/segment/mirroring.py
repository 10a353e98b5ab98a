# SPDX-License-Identifier: Apache-2.0
"""The mean prediction over an image and its mirror images.

A network that was trained on mirrored examples gives slightly different answers for an image and for its mirror image.
Their mean has fewer mistakes than one answer. Isensee et al., nnU-Net (Nature Methods 18, 203-211, 2021), predict in
this way. Affinities need care, because mirroring turns their offsets around: the mirrored network says at voxel
q + offset what the plain one says at voxel q.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from floodtide.data import Vec3

Values = NDArray[np.float32]


def mirrored_mean(
    forward: Callable[[Values], Values],
    image: Values,
    axes: Sequence[int],
    offsets: Sequence[Vec3] | None,
) -> Values:
    """Return the mean of the outputs for an image and for its copies mirrored along all subsets of `axes`.

    Args:
        forward: Returns the outputs (z, y, x, outputs) of an image.
        image: float32 (z, y, x, channels).
        axes: Axes to mirror, 0 for z to 2 for x.
        offsets: Offsets (z, y, x) of the outputs that are affinities, the first ones; further outputs are those of the
            image itself. None: no output depends on directions.

    Returns:
        float32 (z, y, x, outputs). An affinity is the mean over the copies in which the network predicts the same
        pair of voxels: all of them for an offset along one axis, unless one of the two voxels is outside of the image.
    """
    subsets = [chosen for n in range(len(axes) + 1) for chosen in itertools.combinations(axes, n)]
    total = np.array(forward(image))
    counts = np.ones_like(total)
    for chosen in subsets[1:]:
        outputs = np.flip(forward(np.ascontiguousarray(np.flip(image, chosen))), chosen)
        if offsets is None:
            total += outputs
            counts += 1.0
            continue
        for channel, offset in enumerate(offsets):  # some copies have no affinities of its pairs
            seen = tuple(-step if axis in chosen else step for axis, step in enumerate(offset))
            turned = tuple(-step for step in seen)
            if seen in offsets:  # the same pairs, stored at the same voxels
                total[..., channel] += outputs[..., offsets.index(seen)]
                counts[..., channel] += 1.0
            elif turned in offsets:  # the pair of q and q + offset is stored at q + offset
                here, there = _pairs(total.shape[:3], offset)
                total[..., channel][here] += outputs[..., offsets.index(turned)][there]
                counts[..., channel][here] += 1.0
    return total / counts


def _pairs(shape: Sequence[int], offset: Vec3) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return where the first and the second voxels of all pairs of an offset are that lie inside of an image."""
    extents = list(zip(shape, offset, strict=True))
    first = tuple(slice(max(0, -step), min(n, n - step)) for n, step in extents)
    second = tuple(slice(max(0, step), min(n, n + step)) for n, step in extents)
    return first, second
