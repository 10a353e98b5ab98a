# SPDX-License-Identifier: Apache-2.0
"""Limits of gradients, in place, on {name: array} dictionaries of float32 arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from floodtide.errors import InvalidArgumentError
from floodtide.optim.optimizers import Array


def clip(gradients: Mapping[str, Array], limit: float) -> None:
    """Limit each entry to [-limit, limit], as google/ffn does (0.7 there).

    Raises:
        InvalidArgumentError: If the limit is not positive.
    """
    _check(limit)
    for array in gradients.values():
        np.clip(array, -limit, limit, out=array)


def clip_norm(gradients: Mapping[str, Array], limit: float) -> float:
    """Multiply all gradients by one factor, so that their norm is at most `limit`. Return the norm before.

    Source: Pascanu et al., ICML 2013; torch.nn.utils.clip_grad_norm_.

    Raises:
        InvalidArgumentError: If the limit is not positive.
    """
    _check(limit)
    squares = [float(np.square(array, dtype=np.float64).sum()) for array in gradients.values()]
    norm = math.sqrt(sum(squares))
    factor = min(1.0, limit / (norm + 1e-6))
    if factor != 1:
        for array in gradients.values():
            array *= factor
    return norm


def _check(limit: float) -> None:
    if not limit > 0:
        raise InvalidArgumentError(f"clip: the limit is {limit}, expected a positive number")
