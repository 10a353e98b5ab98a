# SPDX-License-Identifier: Apache-2.0
"""Slices with class masks, the training samples of two-dimensional U-Nets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from floodtide import _core
from floodtide.base import limits, notes
from floodtide.base.data_options import SLICES, Augmentation, DataOptions, Stack
from floodtide.base.options import Arguments
from floodtide.data.samples import Classes, Image, Samples
from floodtide.data.volumes import as_volume, none_of, opened, require_same_size

_SLICES = Arguments(classes=limits.MASK_CLASSES, share=limits.SHARE, seed=limits.SEED)

UNLABELLED = 255
"""Class of pixels without a label in masks: they count neither in the loss nor in the scores."""


class Split(NamedTuple):
    """A part of the patients. All slices of a patient are in one part.

    Attributes:
        part: "all", "training" or "validation".
        share: Share of the patients that "validation" takes.
        seed: Chooses these patients.
    """

    part: str = "all"
    share: float = 0.0
    seed: int = 0


ALL = Split()


class Slices(Samples):
    """Slices with class masks.

    Args:
        stacks: A stack of slices, or several.
        options: Size and normalisation of the slices, and how they are read ahead.
        augmentation: Random changes of training slices.
        classes: Masks hold 0 to classes - 1.
        split: The part of the patients whose slices these are.
        walkers: Streams of slices over all ranks.
        batch: Slices that a walker takes in a step.
        seed: Chooses order and augmentation.

    Raises:
        InvalidFileError: If a dataset cannot be read or is of a wrong type.
        ShapeError: If datasets do not fit each other, or state different voxel sizes.
        InvalidArgumentError: For a number out of range, a part without patients, or a step that
            takes more slices than there are.
    """

    core: _core.data.SliceSource

    def __init__(
        self,
        stacks: Stack | Sequence[Stack],
        options: DataOptions | None = None,
        augmentation: Augmentation | None = None,
        *,
        classes: int = 2,
        split: Split = ALL,
        walkers: int = 1,
        batch: int = 1,
        seed: int = 0,
    ) -> None:
        options = (options or DataOptions()).of_kind(SLICES, stacks)
        super().__init__(options, walkers, batch, seed)
        _SLICES.check("Slices", classes=classes)
        _SLICES.check("Slices: split", share=split.share, seed=split.seed)
        self.augmentation = augmentation or Augmentation()
        self.classes = classes
        self.split = split
        for stack in options.slices:
            image, mask = as_volume(stack.images), as_volume(stack.masks)
            require_same_size("slices", image, mask)
            if (none := none_of(mask)) is not None:
                notes.show(f"{mask.name}: pixels of class {none} do not count")
        self.core = _core.data.SliceSource(
            [
                _core.data.SliceStack(
                    images=opened(stack.images), masks=opened(stack.masks), patients=stack.patients
                )
                for stack in options.slices
            ],
            size=options.size,
            classes=classes,
            mean=options.mean,
            std=options.std,
            outside=options.outside,
            part=split.part,
            validation_share=split.share,
            split_seed=split.seed,
            augmentation=_core.data.SliceAugmentation(**dataclasses.asdict(self.augmentation)),
            walkers=walkers,
            batch=batch,
            seed=seed,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Size (y, x) in pixels of every slice."""
        _, y, x = self.core.shape
        return y, x

    @property
    def patients(self) -> list[str]:
        """Names of the patients of this part: their numbers, or the stack if it has no patient numbers."""
        return self.core.groups

    def load(self, walker: int, index: int, *, epoch: int = 0) -> tuple[Image, Classes]:
        """Return an augmented training slice (y, x), float32, with its mask, uint8; UNLABELLED: no label.

        Raises:
            InvalidFileError: If the mask has an unexpected class; names slice and value.
        """
        _, image, classes = self.core.load(walker, epoch, index)
        return image[0, :, :, 0], classes[0]

    def fixed(self, number: int) -> tuple[str, Image, Classes]:
        """Return a slice without augmentation: name of the patient, normalised image (y, x), mask (y, x)."""
        group, image, classes = self.core.fixed(number)
        return self.patients[group], image[0, :, :, 0], classes[0]
