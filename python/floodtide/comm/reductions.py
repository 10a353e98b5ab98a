# SPDX-License-Identifier: Apache-2.0
"""Sums, averages, minima, maxima and products over ranks, on NumPy arrays, under Horovod's names.

Every function here is Collective: all ranks call it, in the same order, with arrays of the same
shapes and types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from floodtide import _core
from floodtide.comm.arrays import Array, in_place
from floodtide.comm.collectives import compared_as_one, ranks_of
from floodtide.comm.handles import Handle, Result, joint, synchronize
from floodtide.comm.reduction_rules import Average, Group, Op, Rule
from floodtide.comm.world import ProcessSet
from floodtide.errors import InvalidArgumentError


def allreduce(
    array: ArrayLike,
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array:
    """Return the sum, average, minimum, maximum or product over ranks; the same bits on all ranks.

    Args:
        array: float16, float32, float64, int8, uint8, int32 or int64, any shape. Not changed.
            Sums and products of integers wrap around. Those of float16 are made in float32 and
            rounded to float16 once for each rank that is added, because they travel as float16.
        op: Sum, Average (floating point only; over the ranks that have not joined), Min, Max or
            Product.
        algorithm: "ring", "rabenseifner", "recursive_doubling", "two_level", "mpi" (the MPI
            library's own, for types of 4 and 8 bytes), a table by bytes such as
            "recursive_doubling:0-8192,ring:8193-", or "auto": the fastest as measured when it is
            first asked for. None: "auto", unless FLOODTIDE_ALLREDUCE holds another of these.
        wire: "bf16" halves the bytes of float32: sums are float32 and rounded when they are sent.
        process_set: The ranks that take part; None for all.
        prescale_factor: Multiplies this rank's values before the reduction.
        postscale_factor: Multiplies the result, of Average after the division. Both factors are
            applied in float64 to integers, which are then cut towards zero and limited to what
            the type holds; in float32 to float16; else in the array's type.

    Returns:
        A new array of the same shape and type.

    Raises:
        InvalidArgumentError: For another type, operation, algorithm, wire format or factor.
        UnsupportedError: For "mpi" without MPI, or with a type of 1 or 2 bytes.
        CommunicationError: On all ranks, if they differ in what they call; it names the ranks, and
            the next collective works. Or if a rank is lost.
    """
    return synchronize(
        allreduce_async(
            array,
            op,
            algorithm,
            wire,
            process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def allreduce_async(
    array: ArrayLike,
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Array]:
    """Start an allreduce and return at once; arguments and errors as for allreduce.

    The array is copied once, so it may be changed at once. All ranks start the same collectives in
    the same order and may complete them in any order. They move while this rank is in poll,
    synchronize or another collective on the same ranks.
    """
    rule = Rule("allreduce", op, prescale_factor, postscale_factor)
    result = np.array(array, order="C")
    words = rule.words([result])
    return _start_allreduces(
        rule, [result], words, algorithm, wire, process_set, finish=lambda buffers: buffers[0]
    )


def allreduce_(
    array: Array,
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array:
    """Replace an array by its allreduce and return it; without a copy unless it is scaled before.

    Raises:
        InvalidArgumentError: Also for what is no array, and for an array that is read-only or not
            C-contiguous.
    """
    return synchronize(
        allreduce_async_(
            array,
            op,
            algorithm,
            wire,
            process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def allreduce_async_(
    array: Array,
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Array]:
    """Start to replace an array by its allreduce; it must not be touched until synchronize."""
    rule = Rule("allreduce_", op, prescale_factor, postscale_factor)
    own = in_place("allreduce_", array)
    words = rule.words([own])
    if prescale_factor == 1:
        return _start_allreduces(
            rule, [own], words, algorithm, wire, process_set, finish=lambda buffers: buffers[0]
        )

    def finish(buffers: list[Array]) -> Array:
        own[...] = buffers[0]
        return own

    # Scaled in a copy: where ranks turn out to differ, the array is as it was.
    copies = [own.copy()]
    return _start_allreduces(rule, copies, words, algorithm, wire, process_set, finish=finish)


def grouped_allreduce(
    arrays: Sequence[ArrayLike],
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Array]:
    """Return the allreduces of several arrays, which travel together: one allreduce for each type.

    Args:
        arrays: Of any shapes and types; the same number, shapes and types on all ranks.

    The other arguments and the errors are those of allreduce.
    """
    return synchronize(
        grouped_allreduce_async(
            arrays,
            op,
            algorithm,
            wire,
            process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def grouped_allreduce_async(
    arrays: Sequence[ArrayLike],
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[Array]]:
    """Start a grouped_allreduce; each array is copied once, so it may be changed at once."""
    rule = Rule("grouped_allreduce", op, prescale_factor, postscale_factor)
    given = [np.asarray(array) for array in arrays]
    group, words = Group(given), rule.words(given)
    return _start_allreduces(
        rule, group.buffers, words, algorithm, wire, process_set, finish=lambda _: group.parts()
    )


def grouped_allreduce_(
    arrays: Sequence[Array],
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Array]:
    """Replace each array by its allreduce, and return them; they travel together.

    Raises:
        InvalidArgumentError: As for allreduce_.
    """
    return synchronize(
        grouped_allreduce_async_(
            arrays,
            op,
            algorithm,
            wire,
            process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def grouped_allreduce_async_(
    arrays: Sequence[Array],
    op: Op = Average,
    algorithm: str | None = None,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[Array]]:
    """Start to replace each array by its allreduce: synchronize does, from a joint copy."""
    rule = Rule("grouped_allreduce_", op, prescale_factor, postscale_factor)
    own = [in_place("grouped_allreduce_", array) for array in arrays]
    group = Group(own)

    def finish(_: list[Array]) -> list[Array]:
        for array, part in zip(own, group.parts(), strict=True):
            array[...] = part
        return own

    words = rule.words(own)
    return _start_allreduces(
        rule, group.buffers, words, algorithm, wire, process_set, finish=finish
    )


def reduce_scatter(
    array: ArrayLike,
    op: Op = Average,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array:
    """Return this rank's share of the sum, average, minimum, maximum or product over ranks.

    Args:
        array: As for allreduce, with at least one axis; the same shape on all ranks.
        op: As for allreduce. Average divides by all ranks: none may have joined.
        wire: As for allreduce.
        process_set: The ranks that take part; None for all.
        prescale_factor: As for allreduce.
        postscale_factor: As for allreduce.

    Returns:
        A new array: rows of axis 0 cut as evenly as possible, the longer shares first.

    Raises:
        InvalidArgumentError: For another type, operation, wire format or factor, or no axis.
        CommunicationError: On all ranks, if they differ in what they call; it names the ranks, and
            the next collective works. Or if a rank is lost.
    """
    return synchronize(
        reduce_scatter_async(
            array,
            op,
            wire,
            process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def reduce_scatter_async(
    array: ArrayLike,
    op: Op = Average,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Array]:
    """Start a reduce_scatter; the array is copied once, so it may be changed at once."""
    rule = Rule("reduce_scatter", op, prescale_factor, postscale_factor)
    return _start_reduce_scatter(rule, np.array(array, order="C"), wire, process_set)


def grouped_reduce_scatter(
    arrays: Sequence[ArrayLike],
    op: Op = Average,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Array]:
    """Return the reduce_scatters of several arrays, which are under way at the same time."""
    return synchronize(
        grouped_reduce_scatter_async(
            arrays,
            op,
            wire,
            process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def grouped_reduce_scatter_async(
    arrays: Sequence[ArrayLike],
    op: Op = Average,
    wire: str | None = None,
    process_set: ProcessSet | None = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[Array]]:
    """Start the reduce_scatters of several arrays."""
    rule = Rule("grouped_reduce_scatter", op, prescale_factor, postscale_factor)
    given = [np.array(array, order="C") for array in arrays]
    with compared_as_one(ranks_of(process_set), rule.words(given)):
        handles = [_start_reduce_scatter(rule, work, wire, process_set) for work in given]
    return joint(handles)


def _start_allreduces(
    rule: Rule,
    buffers: list[Array],
    words: str,
    algorithm: str | None,
    wire: str | None,
    process_set: ProcessSet | None,
    finish: Callable[[list[Array]], Result],
) -> Handle[Result]:
    comm = ranks_of(process_set)
    for buffer in buffers:
        rule.require(buffer)
        rule.before(buffer)
    chosen = algorithm or _core.comm.auto_allreduce
    with compared_as_one(comm, words):
        operations = [
            comm.start_allreduce(buffer, rule.reduction, chosen, wire or "native", words)
            for buffer in buffers
        ]

    def result() -> Result:
        for buffer, operation in zip(buffers, operations, strict=True):
            rule.after(buffer, operation.contributors)
        return finish(buffers)

    return Handle(operations, result)


def _start_reduce_scatter(
    rule: Rule, work: Array, wire: str | None, process_set: ProcessSet | None
) -> Handle[Array]:
    """Start to reduce and cut an array, whose values are lost."""
    comm = ranks_of(process_set)
    if work.ndim == 0:
        raise InvalidArgumentError(f"{rule.call}: expected an array with at least one axis")
    rule.require(work)
    rule.before(work)
    share, longer = divmod(len(work), comm.size)
    rows = [share * r + min(r, longer) for r in range(comm.size + 1)]
    per_row = work.size // len(work) if len(work) else 0
    blocks = [row * per_row for row in rows]
    words = rule.words([work])
    operation = comm.start_reduce_scatter(work, rule.reduction, blocks, wire or "native", words)

    def result() -> Array:
        own: Array = work[rows[comm.rank] : rows[comm.rank + 1]].copy()
        rule.after(own, comm.size)
        return own

    return Handle([operation], result)
