# SPDX-License-Identifier: Apache-2.0
"""What sources of training examples have in common."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.data_options import Augmentation, DataOptions, TrainingVolume
from floodtide.base.pickling import NotPickled
from floodtide.data.boxes import Vec3

Image = NDArray[np.float32]

_BAD = ("missing_section", "dark_section", "defocused_section", "shifted_section")


class Seen(NamedTuple):
    """What a network sees of an example, and learns from it.

    Attributes:
        image: Normalised intensities (z, y, x) of the first channel.
        truth: Labels (z, y, x), or targets (z, y, x, outputs).
        known: True where the truth counts, of its shape.
    """

    image: Image
    truth: NDArray[Any]
    known: NDArray[np.bool_]


class Samples(NotPickled, ABC):
    """Training examples of labelled volumes: base of `Shards` and `Patches`.

    Attributes:
        examples: What they are: FLOOD or PATCHES.
        core: The source of the compiled core, which also tells which walker gets which example.
        options: What the examples are made of.
        augmentation: Their random changes.
        patch_size: Size (z, y, x) of an example in voxels.
    """

    examples: str
    core: Any
    patch_size: Vec3
    not_pickled = "the core reads its volumes ahead; expected a new one in each process"

    def __init__(
        self,
        volumes: Any,
        options: DataOptions | None,
        augmentation: Augmentation | None,
        walkers: int,
        seed: int,
    ) -> None:
        self.options = (options or DataOptions()).of(volumes)
        self.options.require_meaning(self.examples)
        self.augmentation = augmentation or Augmentation()
        self.walkers = walkers
        self.seed = seed

    @property
    def flat(self) -> bool:
        """True if examples are single sections, which may lie at any distance."""
        return False

    @abstractmethod
    def seen(self, number: int) -> Seen:
        """Return an augmented example of the first walker in the first epoch."""

    @staticmethod
    @abstractmethod
    def require_fitting(volume: TrainingVolume) -> None:
        """Raise an error unless image and labels of a volume fit each other as these examples need it."""


def core_augmentation(augmentation: Augmentation) -> _core.data.Augmentation:
    """Return the augmentation of the core."""
    given = dataclasses.asdict(augmentation)
    bad = given.pop("bad_sections") / len(_BAD)
    return _core.data.Augmentation(**given, **dict.fromkeys(_BAD, bad))
