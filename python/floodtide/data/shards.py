# SPDX-License-Identifier: Apache-2.0
"""The training examples of every walker of a flood-filling network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.data.boxes import Box, Vec3

SOFTNESS = 0.05
"""How far the probabilities of examples' labels stay from 0 and 1, as google/ffn's do."""
_SHARDS = Arguments(
    patch_size=limits.PATCH,
    walkers=limits.WALKERS,
    seed=limits.SEED,
    box=limits.EXTENT,
    mean=limits.INTENSITY,
    std=limits.DEVIATION,
    permutable_axes=limits.AXIS,
    reflectable_axes=limits.AXIS,
)


class Shards:
    """The training examples of every walker: balanced over partitions, in a seeded order an epoch.

    In every epoch all walkers together see every element once. Every class is shuffled and dealt out among them, so
    that they have equally many examples of each, give or take one, and other ones in the next epoch. Examples are
    pure functions of the arguments.

    Args:
        image: Image volume, "file:dataset".
        labels: Its integer labels.
        partitions: Its partitions, made by `partition`.
        patch_size: Odd sizes (z, y, x) of a patch.
        walkers: Streams of examples.
        seed: Chooses order and augmentation.
        box: Patches lie wholly inside; None for the whole volume.
        mean: Intensities become (image - mean) / std.
        std: See mean.
        permutable_axes: Axes (0 is z) that augmentation permutes; equal patch sizes.
        reflectable_axes: Axes that augmentation reverses or not.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        ShapeError: If the volumes differ in shape.
        InvalidArgumentError: If no patch fits, or there are more walkers than examples.
    """

    def __init__(
        self,
        image: str,
        labels: str,
        partitions: str,
        *,
        patch_size: Vec3,
        walkers: int = 1,
        seed: int = 0,
        box: Box | None = None,
        mean: float = 128.0,
        std: float = 33.0,
        permutable_axes: Sequence[int] = (1, 2),
        reflectable_axes: Sequence[int] = (0, 1, 2),
    ) -> None:
        _SHARDS.check(
            "Shards",
            patch_size=patch_size,
            walkers=walkers,
            seed=seed,
            box=box,
            mean=mean,
            std=std,
            permutable_axes=permutable_axes,
            reflectable_axes=reflectable_axes,
        )
        volume = ("volume", image, labels, partitions, box, mean, std)
        axes = (list(permutable_axes), list(reflectable_axes))
        self._source = _core.data.ExampleSource(
            [volume], patch_size, seed, walkers, *axes, SOFTNESS, None, None
        )
        self.walkers = walkers

    def __len__(self) -> int:
        """Elements of an epoch over all walkers."""
        return self._source.examples

    def per_walker(self, walker: int) -> int:
        """Examples of one walker in every epoch."""
        return self._source.per_walker(walker)

    def imbalance(self, moves: int = 27) -> float:
        """How many more fields of view than the mean the walker with most has in an epoch, as a share of the mean.

        Expected ones: an example takes 1 in the lowest class, `moves` in the highest, evenly between.
        """
        imbalance = self._source.imbalance(moves)
        assert imbalance is not None  # only a source of given coordinates has none
        return imbalance

    def centre(self, walker: int, index: int, *, epoch: int = 0) -> Vec3:
        """Where an example is cut out: its middle voxel (z, y, x)."""
        z, y, x = self._source.centre(walker, epoch, index)[1]
        return z, y, x

    def load(
        self, walker: int, index: int, *, epoch: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """An example, augmented: normalised image, soft labels (0.95 inside the object, 0.05)."""
        image, labels = self._source.load(walker, epoch, index)
        return image, labels
