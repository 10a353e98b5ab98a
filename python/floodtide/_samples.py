# SPDX-License-Identifier: Apache-2.0
"""Training samples of U-Nets: slices with masks, and patches of volumes with affinities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, errors, limits
from floodtide.options import Arguments

if TYPE_CHECKING:
    from floodtide.data import Box, Vec3

Image = NDArray[np.float32]
Classes = NDArray[np.uint8]


_ORDER = {"walkers": limits.WALKERS, "batch": limits.BATCH, "seed": limits.SEED}
_SLICES = Arguments(
    size=limits.PIXELS_OR_STORED,
    classes=limits.MASK_CLASSES,
    mean=limits.INTENSITY,
    std=limits.DEVIATION,
    outside=limits.INTENSITY,
    validation_share=limits.SHARE,
    split_seed=limits.SEED,
    rotation_deg=limits.ANGLE,
    scale=limits.SCALE,
    gain=limits.GAIN,
    offset=limits.NOISE,
    noise=limits.NOISE,
    **_ORDER,
)
_AFFINITIES = Arguments(
    patch_size=limits.PATCH,
    box=limits.EXTENT,
    mean=limits.INTENSITY,
    std=limits.DEVIATION,
    permutable_axes=limits.AXIS,
    reflectable_axes=limits.AXIS,
    patches=limits.COUNT,
    **_ORDER,
)


class _Samples:
    """What slices and patches have in common: who gets which sample when.

    Epochs follow one another without a break, as one endless row: a step takes its next
    walkers * batch samples, `batch` for each walker. A sample comes once in an epoch; batches are
    always full; nothing depends on the number of ranks. Epoch e + 1 begins in the step in which
    epoch e ends.
    """

    def __init__(self, source: Any, walkers: int, batch: int) -> None:
        self._source = source
        self.walkers = walkers
        self.batch = batch

    def __len__(self) -> int:
        """Samples of an epoch over all walkers."""
        return int(self._source.size)

    @property
    def fixed_size(self) -> int:
        """Samples that `fixed` has: what validation takes."""
        return int(self._source.fixed_size)

    def per_walker(self, walker: int, *, epoch: int = 0) -> int:
        """Samples of one walker in an epoch; they differ by at most `batch` between epochs."""
        return int(self._source.per_walker(walker, epoch))

    def number(self, walker: int, index: int, *, epoch: int = 0) -> int:
        """Which of the epoch's samples, 0 to len() - 1, is the walker's sample `index`.

        Raises:
            OutOfRangeError: If there is no such walker, epoch or index.
        """
        return int(self._source.number(walker, epoch, index))

    def at_step(self, walker: int, step: int) -> tuple[int, int]:
        """(epoch, index) of the first of the samples that a walker takes in a step."""
        epoch, index = self._source.at_step(walker, step)
        return int(epoch), int(index)


class Slices(_Samples):
    """Slices with class masks, whole patients in each part.

    Args:
        images: Intensities (n, y, x), "file:dataset"; or a list of such stacks.
        masks: Integer classes of each stack, of its shape.
        patients: Integer (n,) for each stack: whose slice it is. Without it a stack is one patient.
        size: (y, x) to cut the centre out to, or to pad to; None: as stored.
        classes: Masks hold 0 to classes - 1.
        mean: Intensities become (image - mean) / std.
        std: See mean.
        outside: Stored intensity of what lies outside a slice (its class is 0).
        part: "all", or "training" or "validation" of a split by `validation_share`.
        validation_share: Share of the patients that "validation" takes.
        split_seed: Chooses them.
        walkers: Streams of slices.
        batch: Slices that a walker takes in a step.
        seed: Chooses order and augmentation.
        flip_y: Reverse the axis or not, at random.
        flip_x: As flip_y.
        rotation_deg: Turn by an angle up to this, either way.
        scale: Magnify by 1 / (1 + scale) to 1 + scale.
        gain: Multiply normalised intensities by 1 - gain to 1 + gain.
        offset: Add -offset to offset.
        noise: Add normal noise of this standard deviation.

    Raises:
        InvalidFileError: If a dataset cannot be read or is of a wrong type.
        ShapeError: If datasets do not fit each other.
        InvalidArgumentError: For a number out of range, a part without patients, or a step that
            takes more slices than there are.
    """

    def __init__(
        self,
        images: str | Sequence[str],
        masks: str | Sequence[str],
        patients: str | Sequence[str] | None = None,
        *,
        size: tuple[int, int] | None = None,
        classes: int = 2,
        mean: float = 0.0,
        std: float = 1.0,
        outside: float = 0.0,
        part: str = "all",
        validation_share: float = 0.0,
        split_seed: int = 0,
        walkers: int = 1,
        batch: int = 1,
        seed: int = 0,
        flip_y: bool = False,
        flip_x: bool = False,
        rotation_deg: float = 0.0,
        scale: float = 0.0,
        gain: float = 0.0,
        offset: float = 0.0,
        noise: float = 0.0,
    ) -> None:
        columns = [_listed(images), _listed(masks)]
        columns.append([""] * len(columns[0]) if patients is None else _listed(patients))
        if len({len(column) for column in columns}) != 1:
            counts = ", ".join(str(len(column)) for column in columns)
            raise errors.InvalidArgumentError(
                f"slices: {counts} datasets of images, masks and patients,"
                " expected one of each for every stack"
            )
        _SLICES.check(
            "Slices",
            size=size,
            classes=classes,
            mean=mean,
            std=std,
            outside=outside,
            validation_share=validation_share,
            split_seed=split_seed,
            walkers=walkers,
            batch=batch,
            seed=seed,
            rotation_deg=rotation_deg,
            scale=scale,
            gain=gain,
            offset=offset,
            noise=noise,
        )
        source = _core.data.SliceSource(
            list(zip(*columns, strict=True)),
            size=size or (0, 0),
            classes=classes,
            mean=mean,
            std=std,
            outside=outside,
            part=part,
            validation_share=validation_share,
            split_seed=split_seed,
            flip_y=flip_y,
            flip_x=flip_x,
            rotation_deg=rotation_deg,
            scale=scale,
            gain=gain,
            offset=offset,
            noise=noise,
            walkers=walkers,
            batch=batch,
            seed=seed,
        )
        super().__init__(source, walkers, batch)

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (y, x) of every slice."""
        _, y, x = self._source.shape
        return y, x

    @property
    def patients(self) -> list[str]:
        """Patients of this part, by number, or by stack where they have none."""
        return list(self._source.groups)

    def place(self, number: int) -> tuple[int, int]:
        """Where a slice is stored: which stack, and its index there."""
        stack, index = self._source.place(number)
        return int(stack), int(index)

    def check_masks(self) -> None:
        """Read all masks of this part, rather than find out late what is wrong with one.

        Raises:
            InvalidFileError: If one has a class that is not below `classes`; names slice and value.
        """
        self._source.check_masks(0, self.fixed_size, None)

    def load(self, walker: int, index: int, *, epoch: int = 0) -> tuple[Image, Classes]:
        """A training slice (y, x), augmented, with its mask.

        Raises:
            InvalidFileError: If the mask has an unexpected class; names slice and value.
        """
        _, image, classes = self._source.load(walker, epoch, index)
        return image[0, :, :, 0], classes[0]

    def fixed(self, number: int) -> tuple[str, Image, Classes]:
        """A slice as it is stored, cut and normalised: patient, image (y, x), mask (y, x)."""
        group, image, classes = self._source.fixed(number)
        return self.patients[group], image[0, :, :, 0], classes[0]


class Affinities(_Samples):
    """Patches of a labelled volume with affinities along z, y, x.

    The affinity of a voxel along an axis is 1 if it and its predecessor carry the same label other
    than 0, else 0. Its weight is 0 where the predecessor is outside the patch and, unless
    `zero_is_boundary`, where either voxel is labelled 0. Training takes random patches; `fixed` has
    a grid of patches over the box that counts no pair twice.

    Args:
        image: Image volume, "file:dataset".
        labels: Its integer labels.
        patch_size: Size (z, y, x) of a patch.
        box: Patches lie wholly inside; None for the whole volume.
        mean: Intensities become (image - mean) / std.
        std: See mean.
        zero_is_boundary: Voxels labelled 0 are membranes or background, not unlabelled ones.
        balance: In training, ones and zeros along an axis get about the same weight in all.
        permutable_axes: Axes (0 is z) that augmentation permutes; equal patch sizes.
        reflectable_axes: Axes that augmentation reverses or not.
        patches: Training patches of an epoch; None: as many as the grid has.
        walkers: Streams of patches.
        batch: Patches that a walker takes in a step.
        seed: Chooses positions and augmentation.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        ShapeError: If the volumes differ in shape.
        InvalidArgumentError: If no patch fits, or a step takes more patches than an epoch has.
    """

    def __init__(
        self,
        image: str,
        labels: str,
        *,
        patch_size: Vec3,
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
    ) -> None:
        _AFFINITIES.check(
            "Affinities",
            patch_size=patch_size,
            box=box,
            mean=mean,
            std=std,
            permutable_axes=permutable_axes,
            reflectable_axes=reflectable_axes,
            patches=patches,
            walkers=walkers,
            batch=batch,
            seed=seed,
        )
        source = _core.data.AffinitySource(
            [("volume", image, labels, box, mean, std)],
            patch_size=patch_size,
            zero_is_boundary=zero_is_boundary,
            balance=balance,
            permutable_axes=list(permutable_axes),
            reflectable_axes=list(reflectable_axes),
            patches=patches,
            walkers=walkers,
            batch=batch,
            seed=seed,
        )
        super().__init__(source, walkers, batch)

    def load(self, walker: int, index: int, *, epoch: int = 0) -> tuple[Image, Image, Image]:
        """A training patch, augmented: image (z, y, x), affinities and weights (z, y, x, 3)."""
        _, image, targets, weights = self._source.load(walker, epoch, index)
        return image[..., 0], targets, weights

    def fixed(self, number: int) -> tuple[Image, Image, Image]:
        """A patch of the grid, not augmented: image (z, y, x), affinities and weights."""
        _, image, targets, weights = self._source.fixed(number)
        return image[..., 0], targets, weights

    def fixed_box(self, number: int) -> Box:
        """The box of a patch of the grid: (start, size)."""
        _, start, size = self._source.fixed_place(number)
        return tuple(start), tuple(size)

    def box(self, walker: int, index: int, *, epoch: int = 0) -> Box:
        """The box that a training patch is cut out of, before augmentation."""
        number = self.number(walker, index, epoch=epoch)
        _, start, size = self._source.training_place(epoch, number)
        return tuple(start), tuple(size)


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
