# SPDX-License-Identifier: Apache-2.0
"""Limits of gradients, in place, on {name: array} dictionaries of float32 arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

from floodtide import _core
from floodtide.errors import InvalidArgumentError
from floodtide.optim.optimizers import Array


def clip(gradients: Mapping[str, Array], limit: float) -> None:
    """Limit each entry to [-limit, limit], as google/ffn does (0.7 there)."""
    for array in gradients.values():
        _core.clip_entries(array, limit)


def clip_norm(gradients: Mapping[str, Array], limit: float) -> float:
    """Multiply all gradients by one factor, so that their norm is at most `limit`. Return the norm before.

    Source: Pascanu et al., ICML 2013; torch.nn.utils.clip_grad_norm_.

    Raises:
        InvalidArgumentError: If the limit is not positive.
    """
    if not limit > 0:
        raise InvalidArgumentError(f"clip: the limit is {limit}, expected a positive number")
    norm = math.sqrt(sum(_core.square_sum(array) for array in gradients.values()))
    factor = _core.norm_factor(norm, limit)
    if factor != 1:
        for array in gradients.values():
            array *= factor
    return norm


def clip_adaptive(
    parameters: Mapping[str, Array], gradients: Mapping[str, Array], limit: float
) -> None:
    """Limit the norm of each unit's gradient to `limit` times the norm of its weights.

    A unit is one output channel (the last axis) of an array with several axes, or all of an array with one axis.
    Source: Brock et al., ICML 2021, section 4.

    Raises:
        InvalidArgumentError: If the limit is not positive.
        ShapeError: If a shape differs.
    """
    for name, array in gradients.items():
        _core.clip_adaptive(parameters[name], array, limit)
