# SPDX-License-Identifier: Apache-2.0
"""Values that every rank can compute for all ranks, their exact reductions, and bounds on rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import floodtide as ft

Array = np.ndarray[Any, np.dtype[Any]]

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "int64")
SHAPES: tuple[tuple[int, ...], ...] = ((17,), (5, 7), (3, 4, 5))


def values(rank: int, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Integers over the whole range of their type; floats between -2 and 2, not close to 0."""
    random = np.random.default_rng([seed, rank, len(shape)])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    magnitude = random.uniform(0.5, 2, shape)
    return (magnitude * random.choice([-1, 1], shape)).astype(dtype)


def all_values(shape: tuple[int, ...], dtype: str, ranks: list[int] | None = None) -> Array:
    """Every rank's values, stacked."""
    return np.stack([values(r, shape, dtype) for r in (ranks or range(ft.size()))])


def roundings(dtype: str, count: int) -> float:
    """Relative error of that many roundings to nearest."""
    unit = float(np.finfo(dtype).eps) / 2
    return math.expm1(count * math.log1p(unit))


def expect_reduced(got: Array, stack: Array, op: Any, scalings: int = 0, factor: Any = 1) -> None:
    """Compare with NumPy: integers exactly, floats with long double and the bound of their roundings.

    Args:
        stack: The ranks' values along axis 0; `factor` times them is what was reduced.
        scalings: Products and quotients by which a value is rounded beside those of the reduction.
    """
    dtype = stack.dtype.name
    assert got.dtype == stack.dtype
    assert got.shape == stack.shape[1:]
    if op is ft.Min or op is ft.Max:
        expected = stack.min(axis=0) if op is ft.Min else stack.max(axis=0)
        assert (got == expected).all(), op
        return
    if stack.dtype.kind in "iu":
        reduce = np.add.reduce if op is ft.Sum else np.multiply.reduce
        assert (got == reduce(stack, axis=0, dtype=stack.dtype)).all(), op  # both wrap around
        return
    exact = stack.astype(np.longdouble)
    growth = roundings(dtype, len(stack) - 1 + scalings)
    if op is ft.Product:
        expected, magnitude = exact.prod(axis=0), np.abs(exact.prod(axis=0))
    else:
        expected, magnitude = exact.sum(axis=0), np.abs(exact).sum(axis=0)
    bound = growth * magnitude * abs(factor)
    assert (np.abs(got - expected * factor) <= bound).all(), (op, dtype)


def expect_same_bits(array: Array) -> None:
    """All ranks hold the same."""
    assert len(set(ft.allgather_object(array.tobytes()))) == 1


def error_of(call: Callable[[], object], kind: type[Exception] = ft.errors.Error) -> str:
    """What a call raises; a failure if nothing."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no error")


def expect_refused_alike(call: Callable[[], object], kind: type[Exception]) -> str:
    """Every rank raises the same error, and goes on afterwards."""
    message = error_of(call, kind)
    assert ft.allgather_object(message) == [message] * ft.size()
    assert ft.allreduce(np.float32([1]), ft.Sum) == ft.size()
    return message
