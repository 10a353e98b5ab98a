# SPDX-License-Identifier: Apache-2.0
"""Arrays of collectives: checks, descriptions that ranks compare, and tensors of other libraries (DLPack)."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from floodtide.errors import InvalidArgumentError

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_NO_TENSORS = frozenset({np.ndarray, str, float, int, type(None)})


@functools.lru_cache(maxsize=64)
def name_of_type(dtype: np.dtype[Any]) -> str:
    """Return NumPy's name of a type, such as "float32". Other byte orders have names such as ">f4".

    NumPy takes some microseconds for a name, which is long beside a small collective.
    """
    return str(dtype)


def words_for(arrays: Sequence[Array]) -> str:
    """Return a description of arrays that ranks compare, such as "float32 (2, 3)"."""
    if len(arrays) == 1:
        return f"{name_of_type(arrays[0].dtype)} {arrays[0].shape}"
    return f"{len(arrays)} arrays: {', '.join(words_for([array]) for array in arrays)}"


def in_place(call: str, array: object) -> Array:
    """Return the array if a collective can change it in place.

    Raises:
        InvalidArgumentError: If the value is not an array, is read-only, or is not C-contiguous.
    """
    if not isinstance(array, np.ndarray):
        problem = f"got {type(array).__name__}"
    elif not array.flags.writeable:
        problem = "got a read-only one"
    elif not array.flags.c_contiguous:
        problem = "got one that is not C-contiguous"
    else:
        return array
    raise InvalidArgumentError(
        f"{call}: expected a writable C-contiguous NumPy array to change in place, {problem}"
    )


def accepts_tensors(function: Function) -> Function:
    """Return a function that takes tensors where `function` takes arrays, also in lists and mappings.

    If one of its arguments is a tensor, arrays in its result become tensors of the same library. An array that
    `function` has changed in place and returns becomes the tensor that was given. A result with a method `mapped`
    is mapped, so that a handle gives tensors.

    Raises:
        InvalidArgumentError: From the function, for a tensor that is not in the memory of the processor, needs
            gradients, or has a type that NumPy does not have.
    """
    name = function.__name__.replace("_async", "")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            # most are arrays, names and numbers, and looking into them is long beside a small collective
            if type(value) not in _NO_TENSORS and _has_tensor(value):
                break
        else:
            return function(*args, **kwargs)
        given: list[tuple[np.ndarray[Any, Any], Any]] = []

        def array_of(tensor: Any) -> Any:
            try:
                array = np.from_dlpack(tensor)
                if not array.flags.writeable:  # as before NumPy 2.1
                    array = np.asarray(tensor)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                raise InvalidArgumentError(
                    f"{name}: a {type(tensor).__name__} is no array in the processor's memory: {error}"
                ) from None
            given.append((array, tensor))
            return array

        def tensor_of(array: Any) -> Any:
            own = [tensor for one, tensor in given if one is array]
            return own[0] if own else library.from_dlpack(array)

        changed = [_each(value, _is_tensor, array_of) for value in args]
        named = {key: _each(value, _is_tensor, array_of) for key, value in kwargs.items()}
        library = _library_of(given[0][1])
        result = function(*changed, **named)
        back = functools.partial(
            _each, is_one=lambda one: isinstance(one, np.ndarray), change=tensor_of
        )
        return result.mapped(back) if hasattr(result, "mapped") else back(result)

    return call  # type: ignore[return-value]


def _library_of(tensor: Any) -> Any:
    """Return the library of a tensor: a class of another package may extend a tensor of the library."""
    if hasattr(tensor, "__array_namespace__"):
        return tensor.__array_namespace__()
    names = [one.__module__.partition(".")[0] for one in type(tensor).__mro__]
    return next(m for m in map(importlib.import_module, names) if hasattr(m, "from_dlpack"))


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic))


def _has_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_tensor, value))
    if isinstance(value, Mapping):
        return any(map(_is_tensor, value.values()))
    return _is_tensor(value)


def _each(value: Any, is_one: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Return the value with `change` applied to it, or to its elements, where `is_one` is true."""
    if is_one(value):
        return change(value)
    if isinstance(value, (list, tuple)):
        made = [_each(one, is_one, change) for one in value]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, Mapping):
        return {key: _each(one, is_one, change) for key, one in value.items()}
    return value
