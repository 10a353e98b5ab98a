# SPDX-License-Identifier: Apache-2.0
"""How fast this machine trains and runs a network: a few passes are timed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np

from floodtide import nn
from floodtide.data import Vec3

_LEAST_S = 3.0  # that passes are timed for
_LEAST_PASSES = 3
_QUIET = 0.25  # share of the passes that may be faster than the one that counts


def training_rate(model: nn.FFN, batch: int) -> float:
    """Return the fields of view per second of forward and backward passes, with all threads.

    Args:
        batch: Fields of view of a pass; each thread computes whole ones.
    """
    rng = np.random.default_rng(0)
    shape = (batch, *model.fov)
    image = rng.standard_normal(shape, dtype=np.float32)
    seeds = np.full(shape, -2.9, np.float32)
    labels = np.full(shape, 0.05, np.float32)
    return batch * _passes_per_s(lambda: model.loss_and_gradients(image, seeds, labels))


def patch_rate(model: nn.UNet, patch: Vec3, loss: str) -> float:
    """Return the patches per second of forward and backward passes of a U-Net, with all threads."""
    image = np.random.default_rng(0).standard_normal((1, *patch), dtype=np.float32)
    truth = (
        np.zeros((1, *patch), np.uint8)
        if model.excluding
        else np.ones((1, *patch, model.core.options.classes), np.float32)
    )
    return _passes_per_s(lambda: model.loss_and_gradients(image, truth, loss=loss))


def call_rate(model: nn.FFN) -> float:
    """Return the forward passes of one field of view per second, as segmentation makes them."""
    image = np.random.default_rng(0).standard_normal(model.fov, dtype=np.float32)
    seeds = np.full(model.fov, -2.9, np.float32)
    return _passes_per_s(lambda: model.forward(image, seeds))


def _passes_per_s(run: Callable[[], object]) -> float:
    run()  # allocates memory and chooses kernels
    ends_s = [time.monotonic()]
    while len(ends_s) <= _LEAST_PASSES or ends_s[-1] - ends_s[0] < _LEAST_S:
        run()
        ends_s.append(time.monotonic())
    # Another program makes some passes slow for a moment; it makes none fast.
    took_s = sorted(end - start for start, end in itertools.pairwise(ends_s))
    return 1 / max(took_s[int(_QUIET * len(took_s))], 1e-9)
