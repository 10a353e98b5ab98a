# SPDX-License-Identifier: Apache-2.0
"""Arrays of collectives: checks, descriptions that ranks compare, and tensors of other libraries (DLPack)."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from floodtide.errors import InvalidArgumentError

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])
# NumPy takes some microseconds for the name of a type, which is long beside a small collective
_name_of = functools.lru_cache(maxsize=64)(str)
_NO_TENSORS = frozenset({np.ndarray, str, float, int, type(None)})


def words_for(arrays: Sequence[Array]) -> str:
    """Return a description of arrays that ranks compare, such as "float32 (2, 3)"."""
    if len(arrays) == 1:
        return f"{_name_of(arrays[0].dtype)} {arrays[0].shape}"
    return f"{len(arrays)} arrays: {', '.join(words_for([array]) for array in arrays)}"


def in_place(call: str, array: object) -> Array:
    """Return the array if a collective can change it in place.

    Raises:
        InvalidArgumentError: If the value is not an array, is read-only, or is not C-contiguous.
    """
    if not isinstance(array, np.ndarray):
        problem = f"got {type(array).__name__}"
    elif not array.flags.writeable:
        problem = "got a read-only one, or a negated view"
    elif not array.flags.c_contiguous:
        problem = "got one that is not C-contiguous"
    else:
        return array
    raise InvalidArgumentError(
        f"{call}: expected a writable C-contiguous NumPy array to change in place, {problem}"
    )


def array_of(what: str, value: Any) -> Array:
    """Return the values of an array or tensor of any library, or of a list; without a copy where that is possible.

    The result is a read-only copy if a tensor's memory does not hold its values: PyTorch negates some views lazily.
    Values in another byte order are copied.

    Args:
        what: Start of the message.

    Raises:
        InvalidArgumentError: For values that are not in the memory of the processor, need gradients, or have a type
            that NumPy does not have.
    """
    try:
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError("it is a masked array: fill it first (array.filled(0))")
        array = _shared(value) if is_tensor(value) else np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError("it holds Python objects")
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f" of {value.dtype}" if hasattr(value, "dtype") else ""
        raise InvalidArgumentError(
            f"{what}: got {type(value).__name__}{kind}, expected an array in the processor's memory, of a type that"
            f" NumPy has: {str(error).partition(chr(10))[0]}"
        ) from None


def _shared(tensor: Any) -> Array:
    lazy = [getattr(tensor, name, bool)() for name in ("is_neg", "is_conj")]
    array: Array = np.from_dlpack(tensor.resolve_conj().resolve_neg() if any(lazy) else tensor)
    if any(lazy):
        array.flags.writeable = False
    elif not array.flags.writeable:  # as before NumPy 2.1
        array = np.asarray(tensor)
    return array


def accepts_tensors(function: Function) -> Function:
    """Return a function that takes tensors where `function` takes arrays, also in lists and mappings.

    If an argument is a tensor, arrays in the result become tensors of its library, as far as the library has their
    types. An array that `function` has changed in place and returns becomes the tensor that was given. A result with a
    method `mapped` is mapped, so that a handle gives tensors. An argument `arrays` may be any iterable.

    Raises:
        InvalidArgumentError: From the function, as `array_of` raises it.
    """
    name = function.__name__.replace("_async", "")
    grouped = "arrays" in inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if grouped:
            arrays = args[0] if args else kwargs.pop("arrays", None)
            if not isinstance(arrays, Iterable):
                raise InvalidArgumentError(
                    f"{name}: arrays is {type(arrays).__name__}, expected several arrays"
                )
            args = (list(arrays), *args[1:])
        # most are arrays, names and numbers, and looking into them is long beside a small collective
        if _NO_TENSORS.issuperset(map(type, (*args, *kwargs.values()))):
            return function(*args, **kwargs)
        given: list[tuple[Array, Any]] = []

        def share(tensor: Any) -> Array:
            given.append((array_of(name, tensor), tensor))
            return given[-1][0]

        def tensor_of(array: Array) -> Any:
            own = [tensor for one, tensor in given if one is array]
            try:
                return own[0] if own else library.from_dlpack(array)
            except (BufferError, RuntimeError):
                return array

        result = function(*_each(args, is_tensor, share), **_each(kwargs, is_tensor, share))
        if not given:
            return result
        library = _library_of(given[0][1])
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


def is_tensor(value: Any) -> bool:
    """Return True for an array that is not NumPy's, and that other libraries can share (DLPack), or is masked."""
    plain = isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, np.ma.MaskedArray)
    return hasattr(value, "__dlpack__") and not plain


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
