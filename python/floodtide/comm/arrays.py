# SPDX-License-Identifier: Apache-2.0
"""What collectives ask of NumPy arrays, and how ranks describe them to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.errors import InvalidArgumentError

Array = NDArray[Any]


def words_for(arrays: Sequence[Array]) -> str:
    """Describe arrays for the comparison between ranks: "float32 (2, 3)"."""
    described = ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
    return described if len(arrays) == 1 else f"{len(arrays)} arrays: {described}"


def in_place(call: str, array: object) -> Array:
    """Return the array if a collective can write into it.

    Raises:
        InvalidArgumentError: Otherwise; it says why.
    """
    if not isinstance(array, np.ndarray):
        problem = f"got {type(array).__name__}"
    elif not array.flags.writeable:
        problem = "got a read-only one"
    elif not array.flags.c_contiguous:
        problem = "got one that is not C-contiguous"
    else:
        return array
    raise InvalidArgumentError(
        f"{call}: expected a writable C-contiguous NumPy array to change in place, {problem}"
    )
