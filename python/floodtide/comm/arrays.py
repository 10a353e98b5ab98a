# SPDX-License-Identifier: Apache-2.0
"""Checks of NumPy arrays before a collective, and descriptions of arrays that ranks compare."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.errors import InvalidArgumentError

Array = NDArray[Any]


@functools.lru_cache(maxsize=64)
def name_of_type(dtype: np.dtype[Any]) -> str:
    """Return NumPy's name of a type, such as "float32". Other byte orders have names such as ">f4".

    NumPy takes some microseconds for a name, which is long beside a small collective.
    """
    return str(dtype)


def words_for(arrays: Sequence[Array]) -> str:
    """Return a description of arrays that ranks compare, such as "float32 (2, 3)"."""
    described = [f"{name_of_type(array.dtype)} {array.shape}" for array in arrays]
    return described[0] if len(arrays) == 1 else f"{len(arrays)} arrays: {', '.join(described)}"


def in_place(call: str, array: object) -> Array:
    """Return the array if a collective can change it in place.

    Raises:
        InvalidArgumentError: If the value is not an array, is read-only, or is not C-contiguous.
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
