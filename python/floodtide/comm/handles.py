# SPDX-License-Identifier: Apache-2.0
"""Handles of collectives in progress, which the asynchronous functions return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from floodtide import _core

Operation = _core.comm.Operation | _core.comm.Exchange
Result = TypeVar("Result")
Given = ParamSpec("Given")


class Handle(Generic[Result]):
    """A collective in progress. Pass it to `poll` or `synchronize`.

    A handle keeps its arrays alive. Do not change these arrays, and do not read results, before `synchronize` returns.
    """

    def __init__(self, operations: Sequence[Operation], finish: Callable[[], Result]) -> None:
        """Create a handle of the core's operations. `finish` is called once, after they end, and gives the result."""
        self._operations = operations
        self._finish: Callable[[], Result] | None = finish
        self._result: Any = None

    def mapped(self, change: Callable[[Result], Any]) -> Handle[Any]:
        """Return a handle of the same collective, whose result `change` has changed."""
        return Handle(self._operations, lambda: change(synchronize(self)))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Handle cannot be pickled or copied: other ranks take part in it; expected `synchronize` in this process"
        )


def poll(handle: Handle[Any]) -> bool:
    """Return True if a collective is complete. Also advances all collectives in progress on its ranks.

    Raises:
        CommunicationError: If the collective failed.
    """
    return all([operation.test() for operation in handle._operations])


def synchronize(handle: Handle[Result]) -> Result:
    """Wait for a collective and return its result. A second call returns the same result.

    Raises:
        CommunicationError: If the collective failed.
        InvalidArgumentError, ShapeError: On all ranks, if the calls of the ranks do not match.
    """
    for operation in handle._operations:
        operation.wait()
    if handle._finish is not None:
        handle._result = handle._finish()
        handle._finish = None
    result: Result = handle._result
    return result


def joint(handles: Sequence[Handle[Result]]) -> Handle[list[Result]]:
    """Return one handle for several handles."""
    operations = [operation for handle in handles for operation in handle._operations]
    return Handle(operations, lambda: [synchronize(handle) for handle in handles])


def completed(
    start: Callable[Given, Handle[Result]], documentation: str
) -> Callable[Given, Result]:
    """Return the function that starts a collective as `start` does, waits for it, and returns its result.

    Its name is that of `start` without "_async", and its arguments are those of `start`.
    """

    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return synchronize(start(*args, **kwargs))

    call.__name__ = call.__qualname__ = start.__name__.replace("_async", "")
    call.__module__, call.__doc__ = start.__module__, documentation
    signature = inspect.signature(start)
    returned = str(signature.return_annotation).removeprefix("Handle[").removesuffix("]")
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call
