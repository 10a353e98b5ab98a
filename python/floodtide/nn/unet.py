# SPDX-License-Identifier: Apache-2.0
"""U-Nets. Arrays are C-contiguous. Arrays of other types raise, without a cast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.network_options import SLICE_KERNELS, SLICE_POOLS, UNet3DOptions, UNetOptions
from floodtide.base.options import Arguments
from floodtide.errors import ShapeError
from floodtide.nn.losses import Labels, SegmentationLoss, Sum, labels_or_targets, loss_of
from floodtide.nn.network import Array, Network

Truth = TypeVar("Truth", Labels, Array, Labels | Array)

_UNET = Arguments(classes=limits.CLASSES, in_channels=limits.UNET_CHANNELS, seed=limits.SEED)


class UNet(Network):
    """Base class of `UNet2D` for slices and `UNet3D` for volumes.

    Args:
        options: The architecture. None means the defaults of the class.
        classes: The number of outputs per voxel. None means 2 for UNet2D, and 3 affinities for UNet3D.
        in_channels: The number of channels of the images.
        output: "softmax" for mutually exclusive classes, "sigmoid" for independent outputs. None means softmax for
            UNet2D, and sigmoid for UNet3D.
        seed: The random seed of the initial weights and of dropout.
        compute: "fp32"; "fp32-direct" for convolutions without Winograd transforms.

    Raises:
        InvalidArgumentError: If an argument is out of range.
    """

    core: _core.UNet
    _spatial = 3
    _default_options: UNetOptions = UNet3DOptions()
    _default_classes, _default_output = 3, "sigmoid"

    def __init__(
        self,
        options: UNetOptions | None = None,
        *,
        classes: int | None = None,
        in_channels: int = 1,
        output: str | None = None,
        seed: int = 0,
        compute: str = "fp32",
    ) -> None:
        classes = self._default_classes if classes is None else classes
        _UNET.check(type(self).__name__, classes=classes, in_channels=in_channels, seed=seed)
        made = (options or self._default_options).core(
            classes=classes,
            in_channels=in_channels,
            output=self._default_output if output is None else output,
            seed=seed,
            compute=compute,
        )
        super().__init__(_core.UNet(made), seed=seed)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(depth={self.core.options.depth}, features={self.core.options.features}, "
            f"classes={self.core.options.classes}, in_channels={self.core.options.in_channels})"
        )

    def forward(self, batch: Array) -> Array:
        """Return probabilities. Batch normalisation uses its moving statistics. Several threads may call this at once.

        Args:
            batch: Normalised images, float32 (n, y, x) for UNet2D or (n, z, y, x) for UNet3D, or with the channels as
                an additional last axis. Any size is accepted: zeros pad each axis to a multiple of `total_pool`.

        Returns:
            float32 probabilities of shape (n, y, x, classes) or (n, z, y, x, classes).

        Raises:
            ShapeError: If the batch has another number of axes or channels.
        """
        images = self._images(batch)
        self._refresh()
        probabilities = self.core.forward(images)
        return probabilities.reshape(*self._outer(images), self.core.options.classes)

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
        """Return the mean loss and its gradients, and update the moving statistics of batch normalisation.

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

        Returns:
            The mean loss over the images of this batch, and {name: gradient}.

        Raises:
            ShapeError: If shapes do not match.
            InvalidArgumentError: If a mask contains a label that is not a class.
        """
        images = self._images(batch)
        truth = self._truth(images, masks)
        labels, targets = labels_or_targets(self.core.options.output, truth)
        gradients = np.zeros(self.core.parameters().size, np.float32)
        share = 1 / len(images)
        self._refresh()
        report = self.core.loss_and_gradients(
            images,
            labels,
            targets,
            None if weights is None else self._truth(images, weights),
            loss_of(loss).core(),
            groups,
            list(examples),
            gradients,
            share,
            sum_over_ranks,
        )
        self.core.move_statistics(gradients, 1)
        named = self._named(gradients)
        trained = self._trained()
        return report["loss"] * share, {name: named[name] for name in trained}

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

    def _outer(self, images: Array) -> tuple[int, ...]:
        """Return (n, y, x) or (n, z, y, x) of a batch of shape (n, z, y, x, channels)."""
        n, *space = images.shape[:-1]
        return (n, *space[3 - self._spatial :])

    def _images(self, batch: Array) -> Array:
        channels, space = self.core.options.in_channels, self._spatial
        with_channels = batch if batch.ndim == space + 2 else batch[..., None]
        if with_channels.ndim != space + 2 or with_channels.shape[-1] != channels:
            axes = "(n, y, x" if space == 2 else "(n, z, y, x"
            expected = f"{axes}, {channels})" + (f" or {axes})" if channels == 1 else "")
            raise ShapeError(f"UNet: the batch has shape {batch.shape}, expected {expected}")
        return self._with_z(with_channels)

    def _truth(self, images: Array, truth: Truth) -> Truth:
        expected: tuple[int, ...] = self._outer(images)
        if self.core.options.output == "sigmoid":
            expected = (*expected, self.core.options.classes)
        if truth.shape != expected:
            raise ShapeError(f"UNet: a mask has shape {truth.shape}, expected {expected}")
        return self._with_z(truth)

    def _with_z(self, array: Truth) -> Truth:
        return array[:, None] if self._spatial == 2 else array


class UNet2D(UNet):
    """A 2-D U-Net for slices, with 3x3 convolutions, and 2x2 pooling between levels. See `UNet` for the arguments.

    Source: Ronneberger et al., MICCAI 2015.
    """

    _spatial = 2
    _default_options = UNetOptions()
    _default_classes, _default_output = 2, "softmax"


class UNet3D(UNet):
    """A 3-D U-Net for volumes. Anisotropic volumes need other kernels and pools than the defaults. See `UNet`.

    Source: Çiçek et al., MICCAI 2016.
    """


def network_of(core: _core.UNet) -> UNet:
    """Return the Python network of a core network: a UNet2D if its kernels and pools are 2-D, else a UNet3D."""
    options = core.options
    slices = options.kernels == SLICE_KERNELS and options.pools == SLICE_POOLS
    return (UNet2D if slices else UNet3D).of_core(core)
