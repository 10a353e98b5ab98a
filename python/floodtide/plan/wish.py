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
from floodtide.plan.geometry import Needs
from floodtide.plan.networks import KnownNetwork

FEW_STEPS = 100
"""Steps below which a training is too short to learn from."""

# Share of the voxels at changes of label that are 0, above which 0 separates objects.
ZERO_BOUNDARY = 0.25


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asks for, and what was seen of the volumes.

    Attributes:
        pairs: Images and their labels, at the voxel size of the training.
        labels_seen: Statistics of the labels, and the boxes that have some.
        voxel_size_nm: Voxel size (z, y, x) of these volumes; None if it is unknown.
        stated: Axes, voxel size and position of the images, and what states each.
        start: The network to start from; None: random weights.
        task: What is learnt; classes with their table.
        classes_reason: Where the table of the classes comes from.
        unlabelled: Value of voxels without a label; None: none.
        minutes: Time for the training.
        run: The run directory.
        resampled_from: Voxel size of the volumes from which these were made; None if they are the user's.
        eroded: Objects that touch were eroded.
    """

    pairs: tuple[tuple[Volume, Volume], ...]
    labels_seen: tuple[LabelStatistics, ...]
    voxel_size_nm: SizeNm | None
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
    def boxes(self) -> list[tuple[Box, ...]]:
        """Boxes (start, size) of each image that have labels."""
        return [one.boxes for one in self.labels_seen]

    @property
    def edges(self) -> SizeNm:
        """The voxel size (z, y, x); edges of 1 if it is unknown."""
        return self.voxel_size_nm or (1.0, 1.0, 1.0)

    @property
    def shape(self) -> Vec3:
        """The smallest extents (z, y, x) in voxels of the images."""
        return as_vec3([*map(min, zip(*(image.shape for image, _ in self.pairs), strict=True))])

    @property
    def smallest(self) -> Vec3:
        """The smallest extents (z, y, x) in voxels of the boxes with labels."""
        sizes = [size for own in self.boxes for _, size in own]
        return as_vec3([*map(min, zip(*sizes, strict=True))])


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The rules for one task. A template in `plan/templates` shows their values and reasons.

    Attributes:
        task: The task with all its keys.
        unit: What training examples are called.
        needs: What the parts of the training must hold.
        extents: Sizes (z, y, x) in voxels that must be equal along axes that are exchanged.
        shown: What the template shows, by name.
        rate: Measures and returns the training examples per second on this machine.
        batch: Examples of a walker in a step.
        walkers: Number of walkers.
        most_walkers: More of them, up to this number, if there are enough steps nevertheless.
        average: Largest decay of the moving average of the parameters.
        useful: Training examples below which a network is hardly useful; 0: unknown.
        look: Returns what the template shows further, for labels and a box that is trained on.
    """

    template: str
    task: Task
    unit: str
    needs: Needs
    extents: tuple[Vec3, ...]
    shown: dict[str, Any]
    rate: Callable[[], float]
    batch: int = 1
    walkers: int
    most_walkers: int = 0
    average: float
    useful: int = 0
    look: Callable[[Volume, Box], dict[str, Any]] = lambda *_: {}
