# SPDX-License-Identifier: Apache-2.0
"""What a plan is made for, and what the rules of a task say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from floodtide.base.tasks import Task
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look.labels import LabelStatistics
from floodtide.plan.known import KnownNetwork

FEW_STEPS = 100
"""Steps below which a training is too short to learn from."""

# Share of the voxels at changes of label that are 0, above which 0 separates objects.
ZERO_BOUNDARY = 0.25


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asks for, and what was seen of the volumes.

    Attributes:
        images, labels: Names of the volumes, at the voxel size of the training; each image has its labels.
        shapes: Shapes (z, y, x) of the images.
        boxes: Boxes (start, size) of each image that have labels.
        voxel_size_nm: Voxel size (z, y, x) of these volumes; 1 if it is unknown.
        stated: Axes, voxel size and position of the images, and what states each.
        start: The network to start from; None: random weights.
        task: What is learnt; classes with their table.
        classes_reason: Where the table of the classes comes from.
        unlabelled: Value of voxels without a label; None: none.
        minutes: Time for the training.
        resampled_from: Voxel size of the volumes from which these were made; None if they are the user's.
        eroded: Objects that touch were eroded.
    """

    images: tuple[str, ...]
    labels: tuple[str, ...]
    shapes: tuple[Vec3, ...]
    labels_seen: tuple[LabelStatistics, ...]
    boxes: tuple[tuple[Box, ...], ...]
    voxel_size_nm: SizeNm
    size_is_unknown: bool = False
    start: KnownNetwork | None
    task: Task
    classes_reason: str = ""
    unlabelled: int | None = None
    minutes: float
    run: str
    resampled_from: SizeNm | None = None
    eroded: bool = False
    stated: tuple[str, ...] = ()

    @property
    def separated(self) -> bool:
        """True if voxels of label 0 lie between the objects of a volume."""
        return max(one.zero_between for one in self.labels_seen) > ZERO_BOUNDARY

    @property
    def smallest(self) -> Vec3:
        """The smallest extents (z, y, x) in voxels of the boxes with labels."""
        boxes = [box for own in self.boxes for box in own]
        return as_vec3([min(size[axis] for _, size in boxes) for axis in range(3)])

    @property
    def flat(self) -> bool:
        """True if all labels are in single sections."""
        return all(size[0] == 1 for own in self.boxes for _, size in own)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The rules for one task. A template in `plan/templates` shows their values and reasons.

    Attributes:
        task: The task with all its keys.
        unit: What training examples are called.
        patch: Size (z, y, x) of a training example in voxels.
        guard: Voxels (z, y, x) between training and validation part.
        extents: Sizes (z, y, x) in voxels that must be equal along axes that are exchanged.
        inside: Training examples lie wholly inside of the boxes with labels.
        sections: The network sees single sections.
        reach: Largest distance (z, y, x) in voxels between two voxels that a target compares.
        shown: What the template shows, by name.
        rate: Measures and returns the training examples per second on this machine.
        batch: Examples of a walker in a step.
        walkers: Returns the number of walkers for a training of about so many examples.
        useful: Training examples below which a network is hardly useful; 0: unknown.
        look: Returns what the template shows further, for labels, a box that is trained on, and the number of steps.
    """

    template: str
    task: Task
    unit: str
    patch: Vec3
    guard: Vec3
    extents: tuple[Vec3, ...]
    inside: bool = True
    sections: bool = False
    reach: Vec3 = (0, 0, 0)
    shown: dict[str, Any]
    rate: Callable[[], float]
    walkers: Callable[[float], int]
    batch: int = 1
    useful: int = 0
    look: Callable[[Volume, Box, int], dict[str, Any]]


def average_over(steps: int, most: float) -> float:
    """Return the decay of the moving average of the parameters in a training of `steps` steps."""
    return max(0.0, round(min(most, 1 - 5 / steps), 4))
