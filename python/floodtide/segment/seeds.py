# SPDX-License-Identifier: Apache-2.0
"""Seeds from files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import reading
from floodtide.errors import InvalidFileError
from floodtide.segment.ffn_origins import read_reversed_seeds


def read_seeds(path: str) -> NDArray[np.int64]:
    """Return the seeds (n, 3) in a file: z, y, x in each line of a text; or the seeds of an earlier segmentation.

    Args:
        path: A text file; or an HDF5 file that `floodtide segment` has written, or a file seg-X_Y_Z.npz of google/ffn,
            whose seeds are taken in reverse order, as in PolicyInvertOrigins.

    Raises:
        InvalidFileError: If the file is missing or holds something else.
    """
    if path.lower().endswith(".npz"):
        return read_reversed_seeds(path)
    if path.lower().endswith((".h5", ".hdf5")):
        return np.ascontiguousarray(_core.segment.read_seeds(path)[::-1])
    rows = []
    for number, line in enumerate(reading.read_text(path, "z, y, x in each line").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 3 or not all(word.isdecimal() and len(word) <= 13 for word in words):
            raise InvalidFileError(f"{path}, line {number}: expected z, y, x, three whole numbers")
        rows.append([int(word) for word in words])
    return np.array(rows, np.int64).reshape(-1, 3)
