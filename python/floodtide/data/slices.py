# SPDX-License-Identifier: Apache-2.0
"""Slices with class masks, the training samples of two-dimensional U-Nets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from floodtide import _core, errors
from floodtide.base import limits, notes
from floodtide.base.options import Arguments
from floodtide.data.samples import ORDER, Classes, Image, Samples
from floodtide.data.volumes import Volume, VolumeLike, none_of, opened, require_same_size

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
    **ORDER,
)


UNLABELLED = 255
"""Class of pixels without a label in masks: they count neither in the loss nor in the scores."""


class Stack(NamedTuple):
    """The volumes of a stack; `patients` is "file:dataset", empty if the stack is one patient."""

    images: VolumeLike
    masks: VolumeLike
    patients: str


class Slices(Samples):
    """Slices with class masks. A split keeps all slices of a patient in one part.

    Args:
        images: Intensities (n, y, x): the name of a volume, or a Volume; or a list of such stacks.
        masks: Integer classes of each stack, of its shape. Negative numbers, 2^32 - 1 and 2^64 - 1 mark pixels that do
            not count.
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
        prefetch: Batches that each walker of a trainer has ready in advance; 0: read inside the step.
        readers: Threads of each rank that read ahead for a trainer.

    Raises:
        InvalidFileError: If a dataset cannot be read or is of a wrong type.
        ShapeError: If datasets do not fit each other, or state different voxel sizes.
        InvalidArgumentError: For a number out of range, a part without patients, or a step that
            takes more slices than there are.
    """

    core: _core.data.SliceSource

    def __init__(
        self,
        images: VolumeLike | Sequence[VolumeLike],
        masks: VolumeLike | Sequence[VolumeLike],
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
        prefetch: int = 2,
        readers: int = 1,
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
            prefetch=prefetch,
            readers=readers,
        )
        self.stacks = [Stack(*names) for names in zip(*columns, strict=True)]
        for stack in self.stacks:
            image, mask = (one if isinstance(one, Volume) else Volume(one) for one in stack[:2])
            require_same_size("slices", image, mask)
            if (none := none_of(mask)) is not None:
                notes.show(f"{mask.name}: pixels of class {none} do not count")
        self.size = None if size in (None, (0, 0)) else size
        self.classes = classes
        self.mean, self.std, self.outside = mean, std, outside
        self.part, self.validation_share, self.split_seed = part, validation_share, split_seed
        self.flip_y, self.flip_x = flip_y, flip_x
        self.rotation_deg, self.scale = rotation_deg, scale
        self.gain, self.offset, self.noise = gain, offset, noise
        source = _core.data.SliceSource(
            [
                _core.data.SliceStack(
                    images=opened(stack.images), masks=opened(stack.masks), patients=stack.patients
                )
                for stack in self.stacks
            ],
            size=size or (0, 0),
            classes=classes,
            mean=mean,
            std=std,
            outside=outside,
            part=part,
            validation_share=validation_share,
            split_seed=split_seed,
            augmentation=_core.data.SliceAugmentation(
                flip_y=flip_y,
                flip_x=flip_x,
                rotation_deg=rotation_deg,
                scale=scale,
                gain=gain,
                offset=offset,
                noise=noise,
            ),
            walkers=walkers,
            batch=batch,
            seed=seed,
        )
        super().__init__(source, walkers, batch, seed, prefetch, readers)

    @property
    def shape(self) -> tuple[int, int]:
        """Size (y, x) in pixels of every slice."""
        _, y, x = self.core.shape
        return y, x

    @property
    def patients(self) -> list[str]:
        """Names of the patients of this part: their numbers, or the stack if it has no patient numbers."""
        return self.core.groups

    def place(self, number: int) -> tuple[int, int]:
        """Return where a slice is stored: index of the stack, index in the stack."""
        return self.core.place(number)

    def check_masks(self) -> None:
        """Read all masks of this part now, so that training does not stop later at a wrong mask.

        Raises:
            InvalidFileError: If one has a class that is not below `classes`; names slice and value.
        """
        self.core.check_masks(0, self.fixed_size, None)

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


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
