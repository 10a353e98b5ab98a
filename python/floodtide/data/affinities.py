# SPDX-License-Identifier: Apache-2.0
"""Patches of volumes with affinities, the training samples of three-dimensional U-Nets."""

from __future__ import annotations

from collections.abc import Sequence

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.data.boxes import Box, Vec3, as_vec3
from floodtide.data.samples import ORDER, Image, Samples
from floodtide.data.training_volume import TrainingVolume, source_of, volumes_of
from floodtide.data.volumes import VolumeLike

NEAREST: tuple[Vec3, ...] = ((-1, 0, 0), (0, -1, 0), (0, 0, -1))
"""Offsets of the predecessors along z, y, x."""

_AFFINITIES = Arguments(
    offsets=limits.OFFSET,
    patch_size=limits.PATCH,
    box=limits.EXTENT,
    mean=limits.INTENSITY,
    std=limits.DEVIATION,
    permutable_axes=limits.AXIS,
    reflectable_axes=limits.AXIS,
    patches=limits.COUNT,
    **ORDER,
)


class Affinities(Samples):
    """Patches of a labelled volume with affinities.

    The affinity of a voxel for an offset is 1 if it and the voxel at the offset carry the same label other than 0,
    else 0. Its weight is 0 where that voxel is outside the patch and, unless `zero_is_boundary`, where either voxel is
    labelled 0. Training takes random patches; `fixed` has a grid of patches over the box that counts no pair twice.

    Args:
        volumes: The image volume, its name or a `Volume`; or one `TrainingVolume` or several, without partitions.
        labels: Integer labels of the image, if `volumes` is an image.
        patch_size: Size (z, y, x) of a patch in voxels.
        offsets: Offsets (z, y, x) in voxels, shorter than a patch. By default the predecessors along each axis.
        box: Patches lie wholly inside it; None for the whole volume. If `volumes` is an image.
        mean: Intensities become (image - mean) / std. If `volumes` is an image.
        std: See mean.
        zero_is_boundary: Voxels labelled 0 are membrane or background, not unlabelled.
        balance: In training, ones and zeros of an offset get about the same total weight.
        permutable_axes: Axes (0 is z) that augmentation permutes; their patch sizes must be equal.
        reflectable_axes: Axes that augmentation reverses at random.
        patches: Training patches of an epoch; None: as many as the grid has.
        walkers: Streams of patches over all ranks.
        batch: Patches that a walker takes in a step.
        seed: Chooses positions and augmentation.
        prefetch: Batches that each walker of a trainer has ready in advance; 0: read inside the step.
        readers: Threads of each rank that read ahead for a trainer.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        ShapeError: If the volumes differ in shape.
        InvalidArgumentError: If no patch fits, or a step takes more patches than an epoch has.
    """

    core: _core.data.AffinitySource

    def __init__(
        self,
        volumes: VolumeLike | TrainingVolume | Sequence[TrainingVolume],
        labels: VolumeLike = "",
        *,
        patch_size: Vec3,
        offsets: Sequence[Vec3] = NEAREST,
        box: Box | None = None,
        mean: float = 128.0,
        std: float = 33.0,
        zero_is_boundary: bool = False,
        balance: bool = False,
        permutable_axes: Sequence[int] = (1, 2),
        reflectable_axes: Sequence[int] = (0, 1, 2),
        patches: int | None = None,
        walkers: int = 1,
        batch: int = 1,
        seed: int = 0,
        prefetch: int = 2,
        readers: int = 1,
    ) -> None:
        _AFFINITIES.check(
            "Affinities",
            patch_size=patch_size,
            offsets=offsets,
            box=box,
            mean=mean,
            std=std,
            permutable_axes=permutable_axes,
            reflectable_axes=reflectable_axes,
            patches=patches,
            walkers=walkers,
            batch=batch,
            seed=seed,
            prefetch=prefetch,
            readers=readers,
        )
        self.volumes = volumes_of(volumes, labels, "", box, mean, std)
        self.patch_size = as_vec3(patch_size)
        self.offsets = tuple(as_vec3(offset) for offset in offsets)
        self.zero_is_boundary = zero_is_boundary
        self.balance = balance
        self.permutable_axes = tuple(permutable_axes)
        self.reflectable_axes = tuple(reflectable_axes)
        self.patches = patches
        source = _core.data.AffinitySource(
            [source_of(volume, partitions=False) for volume in self.volumes],
            offsets=[list(offset) for offset in self.offsets],
            patch_size=list(patch_size),
            zero_is_boundary=zero_is_boundary,
            balance=balance,
            permutable_axes=list(permutable_axes),
            reflectable_axes=list(reflectable_axes),
            patches=patches,
            walkers=walkers,
            batch=batch,
            seed=seed,
        )
        super().__init__(source, walkers, batch, seed, prefetch, readers)

    def load(self, walker: int, index: int, *, epoch: int = 0) -> tuple[Image, Image, Image]:
        """Return an augmented training patch: image (z, y, x), affinities and weights (z, y, x, offsets)."""
        _, image, targets, weights = self.core.load(walker, epoch, index)
        return image[..., 0], targets, weights

    def fixed(self, number: int) -> tuple[Image, Image, Image]:
        """Return a patch of the grid as it is: image (z, y, x), affinities and weights (z, y, x, offsets)."""
        _, image, targets, weights = self.core.fixed(number)
        return image[..., 0], targets, weights

    def fixed_box(self, number: int) -> Box:
        """Return the box (start, size) of a patch of the grid."""
        _, start, size = self.core.fixed_place(number)
        return start, size

    def box(self, walker: int, index: int, *, epoch: int = 0) -> Box:
        """Return the box (start, size) of a training patch before augmentation."""
        number = self.number(walker, index, epoch=epoch)
        _, start, size = self.core.training_place(epoch, number)
        return start, size


def affinity_names(offsets: Sequence[Sequence[int]]) -> list[str]:
    """Return a name for the affinities of each offset: the axis for a predecessor, else the offset as "z,y,x"."""
    nearest = dict(zip(NEAREST, "zyx", strict=True))
    return [nearest.get(as_vec3(offset), ",".join(map(str, offset))) for offset in offsets]
