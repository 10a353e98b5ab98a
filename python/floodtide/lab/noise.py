# SPDX-License-Identifier: Apache-2.0
"""The gradient noise scale of a network at fixed weights, from products of gradients of different patches.

With the expected gradient G and the trace S of the covariance of the gradients of single examples, the noise scale is
S / |G|^2: the number of examples whose mean gradient has as much noise as signal (McCandlish et al. 2018, arXiv
1812.06162). Products of the gradients of different patches have no noise in common, so their mean is an estimate of
|G|^2 without bias (a U-statistic). The meter of a training (`training.noise_scale`) compares the few gradients of each
step only, which does not resolve a gradient that is small, as at the end of a training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floodtide.base import limits
from floodtide.base.options import Range, option
from floodtide.train import gradient_products

Floats = NDArray[np.float64]

_SAMPLES = 4000
_SEED = 0
_INTERVAL = (2.5, 97.5)  # percentiles
_LEAST_PASSES = 2
_GROUPS = Range(8, 1024, "walkers")  # few have too narrow an interval


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much is measured."""

    minutes: float = option(10.0, "Duration of the measurement", range=limits.MINUTES)
    groups: int = option(
        32,
        "Number of walkers: groups of patches whose gradients are multiplied with each other",
        range=_GROUPS,
    )


@dataclass(frozen=True, kw_only=True)
class NoiseScale:
    """A noise scale in examples: fields of view of flood filling, or patches.

    Attributes:
        examples: The noise scale; infinite if no gradient can be told from the noise.
        low, high: 95 % interval, a bootstrap over groups.
        square: Estimate of the squared norm of the expected gradient.
    """

    examples: float
    low: float
    high: float
    square: float


def measure(
    file: str, overrides: tuple[str, ...], options: Options, progress: Callable[[int, int], None]
) -> tuple[NoiseScale, int]:
    """Return the noise scale of a network at fixed weights, and the examples measured.

    Args:
        file: A checkpoint of floodtide train, or a file CONFIG.toml whose model.initial_weights names the network;
            without it the weights are random.
        overrides: Texts SECTION.KEY=VALUE.
        options: How much is measured.
        progress: Called as progress(seconds done, seconds in all).

    Raises:
        floodtide.errors.Error: If the training could not start.
    """
    gradients = gradient_products(file, overrides, options.groups)
    seconds, start = 60 * options.minutes, time.monotonic()
    while (done := time.monotonic() - start) < seconds or gradients.passes < _LEAST_PASSES:
        progress(min(round(done), math.ceil(seconds) - 1), math.ceil(seconds))
        gradients.add_pass()
    found = estimate(gradients.products(), gradients.squares(), gradients.passes, gradients.batch)
    return found, gradients.passes * gradients.batch * options.groups


def estimate(products: Floats, squares: Floats, terms: int, batch: int = 1) -> NoiseScale:
    """Return the noise scale.

    Args:
        products: Inner products (groups, groups) of the sums of the groups' terms. A term is the mean gradient of a
            batch.
        squares: Sums (groups,) of the squared norms of the terms.
        terms: Number of terms of a group.
        batch: Examples of a term.
    """
    groups = len(squares)
    random = np.random.default_rng(_SEED)
    drawn = random.multinomial(groups, np.full(groups, 1 / groups), _SAMPLES)
    drawn = drawn[drawn.max(axis=1) < groups]  # one group alone has no pairs
    values = np.vstack(
        [np.ones(groups), drawn]
    )  # the measurement itself, then its bootstrap samples
    between = np.einsum("sa,ab,sb->s", values, products, values) - values**2 @ np.diag(products)
    pairs = values.sum(axis=1) ** 2 - (values**2).sum(axis=1)
    square = between / pairs / terms**2
    mean_square = values @ squares / (values.sum(axis=1) * terms)
    noise = batch * (mean_square - square)
    with np.errstate(divide="ignore"):
        scales = np.where(square > 0, noise / np.where(square > 0, square, 1.0), np.inf)
    low, high = np.percentile(scales[1:], _INTERVAL, method="nearest")
    return NoiseScale(
        examples=float(scales[0]), low=float(low), high=float(high), square=float(square[0])
    )
