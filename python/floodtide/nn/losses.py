# SPDX-License-Identifier: Apache-2.0
"""Losses of U-Nets: soft Dice, cross-entropy, focal loss, or sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from floodtide import _core
from floodtide.base import limits
from floodtide.errors import InvalidArgumentError

Labels = npt.NDArray[np.uint8]
Sum = Callable[[list[float]], list[float]]


@dataclass(frozen=True, kw_only=True)
class SegmentationLoss:
    """The loss dice * (1 - soft Dice) + cross_entropy * cross-entropy.

    With `focus`, the cross-entropy of a voxel is multiplied by (1 - probability of its label)^focus (focal loss, Lin et
    al. 2017).

    Attributes:
        dice: Weight of the Dice term, at least 0.
        cross_entropy: Weight of the cross-entropy, at least 0.
        over_batch: True: one soft Dice over all images of all ranks. False: the mean of the soft Dice of each image.
        background: True: class 0 is included in the Dice term (softmax only).
        smooth: Number added to the numerator and the denominator of soft Dice, at least 0.
        focus: Exponent of the focal loss: 0, or at least 1.
    """

    dice: float = 1.0
    cross_entropy: float = 1.0
    over_batch: bool = False
    background: bool = False
    smooth: float = 1.0
    focus: float = 0.0

    @classmethod
    def named(cls, name: str) -> SegmentationLoss:
        """Return a named loss: "dice", "cross_entropy", "focal", "dice+cross_entropy" or "dice+focal".

        Raises:
            InvalidArgumentError: If there is no such name.
        """
        rows = {row["name"]: row for row in _core.loss_rows()}
        if name not in rows:
            raise InvalidArgumentError(f"loss is '{name}', expected one of {', '.join(rows)}")
        return cls(**{field.name: getattr(rows[name]["loss"], field.name) for field in fields(cls)})

    def core(self) -> _core.SegmentationLoss:
        """Return this loss as an object of the core.

        Raises:
            InvalidArgumentError: If a number is out of range.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in own.items():
            if not isinstance(value, bool):
                limits.WEIGHT.check(value, f"SegmentationLoss: {name}")
        return _core.SegmentationLoss(**own)
