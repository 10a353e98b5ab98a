# SPDX-License-Identifier: Apache-2.0
"""Sums, averages, minima, maxima and products of NumPy arrays over ranks, with the names that Horovod uses.

Every function here is Collective: all ranks call it, in the same order, with arrays of the same shapes and types.
"""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from floodtide import _core
from floodtide.comm.arrays import Array, accepts_tensors, in_place, words_for
from floodtide.comm.collectives import Handle, Result, compared_as_one, completed, joint, ranks_of
from floodtide.comm.world import ProcessSet
from floodtide.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


class How(TypedDict, total=False):
    """Further arguments of reductions by name. `floodtide.allreduce` explains them."""

    algorithm: str | None
    wire: str | None
    process_set: ProcessSet | None
    prescale_factor: float
    postscale_factor: float


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
            number = isinstance(value, (float, int, np.floating, np.integer))
            if not number or not math.isfinite(value):
                raise InvalidArgumentError(
                    f"{self.call}: {name} is {value!r}, expected a finite number"
                )

    @property
    def reduction(self) -> str:
        """Return the core's name of the operation. An average is computed as a sum, then divided."""
        return "sum" if self.op is Average else str(self.op.value)

    def before(self, values: Array) -> None:
        """Scale the values of this rank in place, before the reduction. The core refuses types that it does not have.

        Raises:
            InvalidArgumentError: For an average of values that are no floating-point numbers.
        """
        if self.op is Average and values.dtype.kind != "f":
            raise InvalidArgumentError(
                f"{self.call}: Average of {values.dtype}, expected floating point; for integers, divide a Sum"
            )
        _scale(values, self.prescale_factor)

    def words(self, arrays: Sequence[Array]) -> str:
        """Return a description of a call. Ranks compare this text, and error messages show it."""
        text = f"{self.op.value} of {words_for(arrays)}"
        factors = {"prescale": self.prescale_factor, "postscale": self.postscale_factor}
        return text + "".join(f", {name} {one}" for name, one in factors.items() if one != 1)

    def after(self, values: Array, contributors: int) -> None:
        """Divide by `contributors` for Average and scale the reduced values, in place."""
        if self.op is Average:
            wide = _wide(values)
            np.divide(values, wide(contributors), out=values, dtype=wide, casting="same_kind")
        _scale(values, self.postscale_factor)


def _wide(values: Array) -> Any:
    """Return the type in which floating-point values are scaled."""
    return np.float32 if values.dtype == np.float16 else values.dtype.type


def _scale(values: Array, factor: float) -> None:
    """Multiply values in place."""
    if factor == 1:
        return
    if values.dtype.kind == "f":
        wide = _wide(values)
        np.multiply(values, wide(factor), out=values, dtype=wide, casting="same_kind")
    elif values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        largest = float(limits.max)
        if int(largest) > limits.max:  # float64 cannot represent 2^63 - 1
            largest = math.nextafter(largest, 0)
        scaled = np.trunc(values * np.float64(factor))
        values[...] = np.clip(scaled, float(limits.min), largest).astype(values.dtype)


def _joined(arrays: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Return copies of arrays in one buffer for each type, and for each array a view of its copy."""
    buffers: list[Array] = []
    copies: dict[int, Array] = dict.fromkeys(range(len(arrays)), np.empty(0))
    for dtype in dict.fromkeys(array.dtype for array in arrays):
        numbers = [number for number in copies if arrays[number].dtype == dtype]
        buffers.append(np.concatenate([arrays[number].ravel() for number in numbers]))
        ends = np.cumsum([arrays[number].size for number in numbers])
        for number, copy in zip(numbers, np.split(buffers[-1], ends), strict=False):
            copies[number] = copy.reshape(arrays[number].shape)
    return buffers, list(copies.values())


def allreduce_algorithms(*, own: bool = False) -> tuple[str, ...]:
    """Return the names of the allreduce algorithms. docs/algorithms.md describes them.

    Args:
        own: True leaves out "mpi", the algorithm of the MPI library, which has no wire format "bf16".
    """
    return tuple(row["name"] for row in _core.comm.allreduce_rows() if row["own"] or not own)


@accepts_tensors
def allreduce_async(array: ArrayLike, op: Op = Average, **how: Unpack[How]) -> Handle[Array]:
    """Start an allreduce and return its handle at once. Arguments and errors as for allreduce.

    The array is copied, so the caller may change it at once. All ranks must start the same collectives in the same
    order. They may complete them in any order. A collective advances only while this rank is in `poll`, `synchronize`
    or another collective on the same ranks.
    """
    rule = Rule("allreduce", op, **how)
    result = np.array(array, order="C")
    return _start_allreduces(rule, [result], [result], lambda: result)


allreduce = completed(
    allreduce_async,
    """Return the sum, average, minimum, maximum or product over ranks. All ranks get the same bits.

    Args:
        array: float16, float32, float64, int8, uint8, int32 or int64, any shape. The array is not changed. Sums and
            products of integers wrap around. float16 values are combined in float32 and rounded to float16 after each
            rank, because messages hold float16.
        op: Sum, Average (floating point only; over the ranks that have not joined), Min, Max or Product.
        algorithm: A name of `allreduce_algorithms` ("mpi", the algorithm of the MPI library, takes types of 4 and 8
            bytes only), or a table of message sizes in bytes such as "recursive_doubling:0-8192,ring:8193-". None: the
            value of FLOODTIDE_ALLREDUCE, else "recursive_doubling:0-8192,rabenseifner:8193-".
        wire: "native", or "bf16", which halves the bytes of float32 arrays. Sums stay in float32 and are rounded when
            they are sent. None: "native".
        process_set: The ranks that take part; None: all ranks.
        prescale_factor: Multiplies the values of this rank before the reduction.
        postscale_factor: Multiplies the result, for Average after the division. Integers are multiplied by both factors
            in float64, truncated towards zero and limited to the range of the type. float16 is multiplied in float32,
            other types in their own type.

    Returns:
        A new array of the same shape and type.

    Raises:
        InvalidArgumentError: If the type, operation, algorithm, wire format or a factor is not valid.
        UnsupportedError: For "mpi" without MPI, or with a type of 1 or 2 bytes.
        CommunicationError: On all ranks, if ranks call different collectives. The message names the ranks, and the next
            collective works. Also if a rank is lost.
    """,
)


@accepts_tensors
def allreduce_async_(array: Array, op: Op = Average, **how: Unpack[How]) -> Handle[Array]:
    """Start an allreduce in place and return its handle. Do not use the array before `synchronize` returns."""
    rule = Rule("allreduce_", op, **how)
    own = in_place("allreduce_", array)
    if rule.prescale_factor == 1:
        return _start_allreduces(rule, [own], [own], lambda: own)

    def finish() -> Array:
        own[...] = copy
        return own

    # Scale a copy, so that the array is unchanged if the calls of the ranks turn out to differ.
    copy = own.copy()
    return _start_allreduces(rule, [own], [copy], finish)


allreduce_ = completed(
    allreduce_async_,
    """Overwrite an array with its allreduce and return the array. Copies only if prescale_factor is not 1.

    Raises:
        InvalidArgumentError: As for allreduce. Also if the value is not an array, or the array is read-only or not
            C-contiguous.
    """,
)


@accepts_tensors
def grouped_allreduce_async(
    arrays: Iterable[ArrayLike], op: Op = Average, **how: Unpack[How]
) -> Handle[list[Array]]:
    """Start a grouped_allreduce and return its handle. The arrays are copied, so the caller may change them at once."""
    rule = Rule("grouped_allreduce", op, **how)
    given = [np.asarray(array) for array in arrays]
    buffers, copies = _joined(given)
    return _start_allreduces(rule, given, buffers, lambda: copies)


grouped_allreduce = completed(
    grouped_allreduce_async,
    """Return the allreduce of each of several arrays. Arrays of one type are combined in one allreduce.

    Args:
        arrays: Arrays of any shapes and types. Their number, shapes and types must be equal on all ranks.

    It takes the other arguments of allreduce, and raises the same errors.
    """,
)


@accepts_tensors
def grouped_allreduce_async_(
    arrays: Iterable[Array], op: Op = Average, **how: Unpack[How]
) -> Handle[list[Array]]:
    """Start a grouped_allreduce in place and return its handle. `synchronize` overwrites the arrays."""
    rule = Rule("grouped_allreduce_", op, **how)
    own = [in_place("grouped_allreduce_", array) for array in arrays]
    buffers, copies = _joined(own)

    def finish() -> list[Array]:
        for array, copy in zip(own, copies, strict=True):
            array[...] = copy
        return own

    return _start_allreduces(rule, own, buffers, finish)


grouped_allreduce_ = completed(
    grouped_allreduce_async_,
    """Overwrite each array with its allreduce and return the arrays. Arrays of one type are combined in one allreduce.

    Raises:
        InvalidArgumentError: As for allreduce_.
    """,
)


@accepts_tensors
def reduce_scatter_async(array: ArrayLike, op: Op = Average, **how: Unpack[How]) -> Handle[Array]:
    """Start a reduce_scatter and return its handle. The array is copied, so the caller may change it at once."""
    return _start_reduce_scatter(Rule("reduce_scatter", op, **how), np.array(array, order="C"))


reduce_scatter = completed(
    reduce_scatter_async,
    """Return this rank's rows of the sum, average, minimum, maximum or product over ranks.

    Args:
        array: As for allreduce, with at least one axis. The shape must be equal on all ranks.
        op: As for allreduce. Average divides by the number of all ranks, because no rank may have joined.
        wire, process_set, prescale_factor, postscale_factor: As for allreduce.

    Returns:
        A new array with consecutive rows of axis 0. The rows are divided as evenly as possible; lower
        ranks get the larger shares.

    Raises:
        InvalidArgumentError: If the type, operation, wire format or a factor is not valid, or the array has no axis.
        CommunicationError: As for allreduce.
    """,
)


@accepts_tensors
def grouped_reduce_scatter_async(
    arrays: Iterable[ArrayLike], op: Op = Average, **how: Unpack[How]
) -> Handle[list[Array]]:
    """Start the reduce_scatters of several arrays and return one handle for all."""
    rule = Rule("grouped_reduce_scatter", op, **how)
    given = [np.array(array, order="C") for array in arrays]
    with compared_as_one(ranks_of(rule.process_set), rule.words(given)):
        handles = [_start_reduce_scatter(rule, work) for work in given]
    return joint(handles)


grouped_reduce_scatter = completed(
    grouped_reduce_scatter_async,
    """Return the reduce_scatter of each of several arrays. The reduce_scatters run at the same time.""",
)


def _start_allreduces(
    rule: Rule, given: list[Array], buffers: list[Array], finish: Callable[[], Result]
) -> Handle[Result]:
    """Start to reduce the buffers, which hold the given arrays. `finish` returns the result of the call from them."""
    comm, words = ranks_of(rule.process_set), rule.words(given)
    for buffer in buffers:
        rule.before(buffer)
    chosen = rule.algorithm or os.environ.get("FLOODTIDE_ALLREDUCE") or _core.comm.default_allreduce
    how = rule.reduction, chosen, rule.wire or "native", words
    if len(buffers) == 1:
        operations = [comm.start_allreduce(buffers[0], *how)]
    else:
        with compared_as_one(comm, words):
            operations = [comm.start_allreduce(buffer, *how) for buffer in buffers]

    def result() -> Result:
        for buffer, operation in zip(buffers, operations, strict=True):
            rule.after(buffer, operation.contributors)
        return finish()

    return Handle(operations, result)


def _start_reduce_scatter(rule: Rule, work: Array) -> Handle[Array]:
    """Start to reduce and divide the array `work`, which is overwritten, and return the handle."""
    comm = ranks_of(rule.process_set)
    if rule.algorithm is not None:
        raise InvalidArgumentError(f"{rule.call}: has no argument algorithm")
    if work.ndim == 0:
        raise InvalidArgumentError(f"{rule.call}: expected an array with at least one axis")
    rule.before(work)
    share, longer = divmod(len(work), comm.size)
    rows = [share * r + min(r, longer) for r in range(comm.size + 1)]
    per_row = work.size // len(work) if len(work) else 0
    blocks = [row * per_row for row in rows]
    operation = comm.start_reduce_scatter(
        work, rule.reduction, blocks, rule.wire or "native", rule.words([work])
    )

    def result() -> Array:
        own: Array = work[rows[comm.rank] : rows[comm.rank + 1]].copy()
        rule.after(own, comm.size)
        return own

    return Handle([operation], result)
