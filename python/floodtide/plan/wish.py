# SPDX-License-Identifier: Apache-2.0
"""What a plan is made for."""

from __future__ import annotations

from dataclasses import dataclass

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
