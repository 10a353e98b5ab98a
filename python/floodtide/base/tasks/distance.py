# SPDX-License-Identifier: Apache-2.0
"""The distance to the boundary of an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option
from floodtide.base.tasks.affinities import NEAREST
from floodtide.base.tasks.task import Agglomerate, Array, PatchTask

_FAR = 1e6  # voxels to the next section


@dataclass(frozen=True, kw_only=True)
class Distance(PatchTask):
    """The distance d to the boundary, as 1/2 + tanh(d / scale) / 2: above 1/2 in objects, below it outside."""

    kind: str = option("distance", "Distance to the boundary", choices=("distance",))
    scale: float = option(
        8.0,
        "Distance at which the target is 0.88, in voxels along x (other axes count by their voxel size)",
        range=limits.DISTANCE_SCALE,
    )

    reason: ClassVar[str] = "As asked for: the distance to the boundary of an object."
    score_name: ClassVar[str] = "explained variance"
    measures: ClassVar[bool] = True
    pictured: ClassVar[str] = "distance"
    legend: ClassVar[str] = (
        "White: deep inside an object; grey: its boundary; black: far outside; beige: not counted."
    )

    @property
    def channels(self) -> list[str]:
        return ["distance"]

    def targets(self, voxel_size: Sequence[float], *, flat: bool) -> _core.data.Targets:
        z, y, x = voxel_size
        if flat:  # distances in the section
            z = _FAR * x
        return _core.data.distance_targets(self.scale, voxel_size=(z / x, y / x, 1.0))

    def objects(self, predicted: Array, agglomerate: Agglomerate) -> Array:
        """Return the objects of distances.

        The affinity of two neighbours is the smaller distance of both, scaled to 0 at the boundary and 1 far from it.
        """
        inside = np.clip(2 * predicted[0].astype(np.float32) - 1, 0, 1)
        affinities = np.zeros((3, *inside.shape), np.float32)
        for axis in range(3):
            here, values = (np.moveaxis(one, axis, 0) for one in (inside, affinities[axis]))
            values[1:] = np.minimum(here[1:], here[:-1])
        labels = agglomerate(affinities, NEAREST)
        labels[inside == 0] = 0
        return labels

    @staticmethod
    def scores_of(record: Mapping[str, Any]) -> list[tuple[float | None, float]]:
        """Return the explained share of the variance, beside that of the best constant: 0."""
        return [(explained(row), 0.0) for row in record["channels"].values()]


def explained(row: Mapping[str, Any]) -> float | None:
    """Return the share of the variance of a soft channel that predictions explain; None if it has none."""
    variance = row["variance"]
    return 1.0 - row["mean_squared_error"] / variance if variance else None
