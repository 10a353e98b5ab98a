# SPDX-License-Identifier: Apache-2.0
"""Collectives under way, as the asynchronous functions return them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from floodtide import _core

Operation = _core.comm.Operation | _core.comm.Exchange
Result = TypeVar("Result")


class Handle(Generic[Result]):
    """A collective under way: for poll and synchronize.

    It keeps its arrays alive. They must not be changed, and the results not be read, before
    synchronize has returned.
    """

    def __init__(self, operations: Sequence[Operation], finish: Callable[[], Result]) -> None:
        """Wait for the core's operations, then take the result from `finish`, once."""
        self._operations = operations
        self._finish: Callable[[], Result] | None = finish
        self._result: Any = None

    def _poll(self) -> bool:
        return all([operation.test() for operation in self._operations])

    def _synchronize(self) -> Result:
        for operation in self._operations:
            operation.wait()
        if self._finish is not None:
            self._result = self._finish()
            self._finish = None
        result: Result = self._result
        return result


def poll(handle: Handle[Any]) -> bool:
    """Return whether a collective is done; move everything that is under way on its ranks.

    Raises:
        CommunicationError: If it failed.
    """
    return handle._poll()


def synchronize(handle: Handle[Result]) -> Result:
    """Wait for a collective and return its result; again the same one if called again.

    Raises:
        CommunicationError: If it failed.
        InvalidArgumentError, ShapeError: On all ranks, if the calls of the ranks do not fit.
    """
    return handle._synchronize()


def joint(handles: Sequence[Handle[Result]]) -> Handle[list[Result]]:
    """One handle of several."""
    operations = [operation for handle in handles for operation in handle._operations]
    return Handle(operations, lambda: [synchronize(handle) for handle in handles])
