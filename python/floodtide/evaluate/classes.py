# SPDX-License-Identifier: Apache-2.0
"""Dice of class masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.errors import ShapeError

Labels = NDArray[np.integer[Any]]

DiceCounts = _core.evaluate.DiceCounts


def dice(
    predicted: Labels,
    truth: Labels,
    *,
    patients: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    classes: int = 2,
) -> dict[str, Any]:
    """Return Dice scores of class masks, 2 |P and T| / (|P| + |T|), from exact counts of pixels.

    Args:
        predicted: Predicted classes, uint8 (n, y, x), below `classes`.
        truth: True classes, uint8, of the same shape.
        patients: Patient number of each slice; None: all slices are of one patient.
        classes: Number of classes.

    Returns:
        `pooled`: the score of each class over all pixels. `patients`: {patient: scores of all classes}.
        `patient_mean`: the mean of each class over the patients that have a score. A score is None if
        the class is neither predicted nor true.

    Raises:
        ShapeError: If the shapes differ, or the number of patients is not the number of slices.
        InvalidArgumentError: If an array is not uint8, or contains a value that is not a class.
    """
    owners = [0] * len(truth) if patients is None else [int(patient) for patient in patients]
    if len(owners) != len(truth) or predicted.shape != truth.shape:
        raise ShapeError(
            f"dice: predicted classes have shape {predicted.shape}, the true ones {truth.shape},"
            f" for {len(owners)} patients; expected equal shapes and a patient for each slice"
        )
    names = sorted(set(owners))
    counts = DiceCounts(len(names), classes)
    for owner, a, b in zip(owners, predicted, truth, strict=True):
        counts.add(names.index(owner), np.ascontiguousarray(a[None]), np.ascontiguousarray(b[None]))
    return {
        "pooled": [counts.pooled(c) for c in range(classes)],
        "patient_mean": [counts.mean_over_groups(c) for c in range(classes)],
        "patients": {
            name: [counts.group(i, c) for c in range(classes)] for i, name in enumerate(names)
        },
    }
