# SPDX-License-Identifier: Apache-2.0
"""Patches of volumes with affinities, the training samples of three-dimensional U-Nets."""

from __future__ import annotations

from collections.abc import Sequence

from floodtide import _core
from floodtide.base import limits
from floodtide.base.data_options import PATCHES, DataOptions, TrainingVolume
from floodtide.base.options import Arguments
from floodtide.data.boxes import Vec3, as_vec3
from floodtide.data.samples import Image, Samples
from floodtide.data.volumes import source_of

NEAREST: tuple[Vec3, ...] = ((-1, 0, 0), (0, -1, 0), (0, 0, -1))
"""Offsets of the predecessors along z, y, x."""

_AFFINITIES = Arguments(offsets=limits.OFFSET)


class Affinities(Samples):
    """Patches of a labelled volume with affinities.

    The affinity of a voxel for an offset is 1 if it and the voxel at the offset carry the same label other than 0,
    else 0. Its weight is 0 where that voxel is outside the patch and, unless `zero_is_boundary`, where either voxel is
    labelled 0. Training takes random patches; `fixed` has a grid of patches over the box that counts no pair twice.

    Args:
        volumes: A labelled volume, or several. Patches lie wholly inside of its box.
        options: Size and number of the patches, their labels and augmentation, and how they are read ahead.
        offsets: Offsets (z, y, x) in voxels, shorter than a patch. By default the predecessors along each axis.
        walkers: Streams of patches over all ranks.
        batch: Patches that a walker takes in a step.
        seed: Chooses positions and augmentation.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        ShapeError: If the volumes differ in shape.
        InvalidArgumentError: If no patch fits, or a step takes more patches than an epoch has.
    """

    core: _core.data.AffinitySource

    def __init__(
        self,
        volumes: TrainingVolume | Sequence[TrainingVolume],
        options: DataOptions | None = None,
        *,
        offsets: Sequence[Vec3] = NEAREST,
        walkers: int = 1,
        batch: int = 1,
        seed: int = 0,
    ) -> None:
        options = (options or DataOptions()).of_kind(PATCHES, volumes)
        super().__init__(options, walkers, batch, seed)
        _AFFINITIES.check("Affinities", offsets=offsets)
        self.offsets = tuple(as_vec3(offset) for offset in offsets)
        self.core = _core.data.AffinitySource(
            [source_of(volume, partitions=False) for volume in options.volumes],
            offsets=self.offsets,
            patch_size=options.patch,
            zero_is_boundary=options.zero_is_boundary,
            balance=options.balance,
            permutable_axes=options.permutable_axes,
            reflectable_axes=options.reflectable_axes,
            patches=options.patches or None,
            walkers=walkers,
            batch=batch,
            seed=seed,
        )

    def load(self, walker: int, index: int, *, epoch: int = 0) -> tuple[Image, Image, Image]:
        """Return an augmented training patch: image (z, y, x), affinities and weights (z, y, x, offsets)."""
        _, image, targets, weights = self.core.load(walker, epoch, index)
        return image[..., 0], targets, weights

    def fixed(self, number: int) -> tuple[Image, Image, Image]:
        """Return a patch of the grid as it is: image (z, y, x), affinities and weights (z, y, x, offsets)."""
        _, image, targets, weights = self.core.fixed(number)
        return image[..., 0], targets, weights


def affinity_names(offsets: Sequence[Sequence[int]]) -> list[str]:
    """Return a name for the affinities of each offset: the axis for a predecessor, else the offset as "z,y,x"."""
    nearest = dict(zip(NEAREST, "zyx", strict=True))
    return [nearest.get(as_vec3(offset), ",".join(map(str, offset))) for offset in offsets]
