# SPDX-License-Identifier: Apache-2.0
"""What a plan is made for, and what a kind of network must tell the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from floodtide import config
from floodtide.data import Box, Vec3, Volume
from floodtide.plan.document import Choice
from floodtide.plan.geometry import Split
from floodtide.plan.known import KnownNetwork, SizeNm

FEW_STEPS = 100
"""Steps below which a training is too short to learn from."""
VALIDATIONS = 4
"""Validations of a training."""
TRAINED_SHARE = 0.8
"""Share of the time for training steps; the rest is for validation, checkpoints and reading."""
_EQUAL_SIZES = 1.05  # ratio of voxel sizes along two axes up to which the axes count as alike


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
    """The rules for one kind of network.

    Attributes:
        patch: Size (z, y, x) of a training example in voxels.
        guard: Voxels (z, y, x) between training and validation part.
        unit: What a training example is called: "fields of view".
    """

    @property
    def patch(self) -> Vec3: ...
    @property
    def guard(self) -> Vec3: ...
    @property
    def unit(self) -> str: ...

    def data(self, labels: Volume, box: Box) -> list[Choice]:
        """Return the choices of [data], for labels and the training box."""

    def model(self) -> list[Choice]:
        """Return the choices of [model]."""

    def rate(self, settings: config.Config) -> float:
        """Measure and return the training examples per second on this machine."""

    def walkers(self, examples: float) -> int:
        """Return the number of walkers for a training of about `examples` examples."""

    def training(self, walkers: int, steps: int, rate: float) -> list[Choice]:
        """Return the choices of [training], [optimizer] and [schedule]."""

    def validation(self, split: Split, steps: int) -> list[Choice]:
        """Return the choices of [validation]."""

    def segment(self, split: Split) -> list[Choice]:
        """Return the choices of [segment]."""


def rows(section: str, values: Sequence[tuple[str, Any, str]]) -> list[Choice]:
    """Return choices (key, value, reason) of one section."""
    return [Choice(section=section, key=key, value=value, reason=why) for key, value, why in values]


def axes(voxel_size_nm: SizeNm, *extents: Vec3) -> list[Choice]:
    """Return the axes that augmentation exchanges and reflects.

    Args:
        voxel_size_nm: Voxel size (z, y, x).
        extents: Sizes (z, y, x) in voxels, such as the field of view, that must be equal along exchanged axes.
    """

    def alike(a: int, b: int) -> bool:
        sizes = sorted((voxel_size_nm[a], voxel_size_nm[b]))
        return sizes[1] <= _EQUAL_SIZES * sizes[0] and all(e[a] == e[b] for e in extents)

    groups = [[0, 1, 2], [1, 2], [0, 2], [0, 1], []]
    chosen = next(g for g in groups if all(alike(a, b) for a in g for b in g))
    reasons = {
        3: "Voxels and training examples are alike along all axes, so any axis may stand for any other.",
        2: "Only these axes have the same voxel size and extent, so only they are exchanged.",
        0: "No two axes have the same voxel size and extent, so none are exchanged.",
    }
    reflected = "Tissue has no preferred direction along any axis."
    return rows(
        "data",
        [
            ("permutable_axes", chosen, reasons[len(chosen)]),
            ("reflectable_axes", [0, 1, 2], reflected),
        ],
    )
