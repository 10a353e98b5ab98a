# SPDX-License-Identifier: Apache-2.0
"""U-Nets, of two or three dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide import _core
from floodtide.base import limits
from floodtide.base.networks.network import Architecture, NetworkConfig, Vec3
from floodtide.base.options import option


@dataclass(frozen=True, kw_only=True)
class UNetOptions(Architecture):
    """Architecture of a U-Net. It is two-dimensional if all kernels and pools are 1 along z."""

    core_options = _core.UNetOptions
    core_network = _core.UNet

    depth: int = option(4, "Number of resolution levels", range=limits.UNET_DEPTH)
    features: int = option(
        16,
        "Number of feature maps of the first level, a multiple of 16; each further level has twice as many",
        range=limits.UNET_FEATURES,
    )
    kernels: tuple[Vec3, ...] = option(
        ((3, 3, 3),),
        "Kernel sizes (z, y, x), each 1 or 3: one for all levels, or one for each; [[1, 3, 3]] sees single sections",
        range=limits.KERNEL,
    )
    pools: tuple[Vec3, ...] = option(
        ((2, 2, 2),),
        "Pooling factors (z, y, x) from each level to the next: one entry for all, or depth - 1 entries",
        range=limits.POOL,
    )
    batch_norm: bool = option(
        True, "Normalise the output of each convolution over the batch (batch normalisation)"
    )
    synchronised: bool = option(
        False,
        "Compute the statistics of batch normalisation over the batches of all walkers, not over each walker's batch",
    )
    dropout: float = option(
        0.0, "Share of the lowest level's outputs that training sets to zero", range=limits.DROPOUT
    )

    @property
    def flat(self) -> bool:
        return all(size[0] == 1 for size in (*self.kernels, *self.pools))

    @property
    def total_pool(self) -> Vec3:
        z, y, x = map(math.prod, self._of_axes(self.pools, self.depth - 1))
        return z, y, x

    @property
    def context(self) -> Vec3:
        pools = self._of_axes(self.pools, self.depth - 1)
        z, y, x = map(_context, self._of_axes(self.kernels, self.depth), pools)
        return z, y, x

    @staticmethod
    def _of_axes(values: Sequence[Vec3], count: int) -> list[list[int]]:
        """Return the sizes of all levels along z, y and x."""
        levels = list(values) * count if len(values) == 1 else values[:count]
        return [[size[axis] for size in levels] for axis in range(3)]


@dataclass(frozen=True, kw_only=True)
class UNetConfig(UNetOptions, NetworkConfig):
    """A U-Net, of two or three dimensions."""

    kind: str = option("unet", "U-Net", choices=("unet",))


def _context(kernels: Sequence[int], pools: Sequence[int]) -> int:
    """Return the context along an axis, rounded up to the pools: the reach down the levels and up again.

    A level has a kernel for its four convolutions: two in the encoder, two in the decoder. The lowest level has two.
    """
    levels = list(zip(kernels, pools, strict=False))
    reach = 0
    for kernel, pool in levels:
        reach = math.ceil((reach + 2 * (kernel // 2)) / pool)
    reach += 2 * (kernels[-1] // 2)
    for kernel, pool in reversed(levels):
        reach = reach * pool + 2 * (kernel // 2)
    total = math.prod(pools)
    return math.ceil(reach / total) * total
