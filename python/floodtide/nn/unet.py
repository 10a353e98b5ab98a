# SPDX-License-Identifier: Apache-2.0
"""U-Nets. Arrays are C-contiguous; nothing is cast silently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.errors import ShapeError
from floodtide.nn.losses import Labels, SegmentationLoss, Sum, labels_or_targets, loss_of
from floodtide.nn.network import Array, Network

Truth = TypeVar("Truth", Labels, Array, Labels | Array)

_UNET = Arguments(
    depth=limits.UNET_DEPTH,
    features=limits.UNET_FEATURES,
    classes=limits.CLASSES,
    in_channels=limits.UNET_CHANNELS,
    kernels=limits.KERNEL,
    pools=limits.POOL,
    dropout=limits.DROPOUT,
    seed=limits.SEED,
)


class UNet(Network):
    """A U-Net for volumes; see UNet2D and UNet3D for what scripts use."""

    core: _core.UNet
    _spatial = 3

    def like(self) -> UNet:
        """Return a new network of the same shape, with weights drawn from the same seed."""
        core = self.core
        network = object.__new__(type(self))
        Network.__init__(
            network,
            _core.UNet(
                core.in_channels,
                core.classes,
                core.depth,
                core.features,
                core.kernels,
                core.pools,
                core.output,
                core.batch_norm,
                core.synchronised,
                core.dropout,
                self.seed,
                core.compute,
                "",
            ),
            seed=self.seed,
        )
        return network

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(depth={self.core.depth}, features={self.core.features}, "
            f"classes={self.core.classes}, in_channels={self.core.in_channels})"
        )

    def forward(self, batch: Array) -> Array:
        """Return probabilities, with batch norm's moving statistics.

        Args:
            batch: Normalised images (n, y, x) or (n, z, y, x), or with the channels as last axis, of
                any size. Inside, zeros follow each axis up to a multiple of `total_pool`.

        Returns:
            The batch's shape without channels, followed by the classes.

        Raises:
            ShapeError: If the batch has another rank or another number of channels.
        """
        images = self._images(batch)
        with self._lock:
            self._refresh()
            probabilities = self.core.forward(images)
        return probabilities.reshape(*self._outer(images), self.core.classes)

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
        """Return the mean loss and its gradients, and move batch norm's moving statistics.

        Args:
            batch: As for `forward`; each extent a multiple of `total_pool`.
            masks: Softmax: the class of each voxel, uint8, 255 where it does not count. Sigmoid: targets in
                [0, 1], float32, with the channels as last axis.
            loss: A name (see `SegmentationLoss.named`) or a loss.
            weights: Sigmoid: of each target, of their shape, or None for ones.
            groups: Equal parts of the batch with batch norm statistics of their own.
            examples: With dropout a number for each image; it decides what is dropped.
            sum_over_ranks: Takes numbers and returns their sums over all ranks, for the Dice over the
                batch and synchronised statistics.

        Returns:
            The mean over this batch's images, and {name: gradient} of it.

        Raises:
            ShapeError: If shapes do not fit each other.
            InvalidArgumentError: If a mask has a label that is no class.
        """
        images = self._images(batch)
        truth = self._truth(images, masks)
        labels, targets = labels_or_targets(self.core.output, truth)
        gradients = np.zeros(self.core.parameters().size, np.float32)
        share = 1 / len(images)
        with self._lock:
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
        """Return {name: array} of what an optimizer changes; the arrays share memory with the network.

        Batch norm's moving statistics are none of them, because they have no gradients: see `statistics`.
        """
        everything = super().parameters()
        return {name: everything[name] for name in self._trained()}

    def statistics(self) -> dict[str, Array]:
        """Return {name: array} of batch norm's moving statistics; the arrays share memory with the network.

        Ranks that train by a loop of their own broadcast them beside the parameters.
        """
        everything, trained = super().parameters(), self._trained()
        return {name: array for name, array in everything.items() if name not in trained}

    def _trained(self) -> list[str]:
        """Names of all arrays but batch norm's moving statistics."""
        end = self.core.trained_size()
        return [name for name, _, offset in self.core.layout() if offset < end]

    def _outer(self, images: Array) -> tuple[int, ...]:
        """Images and space of a batch (n, z, y, x, channels), as users see them."""
        n, *space = images.shape[:-1]
        return (n, *space[3 - self._spatial :])

    def _images(self, batch: Array) -> Array:
        channels, space = self.core.in_channels, self._spatial
        with_channels = batch if batch.ndim == space + 2 else batch[..., None]
        if with_channels.ndim != space + 2 or with_channels.shape[-1] != channels:
            axes = "(n, y, x" if space == 2 else "(n, z, y, x"
            expected = f"{axes}, {channels})" + (f" or {axes})" if channels == 1 else "")
            raise ShapeError(f"UNet: the batch has shape {batch.shape}, expected {expected}")
        return self._with_z(with_channels)

    def _truth(self, images: Array, truth: Truth) -> Truth:
        expected: tuple[int, ...] = self._outer(images)
        if self.core.output == "sigmoid":
            expected = (*expected, self.core.classes)
        if truth.shape != expected:
            raise ShapeError(f"UNet: a mask has shape {truth.shape}, expected {expected}")
        return self._with_z(truth)

    def _with_z(self, array: Truth) -> Truth:
        return array[:, None] if self._spatial == 2 else array


class UNet2D(UNet):
    """A U-Net for slices: at each level two 3x3 convolutions, 2x2 pools between levels.

    Args:
        depth: Levels of resolution.
        features: Channels of the first level, a multiple of 16; each further level has twice as many.
        classes: Outputs.
        in_channels: Channels of the images.
        output: "softmax" for classes that exclude each other, "sigmoid" for independent ones.
        batch_norm: After each convolution, before its ReLU.
        synchronised: Its statistics are those of all images of all ranks.
        dropout: Share of the lowest level's outputs that training drops.
        seed: Of the initial weights and of dropout.
        compute: "fp32", or "fp32-direct" for convolutions without Winograd's transforms.

    Raises:
        InvalidArgumentError: If an argument is out of range.

    Source: Ronneberger et al., MICCAI 2015.
    """

    _spatial = 2

    def __init__(
        self,
        depth: int = 5,
        features: int = 16,
        classes: int = 2,
        in_channels: int = 1,
        output: str = "softmax",
        batch_norm: bool = True,
        synchronised: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
        compute: str = "fp32",
    ) -> None:
        _UNET.check(
            "UNet2D",
            depth=depth,
            features=features,
            classes=classes,
            in_channels=in_channels,
            dropout=dropout,
            seed=seed,
        )
        super().__init__(
            _core.UNet(
                in_channels,
                classes,
                depth,
                features,
                [(1, 3, 3)],
                [(1, 2, 2)],
                output,
                batch_norm,
                synchronised,
                dropout,
                seed,
                compute,
                "",
            ),
            seed=seed,
        )


class UNet3D(UNet):
    """A U-Net for volumes, by default one for sections that lie further apart than their voxels.

    Args:
        depth: Levels of resolution.
        features: Channels of the first level, a multiple of 16; each further level has twice as many.
        classes: Outputs, such as three affinities.
        in_channels: Channels of the images.
        kernels: (z, y, x) of the convolutions, 1 or 3 each: one for all levels or one a level.
        pools: (z, y, x) from level to level, 1 to 4 each: one for all or depth - 1.
        output: "softmax" for classes that exclude each other, "sigmoid" for independent ones.
        batch_norm, synchronised, dropout, seed, compute: As for `UNet2D`.

    Raises:
        InvalidArgumentError: If an argument is out of range.

    Source: Çiçek et al., MICCAI 2016.
    """

    def __init__(
        self,
        depth: int = 4,
        features: int = 16,
        classes: int = 3,
        in_channels: int = 1,
        kernels: Sequence[Sequence[int]] = ((1, 3, 3), (3, 3, 3), (3, 3, 3), (3, 3, 3)),
        pools: Sequence[Sequence[int]] = ((1, 2, 2), (2, 2, 2), (2, 2, 2)),
        output: str = "sigmoid",
        batch_norm: bool = True,
        synchronised: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
        compute: str = "fp32",
    ) -> None:
        _UNET.check(
            "UNet3D",
            depth=depth,
            features=features,
            classes=classes,
            in_channels=in_channels,
            kernels=kernels,
            pools=pools,
            dropout=dropout,
            seed=seed,
        )
        super().__init__(
            _core.UNet(
                in_channels,
                classes,
                depth,
                features,
                [tuple(kernel) for kernel in kernels],
                [tuple(pool) for pool in pools],
                output,
                batch_norm,
                synchronised,
                dropout,
                seed,
                compute,
                "",
            ),
            seed=seed,
        )


def of_core(core: _core.UNet) -> UNet:
    """The network of a core, as the class that makes such ones."""
    slices = core.kernels == [[1, 3, 3]] and core.pools == [[1, 2, 2]]
    network = object.__new__(UNet2D if slices else UNet3D)
    Network.__init__(network, core)
    return network
