# SPDX-License-Identifier: Apache-2.0
"""U-Nets, and other networks of patches. Arrays are C-contiguous. Arrays of other types raise, without a cast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.networks import UNetOptions, section_of
from floodtide.base.options import typed
from floodtide.comm.arrays import accepts_tensors
from floodtide.errors import ShapeError
from floodtide.nn.losses import Labels, SegmentationLoss, Sum
from floodtide.nn.network import Array, Network

Truth = TypeVar("Truth", Labels, Array, Labels | Array)


class PatchNetwork(Network):
    """A network that predicts all voxels of an image in one pass, and learns each task of patches.

    Attributes:
        core: The network of the core. Its options say `in_channels`, `classes` (the outputs of a voxel) and `output`.
    """

    core: Any

    @property
    def flat(self) -> bool:
        """True if the network is two-dimensional: the sections of an image are independent."""
        return section_of(self.core).flat

    @property
    def excluding(self) -> bool:
        """True if a voxel has one of the outputs (softmax: classes); False if outputs are independent (sigmoid)."""
        return bool(self.core.options.output == "softmax")

    @accepts_tensors
    @typed()
    def forward(self, batch: Array) -> Array:
        """Return probabilities, float32 (n, z, y, x, classes). Batch normalisation uses its moving statistics.

        Several threads may call this at once.

        Args:
            batch: Normalised images, float32 (n, z, y, x), or with the channels as an additional last axis. Any size
                is accepted: zeros pad each axis to a multiple of `total_pool`.

        Raises:
            ShapeError: If the batch has another number of axes or channels.
        """
        images = self._images(batch)
        self._refresh()
        result: Array = self.core.forward(images)
        return result

    @accepts_tensors
    @typed()
    def loss_and_gradients(
        self,
        batch: Array,
        masks: Labels | Array,
        *,
        loss: str | SegmentationLoss = "dice+cross_entropy",
        weights: Array | None = None,
        groups: int = 1,
        examples: Sequence[int] = (),
        sum_over_ranks: Sum | None = None,
    ) -> tuple[float, dict[str, Array]]:
        """Return the mean loss over the images and {name: gradient}, and update the statistics of batch normalisation.

        Args:
            batch: As for `forward`, but each size must be a multiple of `total_pool`.
            masks: For softmax, the class of each voxel, uint8; voxels with class 255 are ignored. For sigmoid, targets
                in [0, 1], float32, with the outputs as last axis.
            loss: Name of a loss (see `SegmentationLoss.named`), or a loss.
            weights: For sigmoid, a weight for each target, of the same shape; None: all 1.
            groups: Number of equal parts of the batch; batch normalisation computes separate statistics for each part.
            examples: For dropout, one number per image that determines which outputs are dropped.
            sum_over_ranks: Function that takes numbers and returns their sums over all ranks. The Dice over the batch
                and synchronised statistics need it.

        Raises:
            ShapeError: If shapes do not match.
            InvalidArgumentError: If a mask contains a label that is not a class.
        """
        images = self._images(batch)
        truth = self._truth(images, masks)
        labels, targets = (truth, None) if self.excluding else (None, truth)
        gradients = np.zeros(self.core.parameters().size, np.float32)
        share = 1 / len(images)
        self._refresh()
        report = self.core.loss_and_gradients(
            images,
            labels,
            targets,
            None if weights is None else self._truth(images, weights),
            (SegmentationLoss.named(loss) if isinstance(loss, str) else loss).core(),
            groups,
            list(examples),
            gradients,
            share,
            sum_over_ranks,
        )
        self.core.move_statistics(gradients, 1)
        named = self._named(gradients)
        return report["loss"] * share, {name: named[name] for name in self._trained()}

    def parameters(self) -> dict[str, Array]:
        """Return {name: array} of the parameters that an optimizer changes. The arrays share memory with the network.

        The moving statistics of batch normalisation have no gradients and are not included: see `statistics`.
        """
        everything = super().parameters()
        return {name: everything[name] for name in self._trained()}

    def statistics(self) -> dict[str, Array]:
        """Return {name: array} of the moving statistics of batch normalisation. They share memory with the network.

        In your own training loop, broadcast the statistics together with the parameters.
        """
        everything, trained = super().parameters(), self._trained()
        return {name: array for name, array in everything.items() if name not in trained}

    def _trained(self) -> list[str]:
        """Return the names of all arrays except the moving statistics of batch normalisation."""
        end = self.core.trained_size()
        return [name for name, _, offset in self.core.layout() if offset < end]

    def _images(self, batch: Array) -> Array:
        channels = self.core.options.in_channels
        with_channels = batch if batch.ndim == 5 else batch[..., None]
        if with_channels.ndim != 5 or with_channels.shape[-1] != channels:
            expected = f"(n, z, y, x, {channels})" + (" or (n, z, y, x)" if channels == 1 else "")
            raise ShapeError(
                f"{type(self).__name__}: the batch has shape {batch.shape}, expected {expected}"
            )
        return with_channels

    def _truth(self, images: Array, truth: Truth) -> Truth:
        expected: tuple[int, ...] = images.shape[:-1]
        if not self.excluding:
            expected = (*expected, self.core.options.classes)
        if truth.shape != expected:
            raise ShapeError(
                f"{type(self).__name__}: a mask has shape {truth.shape}, expected {expected}"
            )
        return truth


class UNet(PatchNetwork):
    """A U-Net. It is two-dimensional, for single sections, if all kernels and pools of its options are 1 along z.

    Sources: Ronneberger et al., MICCAI 2015; Çiçek et al., MICCAI 2016.

    Args:
        options: The architecture; None: the defaults of `UNetOptions`.
        classes: The number of outputs per voxel.
        in_channels: The number of channels of the images.
        output: "softmax" for mutually exclusive classes, "sigmoid" for independent outputs.
        seed: The random seed of the initial weights and of dropout.
        compute: "fp32"; "fp32-direct" for convolutions without Winograd transforms.

    Raises:
        InvalidArgumentError: If an argument is out of range.
    """

    core: _core.UNet

    @typed()
    def __init__(
        self,
        options: UNetOptions | None = None,
        *,
        classes: int = 2,
        in_channels: int = 1,
        output: str = "softmax",
        seed: int = 0,
        compute: str = "fp32",
    ) -> None:
        limits.CLASSES.check(classes, "UNet: classes")
        limits.UNET_CHANNELS.check(in_channels, "UNet: in_channels")
        limits.SEED.check(seed, "UNet: seed")
        made = (options or UNetOptions()).core(
            classes=classes, in_channels=in_channels, output=output, seed=seed, compute=compute
        )
        super().__init__(_core.UNet(made), seed=seed)
