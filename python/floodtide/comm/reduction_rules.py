# SPDX-License-Identifier: Apache-2.0
"""Rules of reductions: checks, scaling before and after the reduction, and buffers for groups of arrays."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np

from floodtide import _core
from floodtide.comm.arrays import Array, name_of_type, words_for
from floodtide.comm.world import ProcessSet
from floodtide.errors import InvalidArgumentError


class Op(enum.Enum):
    """The operation with which a reduction combines the values of the ranks."""

    SUM = "sum"
    AVERAGE = "average"
    MIN = "min"
    MAX = "max"
    PRODUCT = "product"


Sum: Final[Op] = Op.SUM
Average: Final[Op] = Op.AVERAGE
Min: Final[Op] = Op.MIN
Max: Final[Op] = Op.MAX
Product: Final[Op] = Op.PRODUCT


class Division(TypedDict, total=False):
    """Arguments of reductions by name. `floodtide.reduce_scatter` explains them."""

    wire: str | None
    process_set: ProcessSet | None
    prescale_factor: float
    postscale_factor: float


class How(Division, total=False):
    """Further arguments of allreduces by name. `floodtide.allreduce` explains them."""

    algorithm: str | None


_NAMES = frozenset(How.__annotations__)


# not frozen: a frozen one takes longer to make, and every reduction makes one
@dataclass(slots=True)
class Rule:
    """How a reduction combines values, and the name of the function that started it."""

    call: str
    op: Op
    algorithm: str | None = None
    wire: str | None = None
    process_set: ProcessSet | None = None
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0

    def __new__(cls, call: str, *_: Any, **how: Any) -> Rule:
        if not _NAMES.issuperset(how):
            raise InvalidArgumentError(
                f"{call}: has no argument {min(how.keys() - _NAMES)}, expected {', '.join(sorted(_NAMES))}"
            )
        return object.__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.op, Op):
            raise InvalidArgumentError(
                f"{self.call}: expected Sum, Average, Min, Max or Product, got {self.op!r}"
            )
        for name in ("prescale_factor", "postscale_factor"):
            value = getattr(self, name)
            if type(value) is float and math.isfinite(value):
                continue  # the usual case, without a slow test of types
            if not isinstance(value, float | int | np.floating | np.integer) or not math.isfinite(
                value
            ):
                raise InvalidArgumentError(
                    f"{self.call}: {name} is {value!r}, expected a finite number"
                )

    @property
    def reduction(self) -> str:
        """Return the core's name of the operation. An average is computed as a sum, then divided."""
        return "sum" if self.op is Average else str(self.op.value)

    def require(self, values: Array) -> None:
        """Raise InvalidArgumentError if this operation does not support the type of the values."""
        types = _core.comm.element_types
        if name_of_type(values.dtype) not in types:
            raise InvalidArgumentError(
                f"{self.call}: expected {', '.join(types[:-1])} or {types[-1]}, got {values.dtype}"
            )
        if self.op is Average and values.dtype.kind != "f":
            raise InvalidArgumentError(
                f"{self.call}: Average of {values.dtype}, expected floating point; for integers, use Sum and divide "
                "the result"
            )

    def words(self, arrays: Sequence[Array]) -> str:
        """Return a description of a call. Ranks compare this text, and error messages show it."""
        text = f"{self.op.value} of {words_for(arrays)}"
        if self.prescale_factor != 1:
            text += f", prescale {self.prescale_factor}"
        if self.postscale_factor != 1:
            text += f", postscale {self.postscale_factor}"
        return text

    def before(self, values: Array) -> None:
        """Scale the values of this rank in place, before the reduction."""
        if self.prescale_factor != 1:
            _scale(values, self.prescale_factor)

    def after(self, values: Array, contributors: int) -> None:
        """Divide by `contributors` for Average and scale the reduced values, in place."""
        if self.op is Average and values.dtype.itemsize == 2:  # float16
            np.divide(values, contributors, out=values, dtype=np.float32, casting="same_kind")
        elif self.op is Average:
            values /= contributors
        if self.postscale_factor != 1:
            _scale(values, self.postscale_factor)


def _wide(values: Array) -> Any:
    """Return the type in which floating-point values are scaled."""
    return np.float32 if values.dtype == np.float16 else values.dtype.type


def _scale(values: Array, factor: float) -> None:
    if values.dtype.kind == "f":
        wide = _wide(values)
        np.multiply(values, wide(factor), out=values, dtype=wide, casting="same_kind")
        return
    limits = np.iinfo(values.dtype)
    largest = float(limits.max)
    if int(largest) > limits.max:  # float64 cannot represent 2^63 - 1
        largest = math.nextafter(largest, 0)
    scaled = np.trunc(values * np.float64(factor))
    values[...] = np.clip(scaled, float(limits.min), largest).astype(values.dtype)


class Buffers:
    """Copies of several arrays in one buffer for each type, in the order in which types first occur."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._shapes = [array.shape for array in arrays]
        members: dict[np.dtype[Any], list[int]] = {}
        for number, array in enumerate(arrays):
            members.setdefault(array.dtype, []).append(number)
        self._members = list(members.values())
        self.buffers = [
            np.concatenate([arrays[number].ravel() for number in numbers])
            for numbers in self._members
        ]

    def parts(self) -> list[Array]:
        """Return one view of the buffers for each array, with the shapes and the order of the arrays."""
        parts: dict[int, Array] = {}
        for numbers, buffer in zip(self._members, self.buffers, strict=True):
            begin = 0
            for number in numbers:
                shape = self._shapes[number]
                length = math.prod(shape)
                parts[number] = buffer[begin : begin + length].reshape(shape)
                begin += length
        return [parts[number] for number in range(len(self._shapes))]
