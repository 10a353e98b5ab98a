# SPDX-License-Identifier: Apache-2.0
"""What a plan is made for, and what the rules of a kind of network say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from floodtide.data import Box, Vec3, Volume
from floodtide.data.formats.geometry import SizeNm
from floodtide.plan.known import KnownNetwork

FEW_STEPS = 100
"""Steps below which a training is too short to learn from."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asks for.

    Attributes:
        image, labels: Names of the volumes, at the voxel size of the training.
        voxel_size_nm: Voxel size (z, y, x) of these volumes.
        stated: Axes, voxel size and position of the image, and what states each.
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
    stated: str = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The rules for one kind of network on a volume. A template in `plan/templates` shows their values and reasons.

    Attributes:
        unit: What training examples are called.
        patch: Size (z, y, x) of a training example in voxels.
        guard: Voxels (z, y, x) between training and validation part.
        extents: Sizes (z, y, x) in voxels that must be equal along axes that are exchanged.
        shown: What the template shows, by name.
        rate: Measures and returns the training examples per second on this machine.
        walkers: Returns the number of walkers for a training of about so many examples.
        look: Returns what the template shows further, for labels, the training box and the number of steps.
    """

    unit: str
    patch: Vec3
    guard: Vec3
    extents: tuple[Vec3, ...]
    shown: dict[str, Any]
    rate: Callable[[], float]
    walkers: Callable[[float], int]
    look: Callable[[Volume, Box, int], dict[str, Any]]


def average_over(steps: int, most: float) -> float:
    """Return the decay of the moving average of the parameters in a training of `steps` steps."""
    return max(0.0, round(min(most, 1 - 5 / steps), 4))
