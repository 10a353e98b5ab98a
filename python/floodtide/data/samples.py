# SPDX-License-Identifier: Apache-2.0
"""Sources of training examples: what they have in common, and the examples of flood-filling networks."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.data_options import Augmentation, DataOptions, TrainingVolume
from floodtide.base.options import FLOOD, typed
from floodtide.base.pickling import NotPickled
from floodtide.data.boxes import Vec3, as_vec3
from floodtide.data.volumes import as_volume, require_same_grid, require_same_shape, sources_of

Image = NDArray[np.float32]

SOFTNESS = 0.05
"""Distance of the examples' soft labels from 0 and 1; google/ffn has the same."""
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
        flat: True if examples are single sections, which may lie at any distance.
    """

    examples: str
    core: Any
    patch_size: Vec3
    flat = False
    not_pickled = "the core reads its volumes ahead; expected a new one in each process"

    def __init__(
        self,
        volumes: Any,
        options: DataOptions | None,
        augmentation: Augmentation | None,
        walkers: int,
        seed: int,
    ) -> None:
        self.options = (options or DataOptions()).of(volumes, self.examples)
        self.augmentation = augmentation or Augmentation()
        self.walkers = walkers
        self.seed = seed

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


class Shards(Samples):
    """Training examples of flood-filling networks, sharded over walkers and balanced over partition classes.

    In every epoch all walkers together see every element once. Each class is shuffled and dealt out to the walkers,
    so that their numbers of examples of a class differ by at most one. The next epoch deals them out anew. Examples
    are pure functions of the arguments: they do not depend on the number of ranks.

    Args:
        volumes: A labelled volume with its partitions, or several. Patches lie wholly inside of its box.
        options: How the examples are read ahead.
        augmentation: Random changes of training examples; None: the defaults. Where a rotated patch leaves the box, it
            shows the nearest voxel of the box.
        patch_size: Odd sizes (z, y, x) of a patch in voxels; `FFN.patch_size` for training.
        walkers: Streams of examples over all ranks: the global batch of a training step.
        seed: Chooses order and augmentation.
        softness: Soft labels are 1 - softness inside the object and softness outside.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        ShapeError: If the volumes differ in shape.
        InvalidArgumentError: If no patch fits, or there are more walkers than examples.
    """

    examples = FLOOD
    core: _core.data.ExampleSource

    @typed()
    def __init__(
        self,
        volumes: TrainingVolume | Sequence[TrainingVolume],
        options: DataOptions | None = None,
        augmentation: Augmentation | None = None,
        *,
        patch_size: Vec3,
        walkers: int = 1,
        seed: int = 0,
        softness: float = SOFTNESS,
    ) -> None:
        limits.PATCH.check(patch_size, "Shards: patch_size")
        limits.WALKERS.check(walkers, "Shards: walkers")
        limits.SEED.check(seed, "Shards: seed")
        limits.SOFTNESS.check(softness, "Shards: softness")
        super().__init__(volumes, options, augmentation, walkers, seed)
        self.patch_size = as_vec3(patch_size)
        self.softness = softness
        self.core = _core.data.ExampleSource(
            [source for volume in self.options.volumes for source in sources_of(volume)],
            _core.data.ExampleOptions(
                patch_size=self.patch_size,
                seed=seed,
                walkers=walkers,
                augmentation=core_augmentation(self.augmentation),
                softness=softness,
            ),
            progress=None,
        )

    def __len__(self) -> int:
        """Return the number of examples of an epoch, over all walkers."""
        return self.core.examples

    @typed()
    def load(
        self, walker: int, index: int, *, epoch: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return an augmented example: normalised image and soft labels, float32 arrays of `patch_size`."""
        return self.core.load(walker, epoch, index)

    def seen(self, number: int) -> Seen:
        image, labels = self.load(0, number)
        return Seen(image, (labels > 0.5).astype(np.uint8), np.ones(image.shape, np.bool_))

    @staticmethod
    def require_fitting(volume: TrainingVolume) -> None:
        if volume.labels:
            image, labels = as_volume(volume.image), as_volume(volume.labels)
            require_same_shape(image, labels)
            require_same_grid(f"volume '{volume.name}'", labels, image)
