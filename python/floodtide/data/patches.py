# SPDX-License-Identifier: Apache-2.0
"""Patches of images with labels: the training samples of every network but flood-filling ones."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, errors
from floodtide.base import limits, notes
from floodtide.base.data_options import WHOLE, Augmentation, DataOptions, TrainingVolume
from floodtide.base.files import path_and_dataset
from floodtide.base.options import PATCHES, typed
from floodtide.base.progress import bar
from floodtide.base.tasks import PatchTask
from floodtide.data import boxes, no_label
from floodtide.data.formats.hdf5 import datasets_of, read_by_h5py
from floodtide.data.samples import Image, Samples, Seen, core_augmentation
from floodtide.data.volumes import as_volume, require_same_grid

_BLOCK = 1 << 24  # voxels that are read at a time to find the values of labels
_ALIKE = 0.05  # difference of the edges of voxels, as a share
_EXPECTED = "an HDF5 dataset of integers of one axis"

ClassNumbers = NDArray[np.uint8]

UNLABELLED = 255
"""Number of voxels without a label among class numbers: they count neither in the loss nor in the scores."""


class Split(NamedTuple):
    """A part of the groups: of the patients, animals or volumes. All sections of a group are in one part.

    Attributes:
        part: "all", "training" or "validation".
        share: Share of the groups that "validation" takes.
        seed: Chooses these groups.
    """

    part: str = "all"
    share: float = 0.0
    seed: int = 0

    def of(self, groups: Sequence[str]) -> list[str]:
        """Return the groups of this part, in their order.

        Raises:
            InvalidArgumentError: If a part of them has no group.
        """
        if self.part == "all":
            return list(groups)
        count = max(1, round(self.share * len(groups)))
        if count >= len(groups):
            raise errors.InvalidArgumentError(
                f"validation.share {self.share:g} of {len(groups)} group(s) leaves none for training; expected volumes"
                " with `groups`, more volumes, or validation.box"
            )
        order = sorted(
            groups, key=lambda name: hashlib.sha256(f"{self.seed}:{name}".encode()).digest()
        )
        chosen = order[:count] if self.part == "validation" else order[count:]
        return [group for group in groups if group in chosen]


ALL = Split()


class Patches(Samples):
    """Patches of labelled volumes, or whole sections, with what a task makes of their labels.

    A training patch lies at random around a random voxel with a label: every labelled voxel is equally likely, or as
    the task's class weights say. Voxels outside of the volumes' boxes have no label. `fixed` has windows that overlap,
    and counts every labelled voxel once: the samples of a validation.

    Epochs follow one another without a gap. A step takes the next walkers * batch patches, `batch` for each walker.
    Each patch comes once in an epoch, and batches are always full. If an epoch ends inside a step, the next epoch
    starts in the same step. The order does not depend on the number of ranks.

    Args:
        volumes: A labelled volume, or several. They may differ in size.
        options: Size and number of the patches, and how they are read ahead.
        augmentation: Random changes of training patches; None: as a configuration without [augmentation].
        task: What the network learns of the labels.
        split: The part of the groups whose patches these are.
        walkers: Streams of patches over all ranks.
        batch: Patches that a walker takes in a step.
        seed: Chooses positions and augmentation.

    Attributes:
        task: The task, with the table of classes that the labels have.
        fixed_size: Number of patches that `fixed` returns: the samples of a validation.
        groups: Names of the groups of this part: the numbers in `groups` of a volume, else the names of the volumes.
        channels: Number of channels of the images.
        classes_present: Number of classes that a voxel of the boxes has; of other tasks 1.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type, or labels have values without a class.
        ShapeError: If the channels or masks of a volume differ in shape, or state different voxel sizes.
        OutOfRangeError: If a box is not inside its labels.
        ConfigurationError: If labels do not say which classes their values are.
        InvalidArgumentError: For no labelled voxel, a patch larger than a volume, a part without groups, or a step
            that takes more patches than an epoch has.
    """

    examples = PATCHES
    core: _core.data.PatchSource

    @typed()
    def __init__(
        self,
        volumes: TrainingVolume | Sequence[TrainingVolume],
        options: DataOptions | None = None,
        augmentation: Augmentation | None = None,
        *,
        task: PatchTask,
        split: Split = ALL,
        walkers: int = 1,
        batch: int = 1,
        seed: int = 0,
    ) -> None:
        limits.WALKERS.check(walkers, "Patches: walkers")
        limits.BATCH.check(batch, "Patches: batch")
        limits.SEED.check(seed, "Patches: seed")
        limits.SHARE.check(split.share, "Patches: split: share")
        limits.SEED.check(split.seed, "Patches: split: seed")
        super().__init__(volumes, options, augmentation, walkers, seed)
        options, self.batch = self.options, batch
        self.task = with_classes(task, options)
        self.split = split
        self.patch_size = patch_size(options)
        self.flat = self.patch_size[0] == 1
        self.channels = len(options.volumes[0].inputs)
        regions = [
            (number, box, group)
            for number, volume in enumerate(options.volumes)
            for box, group in _regions(volume)
        ]
        self._require_fitting_options()
        groups = split.of(list(dict.fromkeys(group for _, _, group in regions)))
        self.core = _core.data.PatchSource(
            [self._image(volume) for volume in options.volumes],
            [
                _core.data.Region(image=number, box=box, group=groups.index(group))
                for number, box, group in regions
                if group in groups
            ],
            groups,
            self.task.targets(self._voxel_size(), flat=self.flat),
            _core.data.PatchOptions(
                patch=self.patch_size,
                whole=options.patch == WHOLE,
                patches=options.patches or None,
                order=_core.data.SampleOrderOptions(walkers=walkers, batch=batch, seed=seed),
                class_weights=self.task.draw_weights,
                augmentation=core_augmentation(self.augmentation),
            ),
            None,
        )
        self.fixed_size, self.groups = self.core.fixed_size, self.core.groups
        # Labels that are no classes have one count.
        counts = [*zip(self.task.channels, self.core.label_counts, strict=False)]
        if absent := [name for name, count in counts if count == 0]:
            where = options.volumes[0].box if len(options.volumes) == 1 else ""
            notes.show(
                f"no voxel of the boxes {where or 'of the volumes'} has the class {', '.join(absent)}"
            )
        self.classes_present = len(counts) - len(absent)

    def __len__(self) -> int:
        """Return the number of patches of an epoch, over all walkers."""
        return self.core.size

    @typed()
    def load(
        self, walker: int, index: int, *, epoch: int = 0
    ) -> tuple[Image, ClassNumbers] | tuple[Image, Image, Image]:
        """Return an augmented training patch: the normalised image (z, y, x, channels) and its truth.

        The truth of classes is uint8 (z, y, x), UNLABELLED: no label. That of other tasks are targets and weights,
        float32 (z, y, x, outputs); weight 0: no label.

        Raises:
            InvalidFileError: If labels have a value without a class; names value and voxel.
        """
        return self.core.load(walker, epoch, index)[1:]

    @typed()
    def fixed(self, number: int) -> tuple[Image, ClassNumbers] | tuple[Image, Image, Image]:
        """Return a patch without augmentation, as `load` does. Voxels that count in another patch have no label."""
        return self.core.fixed(number)[1:]

    def seen(self, number: int) -> Seen:
        image, truth, *weights = self.load(0, number)
        return Seen(image[..., 0], truth, weights[0] > 0 if weights else truth != UNLABELLED)

    @staticmethod
    def require_fitting(volume: TrainingVolume) -> None:
        boxes_of(volume)

    def _require_fitting_options(self) -> None:
        """Refuse options that do not fit each other, with the line that would."""
        deep = [offset for offset in self.task.affinity_offsets if offset[0] != 0]
        if deep and self.flat:
            raise errors.ConfigurationError(
                f"task.offsets has {list(deep[0])} for patches of one section, expected offsets in it:"
                " task.offsets = [[0, -1, 0], [0, 0, -1]]"
            )
        weighted = self.task.draw_weights
        if self.options.patch == WHOLE and (weighted or self.options.patches):
            key = "task.class_weights" if weighted else "data.patches"
            raise errors.ConfigurationError(
                f'{key} has no meaning with data.patch = "{WHOLE}", expected it left out: each section is one sample'
            )

    def _voxel_size(self) -> Sequence[float]:
        """Return the voxel size (z, y, x) of all volumes, in any unit, for tasks that measure distances."""
        shapes = []
        for volume in self.options.volumes:
            stated = as_volume(volume.image).geometry.voxel_size_nm
            z, y, x = volume.voxel_size_nm or stated or (1.0, 1.0, 1.0)
            shapes.append((z / x, y / x, 1.0))
        if self.task.measures:
            turned = self.augmentation.rotate_in_space
            axes = (0, 1, 2) if turned else self.augmentation.permutable_axes
            kept = [shape[self.flat :] for shape in shapes]
            alike = np.allclose(kept, kept[0], rtol=_ALIKE)
            if not alike or np.ptp([shapes[0][axis] for axis in axes] or [0.0]) > _ALIKE:
                raise errors.ConfigurationError(
                    f"task.kind '{self.task.kind}' has voxels of {shapes} (z, y, x; x is 1) and exchanges the axes"
                    f" {list(axes)}; expected volumes of one shape of voxels, and axes exchanged"
                    " only where voxels are alike"
                )
        return shapes[0]

    def _image(self, volume: TrainingVolume) -> _core.data.LabelledImage:
        first, where = as_volume(volume.image), f"volume '{volume.name}'"
        labels = [as_volume(part) for part in volume.masks.values() or [volume.labels]]
        for channel in volume.channels:
            require_same_grid(where, as_volume(channel.image), first)
        for part in labels:
            require_same_grid(where, part, first, volume.labels_box_start)
        values, refuse = self.task.values()
        none = [] if self.options.unlabelled is None else [(self.options.unlabelled, -1)]
        if none and any(value == self.options.unlabelled for value, label in values if label >= 0):
            raise errors.ConfigurationError(
                f"data.unlabelled is {self.options.unlabelled}, which is a class in task.classes; expected one of both"
            )
        values = none + [row for row in values if row not in none]
        parts = [_core.data.LabelPart(labels[0].core, values=values, refuse=refuse)]
        if volume.masks:
            parts = [
                _core.data.LabelPart(mask.core, values=[*none, (0, 0)], others=number)
                for number, mask in enumerate(labels, start=1)
            ]
        return _core.data.LabelledImage(
            name=volume.name,
            channels=[
                _core.data.Channel(as_volume(one.image).core, mean=one.mean, std=one.std)
                for one in volume.inputs
            ],
            labels=parts,
            labels_start=volume.labels_box_start,
        )


def boxes_of(volume: TrainingVolume) -> list[boxes.Box]:
    """Return the boxes of a volume whose labels are used: its own, else that of its labels.

    Raises:
        OutOfRangeError: If a box is not inside the labels.
        InvalidArgumentError: If the volume has no labels, or a box is no box.
    """
    named, where = next(iter(volume.masks.values()), volume.labels), f"volume '{volume.name}'"
    if not named:
        raise errors.InvalidArgumentError(f"{where}: labels is empty, expected file:dataset")
    if volume.masks and volume.labels:
        raise errors.ConfigurationError(
            f"{where}: labels and masks are both given, expected one of them"
        )
    image, labels = as_volume(volume.image), as_volume(named)
    if volume.labels_start is None and labels.shape != image.shape:
        raise errors.ShapeError(
            f"{where}: the labels {labels.name} have shape {labels.shape}, the image {image.shape}; expected the same,"
            " or labels_start, the voxel (z, y, x) of the image at which they begin"
        )
    whole = (volume.labels_box_start, labels.shape)
    if not boxes.is_inside(whole, image.shape):
        raise errors.ShapeError(
            f"{where}: the labels {labels.name} have {boxes.box_text(whole)} of the image, which has shape"
            f" {image.shape}; expected labels inside of it: labels_start is their first voxel"
        )
    given = boxes.parse_boxes(volume.box)
    for box in given:
        if boxes.intersection(box, whole) != box:
            raise errors.OutOfRangeError(
                f"{where}: box {boxes.box_text(box)} is not inside the labels, {boxes.box_text(whole)}"
            )
    for one, other in itertools.combinations(given, 2):
        if boxes.intersection(one, other) is not None:
            raise errors.InvalidArgumentError(
                f"{where}: boxes {boxes.box_text(one)} and {boxes.box_text(other)} overlap, expected boxes"
                " without common voxels"
            )
    return given or [whole]


def _regions(volume: TrainingVolume) -> Iterator[tuple[boxes.Box, str]]:
    """Yield the boxes of a volume, cut where another group begins, with their groups."""
    numbers = _group_numbers(volume)
    for box in boxes_of(volume):
        if numbers is None:
            yield box, volume.name
            continue
        own = numbers[boxes.slices(box)[0]]
        cuts = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(own)]
        for a, b in itertools.pairwise(cuts):
            yield boxes.between(box, 0, a, b), str(own[a])


def _group_numbers(volume: TrainingVolume) -> np.ndarray | None:
    """Return the number of the group of each section of the image."""
    if not volume.groups:
        return None
    where = f"volume '{volume.name}': groups is '{volume.groups}', expected FILE.h5:DATASET, {_EXPECTED}"
    try:
        path, dataset = path_and_dataset(volume.groups)
    except errors.InvalidArgumentError:
        raise errors.InvalidArgumentError(where) from None
    if not _core.data.exists(path, dataset):  # the core reads untrusted metadata in a child
        raise errors.InvalidArgumentError(
            f"{where}; there is no '{dataset}', its datasets are: {datasets_of(path)}"
        )
    numbers = read_by_h5py(path, dataset)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise errors.InvalidArgumentError(f"{volume.groups}: expected {_EXPECTED}")
    sections = as_volume(volume.image).shape[0]
    if len(numbers) != sections:
        raise errors.ShapeError(
            f"{volume.groups}: has {len(numbers)} numbers, the image {sections} sections"
        )
    return numbers


def patch_size(options: DataOptions) -> boxes.Vec3:
    """Return the size (z, y, x) of the samples of options with volumes."""
    if options.patch != WHOLE:
        if options.size != (0, 0):
            raise errors.ConfigurationError(
                f'data.size is {list(options.size)}, expected it only with data.patch = "{WHOLE}"'
            )
        return boxes.as_vec3([int(n) for n in options.patch])
    if options.size != (0, 0):
        return (1, *options.size)
    shapes = [as_volume(volume.image).shape for volume in options.volumes]
    y, x = (max(shape[axis] for shape in shapes) for axis in (1, 2))
    return 1, y, x


def with_classes(task: PatchTask, options: DataOptions) -> PatchTask:
    """Return the task with the table of classes that the labels or masks have, if it is one of classes without a table.

    Raises:
        ConfigurationError: If the labels do not say it themselves.
        InvalidFileError: If they cannot be read.
    """
    masks = {tuple(volume.masks) for volume in options.volumes}
    if len(masks) > 1:
        raise errors.ConfigurationError(
            f"data.volumes.masks names {' and '.join(map(repr, sorted(map(list, masks))))}, expected the same classes"
            " in the same order for all volumes"
        )
    return task.of_labels(masks.pop(), lambda: _values(options))


def _values(options: DataOptions) -> set[int]:
    """Return the values of all labels in the boxes of volumes, without those that mean no label."""
    found: set[int] = set()
    for volume in options.volumes:
        parts: list[boxes.Box] = []
        for start, size in boxes_of(volume):
            depth = max(1, _BLOCK // (size[1] * size[2]))
            parts += boxes.tiles(
                (boxes.difference(start, volume.labels_box_start), size), (depth, *size[1:])
            )
        labels = as_volume(volume.labels)
        with bar("voxels", f"values of {labels.name}") as progress:
            for part in boxes.reported(parts, progress):
                stored = labels.read(part)
                none = no_label.missing(stored)
                values = np.unique(stored if none is None else stored[~none])
                wrong = values[np.floor(values) != values]
                if len(wrong):
                    raise errors.InvalidFileError(
                        f"{labels.name}: holds {wrong[0]:g}, expected whole numbers as classes"
                    )
                found |= {int(value) for value in values}
    return found - {options.unlabelled}
