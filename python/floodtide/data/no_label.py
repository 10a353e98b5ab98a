# SPDX-License-Identifier: Apache-2.0
"""Voxels without a label. floodtide writes 0 for them; other programs also write the values here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes

LARGEST = (2**32 - 1, 2**64 - 1, 2**64 - 2, 2**64 - 3)
"""Values besides 0 and negative numbers that stand for no label: -1 of 32 bits, and -1 to -3 of 64 bits, without sign.

Paintera calls the last three transparent, invalid and outside.
"""


_MOST_NAMED = 4  # values of a block that a note names


def may_spell(dtype: np.dtype[Any]) -> bool:
    """Return True if a type can hold a value besides 0 that stands for no label."""
    return dtype.kind in "if" or (dtype.kind == "u" and dtype.itemsize >= 4)


def missing(labels: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return where labels have a value besides 0 that stands for no label; None if they have none."""
    if labels.size == 0 or not may_spell(labels.dtype):
        return None
    lowest, highest = labels.min(), labels.max()
    if lowest >= 0 and highest < LARGEST[0]:
        return None
    none = labels < 0
    for value in LARGEST:
        if value <= highest and int(labels.dtype.type(value)) == value:
            none |= labels == labels.dtype.type(value)
    return none if none.any() else None


def cleared(labels: NDArray[Any], name: str = "", unlabelled: int | None = None) -> NDArray[Any]:
    """Return labels in which voxels without a label are 0. The same array if they are already.

    Args:
        labels: Labels of any type.
        name: The volume, for a note about values that are read as 0; "": no note.
        unlabelled: A further value of voxels without a label; None: none.
    """
    none = missing(labels)
    if none is not None:
        if name:
            for value in np.unique(labels[none])[:_MOST_NAMED].tolist():
                notes.show(f"{name}: {int(value)} stands for no label")
        labels = np.where(none, labels.dtype.type(0), labels)
    if unlabelled is None:
        return labels
    return np.where(labels == unlabelled, labels.dtype.type(0), labels)
