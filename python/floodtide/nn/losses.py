# SPDX-License-Identifier: Apache-2.0
"""Losses of U-Nets: soft Dice, cross-entropy, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.errors import InvalidArgumentError
from floodtide.nn.network import Array

Labels = npt.NDArray[np.uint8]
Sum = Callable[[list[float]], list[float]]
_LOSS = Arguments(dice=limits.WEIGHT, cross_entropy=limits.WEIGHT, smooth=limits.WEIGHT)


def loss_rows() -> list[dict[str, Any]]:
    """Return the named losses: name, help, and the weights of their terms (dice, cross_entropy)."""
    return _core.loss_rows()


@dataclass(frozen=True, kw_only=True)
class SegmentationLoss:
    """The loss dice * (1 - soft Dice) + cross_entropy * cross-entropy.

    Attributes:
        dice: Weight of the Dice term, at least 0.
        cross_entropy: Weight of the cross-entropy, at least 0.
        over_batch: True: one soft Dice over all images of all ranks. False: the mean of the soft Dice of each image.
        background: True: class 0 is included in the Dice term (softmax only).
        smooth: Number added to the numerator and the denominator of soft Dice, at least 0.
    """

    dice: float = 1.0
    cross_entropy: float = 1.0
    over_batch: bool = False
    background: bool = False
    smooth: float = 1.0

    @classmethod
    def named(cls, name: str) -> SegmentationLoss:
        """Return a named loss: "dice", "cross_entropy" or "dice+cross_entropy", with weights of 1.

        Raises:
            InvalidArgumentError: If there is no such name.
        """
        rows = {row["name"]: row for row in loss_rows()}
        if name not in rows:
            raise InvalidArgumentError(f"loss is '{name}', expected one of {', '.join(rows)}")
        return cls(dice=rows[name]["dice"], cross_entropy=rows[name]["cross_entropy"])

    @property
    def name(self) -> str | None:
        """Return the name of the loss with these weights; None if no named loss has them."""
        weights = (self.dice, self.cross_entropy)
        return next(
            (row["name"] for row in loss_rows() if (row["dice"], row["cross_entropy"]) == weights),
            None,
        )

    def core(self) -> _core.SegmentationLoss:
        """Return this loss as an object of the core.

        Raises:
            InvalidArgumentError: If a number is out of range.
        """
        _LOSS.check(
            "SegmentationLoss", dice=self.dice, cross_entropy=self.cross_entropy, smooth=self.smooth
        )
        return _core.SegmentationLoss(
            self.dice, self.cross_entropy, self.over_batch, self.background, self.smooth
        )


def segmentation_loss(
    logits: Array,
    truth: Labels | Array,
    *,
    loss: str | SegmentationLoss = "dice+cross_entropy",
    output: str = "softmax",
    weights: Array | None = None,
    sum_over_ranks: Sum | None = None,
) -> tuple[dict[str, Any], Array, Array]:
    """Return (report, probabilities, gradient with respect to the logits) of a batch.

    Args:
        logits: float32 (n, z, y, x, classes).
        truth: For softmax, class labels, uint8 (n, z, y, x); voxels with label 255 are ignored. For sigmoid, targets
            in [0, 1], float32, with the shape of the logits.
        loss: Name of a loss (see `SegmentationLoss.named`), or a loss.
        output: "softmax" or "sigmoid".
        weights: For sigmoid, a weight for each target, with the shape of the logits; None: all 1.
        sum_over_ranks: Function that takes numbers and returns their sums over all ranks. `over_batch` needs it.

    Raises:
        ShapeError: If shapes do not match.
        InvalidArgumentError: If a label is not a class, or an option is out of range.
    """
    labels, targets = labels_or_targets(output, truth)
    return _core.segmentation_loss(
        loss_of(loss).core(), output, logits, labels, targets, weights, sum_over_ranks
    )


def labels_or_targets(output: str, truth: Labels | Array) -> tuple[Labels | None, Array | None]:
    """Return (labels, None) for softmax and (None, targets) for sigmoid. The core checks the type."""
    if output == "softmax":
        return cast(Labels, truth), None
    return None, cast(Array, truth)


def loss_of(loss: str | SegmentationLoss) -> SegmentationLoss:
    """Return the loss of a name; a loss is returned unchanged."""
    return SegmentationLoss.named(loss) if isinstance(loss, str) else loss
