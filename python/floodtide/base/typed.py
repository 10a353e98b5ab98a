# SPDX-License-Identifier: Apache-2.0
"""Public functions that check the types of their arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from floodtide.base.options import converted
from floodtide.errors import InvalidArgumentError

P = ParamSpec("P")
R = TypeVar("R")


def typed(
    within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions that refuse wrong arguments: missing, unknown, or of other types than annotated.

    The message is one line: "Patches: task is a string ('classes'), expected a ...".

    Args:
        within: Returns what surrounds the checks; of a collective function `world.agreed`, so that all ranks raise.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        names = [name for name in signature.parameters if name != "self"]
        is_method = len(names) < len(signature.parameters)

        @functools.cache
        def hints() -> dict[str, Any]:
            found = typing.get_type_hints(function)
            for name, parameter in signature.parameters.items():
                hint: Any = found.get(name, Any)
                if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                    found[name] = Sequence[hint]
                elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                    found[name] = Mapping[str, hint]
            return found

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            owner = f"{type(args[0]).__name__}." if is_method and args else ""
            where = f"{owner}{function.__name__}".removesuffix(".__init__")
            with within():
                try:
                    given = signature.bind(*args, **kwargs).arguments
                except TypeError as error:
                    raise InvalidArgumentError(
                        f"{where}: {error}; expected {', '.join(names)}"
                    ) from None
                for name, value in given.items():
                    hint = hints().get(name, Any)
                    converted(value, hint, f"{where}: {name}", InvalidArgumentError)
            return function(*args, **kwargs)

        return checked

    return decorate
