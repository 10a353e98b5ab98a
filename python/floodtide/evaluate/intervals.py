# SPDX-License-Identifier: Apache-2.0
"""95 % intervals of Rand error and variation of information, by bootstrap over bodies.

Bodies (true objects) are drawn with replacement, each with its row of the contingency table. In its segments, a drawn
body meets the other drawn bodies, but no copy of itself: a copy would look like a merger.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floodtide.evaluate.voxels import ContingencyTable

SAMPLES = 2000
LEAST_BODIES, MOST_PAIRS = 10, 1 << 18
_SHARE = (2.5, 97.5)  # percentiles


def intervals(
    table: ContingencyTable, *, samples: int = SAMPLES, seed: int = 0
) -> dict[str, tuple[float, float]] | None:
    """Return {name: (low, high)} of the adapted Rand error and both parts of VOI over all voxels.

    None: the table has fewer than LEAST_BODIES bodies, or more than MOST_PAIRS pairs of segment and body.
    """
    rows = table.rows()
    rows = rows[rows[:, 1] > 0]
    if len(rows) > MOST_PAIRS or len(np.unique(rows[:, 1])) < LEAST_BODIES:
        return None
    ends = np.percentile(_drawn(rows, samples, seed), _SHARE, axis=0)
    names = ("all_adapted_rand_error", "all_voi_split", "all_voi_merge")
    return {name: (float(low), float(high)) for name, low, high in zip(names, *ends, strict=True)}


def _drawn(rows: NDArray[np.uint64], samples: int, seed: int) -> NDArray[np.float64]:
    """Return Rand error, VOI split and VOI merge of each sample of the bodies in rows (segment, body, voxels)."""
    body = np.unique(rows[:, 1], return_inverse=True)[1]
    _, segment, parts = np.unique(rows[:, 0], return_inverse=True, return_counts=True)
    n = rows[:, 2].astype(np.float64)
    size, bodies = np.bincount(body, n), int(body.max()) + 1
    common = np.bincount(body, n * (n - 1))  # pairs of voxels in one body and one segment
    split = size * np.log2(size) - np.bincount(body, n * np.log2(n))
    linear = np.stack([size, common, size * (size - 1), split])
    # Only in segments with several bodies, a drawn body meets others.
    shared = parts[segment] > 1
    body, n, segment = body[shared], n[shared], np.unique(segment[shared], return_inverse=True)[1]
    bits = np.log2(n)
    random = np.random.default_rng(seed)
    found = np.empty((samples, 3))
    for row in found:
        times = np.bincount(random.integers(0, bodies, bodies), minlength=bodies).astype(float)
        voxels, pairs, in_bodies, split_bits = linear @ times
        weight = times[body] * n
        # Voxels that one copy meets in its segment, besides its own.
        others = np.bincount(segment, weight)[segment] - weight
        merge_bits = weight @ (np.log2((others + n).astype(np.float32)) - bits)
        whole = in_bodies + pairs + weight @ others
        error = 1 - 2 * pairs / whole if whole else 0.0  # without a pair of voxels, as the core
        row[:] = error, split_bits / voxels, merge_bits / voxels
    np.maximum(found, 0, out=found)  # rounding leaves numbers just below 0
    return found
