# SPDX-License-Identifier: Apache-2.0
"""Training examples of flood-filling networks, sharded over walkers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.base.pickling import NotPickled
from floodtide.data.boxes import Box, Vec3, as_vec3
from floodtide.data.training_volume import TrainingVolume, source_of, volumes_of
from floodtide.data.volumes import VolumeLike

SOFTNESS = 0.05
"""Distance of the examples' soft labels from 0 and 1; google/ffn has the same."""
_SHARDS = Arguments(
    patch_size=limits.PATCH,
    walkers=limits.WALKERS,
    seed=limits.SEED,
    box=limits.EXTENT,
    mean=limits.INTENSITY,
    std=limits.DEVIATION,
    permutable_axes=limits.AXIS,
    reflectable_axes=limits.AXIS,
    softness=limits.SOFTNESS,
    prefetch=limits.PREFETCH,
    readers=limits.READERS,
)


class Shards(NotPickled):
    """Training examples of flood-filling networks, sharded over walkers and balanced over partition classes.

    In every epoch all walkers together see every element once. Each class is shuffled and dealt out to the walkers,
    so that their numbers of examples of a class differ by at most one. The next epoch deals them out anew. Examples
    are pure functions of the arguments: they do not depend on the number of ranks.

    Args:
        volumes: The image volume, its name or a `Volume`; or one `TrainingVolume` or several.
        labels: Integer labels of the image, if `volumes` is an image.
        partitions: Partitions of the labels, made by `partition`, if `volumes` is an image.
        patch_size: Odd sizes (z, y, x) of a patch in voxels; `FFN.patch_size` for training.
        walkers: Streams of examples over all ranks: the global batch of a training step.
        seed: Chooses order and augmentation.
        box: Patches lie wholly inside it; None for the whole volume. If `volumes` is an image.
        mean: Intensities become (image - mean) / std. If `volumes` is an image.
        std: See mean.
        permutable_axes: Axes (0 is z) that augmentation permutes; their patch sizes must be equal.
        reflectable_axes: Axes that augmentation reverses at random.
        softness: Soft labels are 1 - softness inside the object and softness outside.
        coordinates: File of `coordinates` to take examples from. Empty: draw them from the partitions.
        prefetch: Examples that each walker of a trainer has ready in advance; 0: read inside the step.
        readers: Threads of each rank that read ahead for a trainer.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        ShapeError: If the volumes differ in shape.
        InvalidArgumentError: If no patch fits, or there are more walkers than examples.
    """

    not_pickled = "the core reads its volumes ahead; expected a new one in each process"

    def __init__(
        self,
        volumes: VolumeLike | TrainingVolume | Sequence[TrainingVolume],
        labels: VolumeLike = "",
        partitions: VolumeLike = "",
        *,
        patch_size: Vec3,
        walkers: int = 1,
        seed: int = 0,
        box: Box | None = None,
        mean: float = 128.0,
        std: float = 33.0,
        permutable_axes: Sequence[int] = (1, 2),
        reflectable_axes: Sequence[int] = (0, 1, 2),
        softness: float = SOFTNESS,
        coordinates: str = "",
        prefetch: int = 2,
        readers: int = 1,
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
            softness=softness,
            prefetch=prefetch,
            readers=readers,
        )
        self.volumes = volumes_of(volumes, labels, partitions, box, mean, std)
        self.patch_size = as_vec3(patch_size)
        self.walkers = walkers
        self.seed = seed
        self.permutable_axes = tuple(permutable_axes)
        self.reflectable_axes = tuple(reflectable_axes)
        self.softness = softness
        self.coordinates = coordinates
        self.prefetch = prefetch
        self.readers = readers
        self.core = _core.data.ExampleSource(
            [source_of(volume, partitions=True) for volume in self.volumes],
            patch_size=list(patch_size),
            seed=seed,
            walkers=walkers,
            permutable_axes=list(permutable_axes),
            reflectable_axes=list(reflectable_axes),
            softness=softness,
            coordinates=coordinates or None,
            progress=None,
        )

    def __len__(self) -> int:
        """Return the number of examples of an epoch, over all walkers."""
        return self.core.examples

    def per_walker(self, walker: int) -> int:
        """Return the number of examples of a walker in each epoch."""
        return self.core.per_walker(walker)

    def imbalance(self, moves: int = 27) -> float | None:
        """Return how far the busiest walker's fields of view of an epoch exceed the mean, as a share of the mean.

        The numbers are expected ones: an example takes 1 field of view in the lowest class, `moves` in the highest
        one, and evenly spaced numbers between. None for examples from a file of coordinates, which tell no class.
        """
        return self.core.imbalance(moves)

    def centre(self, walker: int, index: int, *, epoch: int = 0) -> Vec3:
        """Return the middle voxel (z, y, x) of an example in its volume."""
        z, y, x = self.core.centre(walker, epoch, index)[1]
        return z, y, x

    def load(
        self, walker: int, index: int, *, epoch: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return an augmented example: normalised image and soft labels, float32 arrays of `patch_size`."""
        image, labels = self.core.load(walker, epoch, index)
        return image, labels
