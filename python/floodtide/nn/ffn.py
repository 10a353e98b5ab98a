# SPDX-License-Identifier: Apache-2.0
"""Flood-filling networks. Arrays are C-contiguous float32 with axes (z, y, x). Other types raise, without a cast."""

from __future__ import annotations

import functools
import math
import timeit
from collections.abc import Sequence
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.networks import FfnOptions
from floodtide.base.options import named_as, typed
from floodtide.comm.arrays import accepts_tensors
from floodtide.errors import ShapeError
from floodtide.nn.network import Array, Network

# passes of a round that are measured, and least ratio of their times for Fourier transforms
_PASSES, _WORTH = 3, 1.1


class FFN(Network):
    """A flood-filling network. It takes an image and an object map (logits), and returns updated logits.

    Args:
        depth: Number of modules: one input module and depth - 1 residual modules. Each has two 3x3x3 convolutions.
        fov: Size (z, y, x) of the field of view in voxels, odd numbers. `forward` accepts any size.
        deltas: Distance (z, y, x) in voxels by which the field of view moves, at most (fov - 1) / 2.
        features: Number of feature maps between the convolutions.
        seed: Random seed of the Glorot-uniform weights. Biases start at zero.
        compute: "fp32"; "fp32-direct" for convolutions without Winograd transforms; "bf16" for operands of convolutions
            in bfloat16, on processors with AMX, for features in multiples of 32.
        parallel: How threads divide the work. "fovs": each thread computes whole examples, if the batch has at least
            as many examples as there are threads. "voxels": all threads share the voxels of each example.

    Raises:
        InvalidArgumentError: If an argument is out of range.

    Source: Januszewski et al., Nature Methods 15 (2018), 605-610.
    """

    core: _core.Ffn

    @typed()
    def __init__(
        self,
        depth: int = 9,
        fov: Sequence[int] = (33, 33, 33),
        deltas: Sequence[int] = (8, 8, 8),
        features: int = 32,
        seed: int = 0,
        compute: str = "fp32",
        parallel: str = "fovs",
    ) -> None:
        limits.SEED.check(seed, "FFN: seed")
        sizes: Any = tuple(fov), tuple(deltas)
        with named_as("FFN: "):
            made = FfnOptions(depth=depth, features=features, fov=sizes[0], deltas=sizes[1])
        options = made.core(seed=seed, compute=compute, parallel=parallel)
        super().__init__(_core.Ffn(options), seed=seed)

    @property
    def depth(self) -> int:
        """Return the number of modules."""
        return self.core.options.depth

    @property
    def features(self) -> int:
        """Return the number of feature maps between the convolutions."""
        return self.core.options.features

    @property
    def fov(self) -> tuple[int, int, int]:
        """Return the size (z, y, x) of the field of view in voxels."""
        return self.core.options.fov

    @property
    def deltas(self) -> tuple[int, int, int]:
        """Return the distance (z, y, x) in voxels by which the field of view moves."""
        return self.core.options.deltas

    @property
    def patch_size(self) -> tuple[int, int, int]:
        """Return the size (z, y, x) in voxels of a training example: the field of view plus `deltas` on each side."""
        return FfnOptions(fov=self.fov, deltas=self.deltas).patch_size

    @accepts_tensors
    @typed()
    def forward(self, image: Array, logits: Array, by: str | None = None) -> Array:
        """Return the updated logits. Several threads may call this at the same time.

        Args:
            image: Normalised intensities, (z, y, x) or (n, z, y, x), with at least one voxel.
            logits: Object map before the update, of the same shape.
            by: How convolutions are computed: "layers", "fft" (layer by layer if the processor or the size does not
                allow Fourier transforms), or None: as training passes do.

        Raises:
            ShapeError: If the shapes differ, or have neither 3 nor 4 axes.
        """
        images, seeds = _batches(image=image, logits=logits)
        self._refresh()
        updated: Array = self.core.forward(images, seeds, by)
        return updated.reshape(image.shape)

    def fastest_forward(self) -> tuple[str, float | None]:
        """Measure passes of the field of view in each way. This takes the time of about 16 passes.

        Returns:
            "fft" or "layers", and how many times as fast Fourier transforms are; None: the size or the processor does
            not allow them. They must be at least 1.1 times as fast, so that the choice seldom depends on other load.
        """
        if self.core.fft_unsupported(self.fov):
            return "layers", None
        network = _core.Ffn(self.core.options)
        image, logits = np.random.default_rng(1).standard_normal((2, 1, *self.fov), np.float32)
        seconds = {"layers": math.inf, "fft": math.inf}
        for by in (*seconds, *seconds):
            run = functools.partial(network.forward, image, logits, by)
            run()  # plans memory and weights
            seconds[by] = min(seconds[by], *timeit.repeat(run, number=1, repeat=_PASSES))
        speedup = seconds["layers"] / seconds["fft"]
        return "fft" if speedup >= _WORTH else "layers", speedup

    @accepts_tensors
    @typed()
    def loss_and_gradients(
        self, image: Array, logits: Array, labels: Array, weights: Array | None = None
    ) -> tuple[float, dict[str, Array]]:
        """Return the mean sigmoid cross-entropy of the updated logits, and {name: gradient} without clipping.

        Args:
            image, logits: As for `forward`.
            labels: Target probabilities in [0, 1], of the same shape.
            weights: Voxel weights of the same shape; None: all 1. The loss is the weighted sum divided by the number
                of voxels.

        Raises:
            ShapeError: If the shapes differ, or have neither 3 nor 4 axes.
        """
        given = {"image": image, "logits": logits, "labels": labels}
        if weights is not None:
            given["weights"] = weights
        images, seeds, targets, *more = _batches(**given)
        gradients = np.zeros(self.core.parameters().size, np.float32)
        self._refresh()
        losses = self.core.loss_and_gradients(
            images, seeds, targets, more[0] if more else None, gradients, 1 / len(images)
        )
        return float(np.mean(losses)), self._named(gradients)


def _batches(**arrays: Array) -> list[Array]:
    """Return arrays of the image's shape with an axis of examples."""
    shape = arrays["image"].shape
    if len(shape) not in (3, 4) or 0 in shape:
        raise ShapeError(
            f"FFN: image has shape {shape}, expected (z, y, x) or (n, z, y, x) with at least one voxel"
        )
    for name, array in arrays.items():
        if array.shape != shape:
            raise ShapeError(
                f"FFN: {name} has shape {array.shape}, expected {shape} like the image"
            )
    return [array if array.ndim == 4 else array[None] for array in arrays.values()]
