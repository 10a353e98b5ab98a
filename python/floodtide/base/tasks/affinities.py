# SPDX-License-Identifier: Apache-2.0
"""Affinities: whether two voxels belong to one object; and beside them local shape descriptors, which help to learn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.networks.network import Vec3
from floodtide.base.options import option
from floodtide.base.tasks.task import Agglomerate, Array, PatchTask
from floodtide.errors import ConfigurationError

NEAREST: tuple[Vec3, ...] = ((-1, 0, 0), (0, -1, 0), (0, 0, -1))
"""Offsets of the predecessors along z, y, x."""

_DESCRIPTORS = (
    *(f"offset {axis}" for axis in "zyx"),
    *(f"variance {axis}" for axis in "zyx"),
    *(f"correlation {axes}" for axes in ("zy", "zx", "yx")),
    "size",
)

_NO_DEPTH = 0.05  # voxels of a window that sees one section


@dataclass(frozen=True, kw_only=True)
class Affinities(PatchTask):
    """Affinities: whether a voxel and the one at an offset belong to one object."""

    kind: str = option("affinities", "Affinities of voxels", choices=("affinities",))
    offsets: tuple[Vec3, ...] = option(
        NEAREST,
        "Offsets (z, y, x) in voxels: the nearest neighbours along each axis, and for other programs also far ones",
        range=limits.OFFSET,
    )
    zero_is_boundary: bool = option(
        False,
        "True: voxels with label 0 are boundary or background, and their affinities are 0. False: they are unlabelled"
        " and the loss ignores them",
    )
    balance: bool = option(
        False,
        "Weight the voxels of each training patch so that affinities 0 and 1 have about equal total weight",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.channels) not in limits.CLASSES or not self.offsets:
            most = int(limits.CLASSES.maximum) - len(self.channels) + len(self.offsets)
            raise ConfigurationError(
                f"{self._prefix}offsets has {len(self.offsets)} offsets, expected 1 to {most}: [[-1, 0, 0], [0, -1, 0],"
                " [0, 0, -1]] are the nearest neighbours"
            )

    reason: ClassVar[str] = (
        "Segments of affinities are useful after minutes. A small flood-filling network from random weights needs about"
        " an hour, that of the paper days (docs/real_em_training.md)."
    )
    score_name: ClassVar[str] = "average precision of boundaries"
    patch_score: ClassVar[str] = score_name
    pictured: ClassVar[str] = "affinities"
    legend: ClassVar[str] = (
        "Red, green, blue: affinity along z, y, x; white: the same object all around; black: an affinity of 0 along all"
        " axes; beige: not counted. Boundary map: 1 - mean of the affinities along y and x."
    )

    @property
    def channels(self) -> list[str]:
        """Names of the affinities: the axis for a predecessor, else the offset as "z,y,x"."""
        nearest = dict(zip(NEAREST, "zyx", strict=True))
        return [nearest.get(offset, ",".join(map(str, offset))) for offset in self.offsets]

    @property
    def affinity_offsets(self) -> tuple[Vec3, ...]:
        return self.offsets

    @property
    def notes(self) -> dict[str, str]:
        """The offsets, as JSON."""
        return {"offsets": json.dumps(self.offsets)}

    def targets(self, voxel_size: Sequence[float], *, flat: bool) -> _core.data.Targets:
        return _core.data.affinity_targets(
            list(self.offsets), balance=self.balance, descriptors=(0.0, 0.0, 0.0)
        )

    def values(self) -> tuple[list[tuple[int, int]], bool]:
        return [] if self.zero_is_boundary else [(0, -1)], False

    def objects(self, predicted: Array, agglomerate: Agglomerate) -> Array:
        return agglomerate(predicted, self.offsets[: len(predicted)])

    def score_of_patch(self, output: Array, truth: Array, weights: Array) -> float | None:
        """Return the average precision of boundaries, mean of the affinities that have some."""
        found = []
        for channel in range(len(self.offsets)):
            counts = _core.evaluate.VoxelCounts()
            counts.add_probabilities(1 - output, 1 - truth, weights, channel)
            if counts.object_voxels() > 0:
                found.append(counts.average_precision())
        return float(np.mean(found)) if found else None

    @staticmethod
    def scores_of(record: Mapping[str, Any]) -> list[tuple[float | None, float]]:
        """Return the average precision of boundaries (1 - affinity) of each offset, beside their share.

        Pairs without a boundary, or without anything else, have no score.
        """
        found = []
        for row in record["channels"].values():
            if (ones := row.get("share_of_ones")) is not None:
                own = row["boundary_average_precision"] if 0 < ones < 1 else None
                found.append((own, 1.0 - ones))
        return found


@dataclass(frozen=True, kw_only=True)
class ShapeDescriptors(Affinities):
    """Affinities with local shape descriptors (lsd) as ten more outputs.

    Source: Sheridan et al., "Local shape descriptors for neuron segmentation", Nature Methods 2023.
    """

    kind: str = option("lsd", "Affinities and local shape descriptors", choices=("lsd",))
    window: tuple[float, float, float] = option(
        (8.0, 8.0, 8.0),
        "Standard deviation (z, y, x) in voxels of the Gaussian window of descriptors, around each voxel",
        range=limits.WINDOW,
    )

    reason: ClassVar[str] = (
        "As asked for: a network that also predicts the shape of objects learns better affinities."
    )

    @property
    def channels(self) -> list[str]:
        return [*super().channels, *_DESCRIPTORS]

    def targets(self, voxel_size: Sequence[float], *, flat: bool) -> _core.data.Targets:
        return _core.data.affinity_targets(
            list(self.offsets),
            balance=self.balance,
            descriptors=(_NO_DEPTH if flat else self.window[0], *self.window[1:]),
        )
