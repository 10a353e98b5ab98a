# SPDX-License-Identifier: Apache-2.0
"""Dice of class masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.errors import InvalidArgumentError, ShapeError
from floodtide.evaluate.voxels import Labels

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


def dice_of_table(table: _core.evaluate.ContingencyTable, classes: int) -> list[dict[str, float]]:
    """Return the Dice score of each class from 1 on, from the voxels of each pair (predicted class, true class).

    Args:
        table: Of two volumes of classes, from `count_volumes` or `count_on_ranks`. Class 0 is the background.
        classes: Number of classes, the background included.

    Returns:
        For each class: `class`, `dice` (NaN if the class is neither predicted nor true), `dice_everything`, the score
        of predicting this class everywhere, `true_voxels` and `predicted_voxels`.

    Raises:
        InvalidArgumentError: If a voxel holds a number that is not a class.
    """
    rows = table.rows()
    predicted, true, counts = (rows[:, i].astype(np.int64) for i in range(3))
    highest = int(max(predicted.max(initial=0), true.max(initial=0)))
    if highest >= classes:
        raise InvalidArgumentError(
            f"a voxel holds {highest}, expected classes from 0 to {classes - 1}"
        )
    found = []
    for number in range(1, classes):
        p, t = (int(counts[column == number].sum()) for column in (predicted, true))
        both = int(counts[(predicted == number) & (true == number)].sum())
        found.append(
            {
                "class": number,
                "dice": 2 * both / (p + t) if p + t else float("nan"),
                "dice_everything": 2 * t / (t + int(counts.sum())) if len(counts) else float("nan"),
                "true_voxels": t,
                "predicted_voxels": p,
            }
        )
    return found
