# SPDX-License-Identifier: Apache-2.0
"""Affinities, and beside them local shape descriptors, which a network learns for better affinities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option
from floodtide.base.tasks.affinities import Affinities

_DESCRIPTORS = (
    *(f"offset {axis}" for axis in "zyx"),
    *(f"variance {axis}" for axis in "zyx"),
    *(f"correlation {axes}" for axes in ("zy", "zx", "yx")),
    "size",
)

_NO_DEPTH = 0.05  # voxels of a window that sees one section


@dataclass(frozen=True, kw_only=True)
class ShapeDescriptors(Affinities):
    """Affinities with local shape descriptors (lsd) as ten more outputs.

    Source: Sheridan et al., "Local shape descriptors for neuron segmentation", Nature Methods 2023.
    """

    kind: str = option("lsd", "Affinities and local shape descriptors", choices=("lsd",))
    window: tuple[float, float, float] = option(
        (8.0, 8.0, 8.0),
        "Standard deviation (z, y, x) in voxels of the Gaussian window around a voxel, of which descriptors are"
        " statistics",
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
