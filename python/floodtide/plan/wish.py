# SPDX-License-Identifier: Apache-2.0
"""What a plan is made for, and what a kind of network must tell the planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from floodtide.data import Box, Vec3, Volume
from floodtide.plan.known import KnownNetwork, SizeNm

FEW_STEPS = 100
"""Steps below which a training is too short to learn from."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asks for.

    Attributes:
        image, labels: Names of the volumes, at the voxel size of the training.
        voxel_size_nm: Voxel size (z, y, x) of these volumes.
        start: The network to start from; None: random weights.
        network: Kind of network: "affinities" or "ffn".
        minutes: Time for the training.
        run: The run directory.
        resampled_from: Voxel size of the volumes from which these were made; None if they are the user's.
    """

    image: str
    labels: str
    voxel_size_nm: SizeNm
    start: KnownNetwork | None
    network: str
    minutes: float
    run: str
    resampled_from: SizeNm | None = None


class Recipe(Protocol):
    """The rules for one kind of network. A template in `plan/templates` has its values and their reasons.

    Attributes:
        patch: Size (z, y, x) of a training example in voxels.
        guard: Voxels (z, y, x) between training and validation part.
        extents: Sizes (z, y, x) in voxels, such as the field of view, that must be equal along exchanged axes.
        unit: What training examples are called: "fields of view".
    """

    @property
    def patch(self) -> Vec3: ...
    @property
    def guard(self) -> Vec3: ...
    @property
    def extents(self) -> tuple[Vec3, ...]: ...
    @property
    def unit(self) -> str: ...

    def rate(self) -> float:
        """Measure and return the training examples per second on this machine."""

    def walkers(self, examples: float) -> int:
        """Return the number of walkers for a training of about `examples` examples."""

    def facts(self, labels: Volume, box: Box, steps: int) -> dict[str, Any]:
        """Return what the template shows, for labels, the training box and the number of steps."""
