# SPDX-License-Identifier: Apache-2.0
"""Types and ranges of what users give: fields of configuration dataclasses, and arguments of public functions.

A field has a default, a help text and a range, of which the documentation is generated.

A section of a configuration may name a row of a registry of the core and set the parameters of this row. A row is a
dictionary with `name`, `help` and `parameters`. A parameter has `name`, `type` (real, integer, boolean, text),
`default`, `unit`, `help`, `limits` and `choices`. The registry is the only list of names and parameters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from floodtide.errors import ConfigurationError, InvalidArgumentError

P = ParamSpec("P")
R = TypeVar("R")
Row = dict[str, Any]
Rows = Callable[[], list[Row]]
Value = float | bool | str

REQUIRED = dataclasses.MISSING
NOWHERE, FOLDER, ANY = "nowhere", "folder", "any"
FLOOD, PATCHES = "flood", "patches"
"""What tasks learn from: examples of flood filling, or patches."""

_MOST_DIGITS = 60  # characters of a value in a message
_UNIONS = (typing.Union, types.UnionType)
_TYPES: dict[str, Any] = {"real": float, "integer": int, "boolean": bool, "text": str}
_KINDS: dict[Any, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (numbers.Integral,),
    float: (numbers.Real,),
    str: (str,),
}
_NAMES: dict[type, str] = {
    bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list",
    tuple: "a list", dict: "a table",
}  # fmt: skip


@dataclass(frozen=True)
class Range:
    """A range of numbers that a key or an argument accepts. NaN and infinity are never in the range.

    `check` checks numbers from configuration files, command lines and Python arguments, with the same messages.

    Attributes:
        minimum, maximum: Bounds. If both are integers, only integers are accepted.
        unit: Unit of the number, for messages and the documentation.
        above: True: the minimum itself is excluded.
        below: True: the maximum itself is excluded.
    """

    minimum: float
    maximum: float
    unit: str = ""
    above: bool = False
    below: bool = False

    @classmethod
    def of_core(cls, limits: Mapping[str, Any], unit: str = "", *, whole: bool = False) -> Range:
        """Return a range with the limits that the core gives; `whole`: accept only integers."""
        low, high = map(int if whole else float, (limits["minimum"], limits["maximum"]))
        return cls(low, high, unit, limits["above"], limits["below"])

    @property
    def whole(self) -> bool:
        """Return True if only integers are accepted."""
        return isinstance(self.minimum, int) and isinstance(self.maximum, int)

    def __contains__(self, value: Any) -> bool:
        kind: Any = numbers.Integral if self.whole else numbers.Real
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        low = value > self.minimum if self.above else value >= self.minimum
        high = value < self.maximum if self.below else value <= self.maximum
        return bool(low and high)

    def __str__(self) -> str:
        low, high = _figure(self.minimum), _figure(self.maximum)
        if self.above or self.below:
            lower = f"above {low}" if self.above else f"at least {low}"
            text = f"{lower} and {'below' if self.below else 'at most'} {high}"
        else:
            text = f"{low} to {high}"
        return f"{text} ({self.unit})" if self.unit else text

    def check(
        self, value: Any, what: str, error: type[InvalidArgumentError] = InvalidArgumentError
    ) -> None:
        """Raise `error` if a value, or one in nested lists and tables, is not a number in this range.

        The message begins with `what`.
        """
        value = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(value, Mapping):
            for name, one in value.items():
                self.check(one, f"{what}.{name}", error)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            self.check(dict(enumerate(value)), what, error)
        elif value not in self:
            raise error(f"{what} is {shown(value)}, expected {self}")


def shown(value: Any) -> str:
    """Return a value as text for a message, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers with thousands of digits
        return "a number of thousands of digits"
    text = text.replace("\n", " ")
    return text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}..."


def type_name(value: Any) -> str:
    """Return the kind of a value, and the value, as text for a message."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__}"
    return f"{_NAMES.get(type(value), type(value).__name__)} ({shown(value)})"


def described(hint: Any) -> str:
    """Return what an annotation expects, as text for a message."""
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint) or hint
    if origin in _UNIONS:
        kinds = [described(one) for one in arguments if one not in (types.NoneType, Any)]
        return " or ".join(dict.fromkeys(kinds))
    if origin in (tuple, Sequence, Mapping):
        one = described(arguments[1 if origin is Mapping else 0])
        several = f"lists{one[6:]}" if one.startswith("a list") else f"{one.split(' ', 1)[1]}s"
        if origin is tuple and arguments[-1] is not Ellipsis:
            several = f"{len(arguments)} {several}"
        return f"{'a table' if origin is Mapping else 'a list'} of {several}"
    if origin in _NAMES:
        return _NAMES[origin]
    name = {np.ndarray: "array", Callable: "function", Any: "value"}.get(origin) or origin.__name__
    parts = [one.__name__ for one in _made_of(origin)]
    text = f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"
    return f"{text} ({', '.join(parts)})" if parts else text


def _made_of(kind: Any) -> Iterator[type]:
    """Yield the classes from which objects of an abstract class are made."""
    if any(getattr(one, "__isabstractmethod__", False) for one in vars(kind).values()):
        for part in kind.__subclasses__():
            yield part
            yield from part.__subclasses__()


def converted(
    value: Any,
    hint: Any,
    key: str,
    error: Callable[[str], InvalidArgumentError] = ConfigurationError,
    build: Callable[[Any, Any, str], Any] | None = None,
) -> Any:
    """Check that a value has the annotated type. Return it with tuples for lists and arrays, and Python's numbers.

    Args:
        hint: The annotation, of a field or an argument.
        key: Start of the message.
        error: Makes the error of a message.
        build: Makes an object of a dataclass from a table, called as build(class, table, prefix of its keys). None:
            tables do not stand for objects.

    Raises:
        InvalidArgumentError: As `error` makes it, for a value of another type.
    """
    arguments, origin = typing.get_args(hint), typing.get_origin(hint) or hint

    def wrong() -> InvalidArgumentError:
        return error(f"{key} is {type_name(value)}, expected {described(hint)}")

    def part(item: Any, kind: Any, name: Any) -> Any:
        return converted(item, kind, f"{key}.{name}", error, build)

    if build is not None and dataclasses.is_dataclass(origin):
        return build(origin, value, f"{key}.")
    if origin in _UNIONS:
        lists = [one for one in arguments if typing.get_origin(one) in (tuple, Sequence)]
        chosen = [one for one in arguments if fits(value, one)]
        chosen += lists if isinstance(value, list | tuple) else []
        if not chosen:
            raise wrong()
        return converted(value, chosen[0], key, error, build)
    if origin in (tuple, Sequence):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(items, str | bytes) or not isinstance(items, Sequence):
            raise wrong()
        kinds = arguments[:1] * len(items)
        if origin is tuple and arguments[-1] is not Ellipsis:
            kinds = arguments
        if len(items) != len(kinds):
            axes = {2: " (y, x)", 3: " (z, y, x)"}.get(len(kinds), "")
            raise error(f"{key} has {len(items)} entries, expected {len(kinds)}{axes}")
        return tuple(part(*one) for one in zip(items, kinds, range(len(kinds)), strict=True))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise wrong()
        return {name: part(one, arguments[1], name) for name, one in value.items()}
    if origin in _KINDS:
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if not isinstance(value, _KINDS[origin]) or (
            isinstance(value, bool) and origin is not bool
        ):
            raise wrong()
        try:
            return origin(value)
        except OverflowError:  # an integer too large for a float, so outside of every range
            return math.inf
    checkable = origin is not Any and isinstance(origin, type)
    origin = os.PathLike if origin is Path else origin
    if checkable and not getattr(origin, "_is_protocol", False) and not isinstance(value, origin):
        raise wrong()
    return value


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value is of the type that an annotation says."""
    try:
        converted(value, hint, "")
    except InvalidArgumentError:
        return False
    return True


def option(
    default: Any,
    text: str,
    *,
    choices: Sequence[str] = (),
    path: bool = False,
    kinds: Sequence[str] = (),
    range: Range | None = None,
    differs: str = NOWHERE,
) -> Any:
    """Return a field for a configuration dataclass.

    Args:
        default: Immutable default, or REQUIRED.
        text: Help text, one line, with the unit.
        choices: The accepted values; empty: no such restriction. With a range: words in place of the numbers.
        path: True: expand `~` and `$NAME` in the value.
        kinds: Tasks for which the field has a meaning: FLOOD, PATCHES, or a `task.kind`; empty: all.
        range: Range of the number, or of each number in a list. Every numeric field has a range.
        differs: How the value may differ between the ranks of a job: NOWHERE (not at all), in the FOLDER of a file, or
            in ANY way.
    """
    how = {"choices": tuple(choices), "path": path, "kinds": tuple(kinds), "differs": differs}
    metadata = {"help": text, "range": range, **how}
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


of_patches = functools.partial(option, kinds=(PATCHES,))
"""As `option`, for tasks that are learnt from patches."""

_where: ContextVar[str] = ContextVar("where", default="")


@contextlib.contextmanager
def named_as(where: str) -> Iterator[None]:
    """Inside the block, messages about fields of configuration dataclasses begin with this text, not with the class."""
    token = _where.set(where)
    try:
        yield
    finally:
        _where.reset(token)


def one_of(names: Sequence[Any]) -> str:
    """Return the names as text for a message: "'a', 'b' or 'c'"."""
    *first, last = (f"'{name}'" for name in names)
    return f"{', '.join(first)} or {last}" if first else last


class Checked:
    """Base class of configuration dataclasses. Names, types, numbers and choices are checked when one is created.

    Raises:
        ConfigurationError: If a name is unknown, a value has another type than its field, a number is outside the range
            of its field, or a value is not one of its choices.
    """

    def __new__(cls, *values: Any, **named: Any) -> Any:
        signature = _signature(cls.__init__)
        try:
            signature.bind_partial(None, *values, **named)
        except TypeError as error:
            names = ", ".join([*signature.parameters][1:])
            raise ConfigurationError(f"{cls.__name__}: {error}; expected {names}") from None
        return super().__new__(cls)

    def __post_init__(self) -> None:
        cls: Any = type(self)
        hints = _hints(cls)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if "rows" in field.metadata:
                selector = getattr(self, field.metadata["selector"])
                value = _resolved(field, selector, getattr(self, field.name), self._prefix)
                object.__setattr__(self, field.name, value)
                continue
            limits: Range | None = field.metadata.get("range")
            choices = field.metadata.get("choices", ())
            key = f"{self._prefix}{field.name}"
            value = converted(getattr(self, field.name), hints[field.name], key)
            object.__setattr__(self, field.name, value)
            if choices and (limits is None or isinstance(value, str)):
                _require_choice(value, choices, key, "" if limits is None else " or numbers")
            elif limits is not None and value is not None:
                limits.check(value, key, ConfigurationError)
            if field.metadata.get("path"):
                _require_names(key, value)
                if isinstance(value, str) and value == "" and field.default:
                    raise ConfigurationError(f"{key} is empty, expected a name")

    @property
    def _prefix(self) -> str:
        """What stands before the name of a field in messages."""
        return _where.get() or f"{type(self).__name__}: "


_hints = functools.cache(typing.get_type_hints)
_signature = functools.cache(inspect.signature)


def _require_choice(value: Any, choices: Sequence[str], key: str, others: str = "") -> None:
    if value not in choices:
        raise ConfigurationError(f"{key} is {shown(value)}, expected {one_of(choices)}{others}")


def _require_names(key: str, value: Any) -> None:
    """Refuse what is no name of a file or volume, and has none. Tensors and arrays of dask have other names."""
    for part in value.values() if isinstance(value, dict) else [value]:
        named = isinstance(part, str) or hasattr(part, "name")
        if not named or hasattr(part, "__dlpack__") or hasattr(part, "__array_function__"):
            raise ConfigurationError(
                f"{key} is {type_name(part)}, expected a name, or a floodtide.data.Volume"
            )


def like(name: str, known: Sequence[str], prefix: str = "") -> str:
    """Return the end of a message about an unknown name: the nearest known one behind a prefix, else all of them."""
    import difflib

    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if nearest:
        return f", did you mean '{prefix}{nearest[0]}'?"
    return f", expected one of: {', '.join(known)}"


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
                hints = _hints(function)
                for name, value in given.items():
                    converted(value, hints.get(name, Any), f"{where}: {name}", InvalidArgumentError)
            return function(*args, **kwargs)

        return checked

    return decorate


def _figure(bound: float) -> str:
    if isinstance(bound, int) or not math.isfinite(bound):
        return str(bound)
    return f"{bound:g}" if float(f"{bound:g}") == bound else repr(bound)


REVERSED = "reversed"
"""Word before a name in a list of rows: floodtide uses the results of this row in reverse order."""


def registered(
    rows: Rows, selector: str, elsewhere: Sequence[str] = (), *, several: bool = False
) -> Any:
    """Return a field for a configuration dataclass that holds the parameters of a row, {name: value}.

    Args:
        selector: Name of the field that names the row.
        elsewhere: Parameters that other sections set. They are not keys of this section.
        several: True: the selector may name several rows, see `listed`. The field holds the parameters of all of them.
    """
    metadata = {"help": "Parameters of the row", "rows": rows, "selector": selector}
    metadata |= {"elsewhere": tuple(elsewhere), "several": several}
    return dataclasses.field(default_factory=dict, metadata=metadata)


def registered_fields(cls: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields of a dataclass that `registered` made."""
    return [field for field in dataclasses.fields(cls) if "rows" in field.metadata]


def names(rows: list[Row]) -> tuple[str, ...]:
    """Return the names of the rows of a registry."""
    return tuple(str(row["name"]) for row in rows)


def listed(text: str) -> list[tuple[str, bool]]:
    """Return the rows of a text "name, reversed name, ...": the name, and whether it is reversed."""
    rows = []
    for part in text.split(","):
        word, _, name = part.strip().partition(" ")
        rows.append((name.strip(), True) if word == REVERSED else (part.strip(), False))
    return rows


def parameters(field: dataclasses.Field[Any], name: Any, prefix: str = "") -> dict[str, Row]:
    """Return the parameters {name: specification} that a section has for the row, or the rows, `name`.

    Raises:
        ConfigurationError: If there is no such row. The message begins with `prefix`.
    """
    known = names(field.metadata["rows"]())
    wanted: list[str] = []
    if isinstance(name, str):
        wanted = [row for row, _ in listed(name)] if field.metadata["several"] else [name]
    if not wanted or not set(wanted) <= set(known):
        key = prefix + field.metadata["selector"]
        raise ConfigurationError(f"{key} is {shown(name)}, expected {one_of(known)}")
    return {
        spec["name"]: spec
        for row in field.metadata["rows"]()
        if row["name"] in wanted
        for spec in row["parameters"]
        if spec["name"] not in field.metadata["elsewhere"]
    }


def _resolved(
    field: dataclasses.Field[Any], name: str, given: Mapping[str, Any], prefix: str
) -> dict[str, Value]:
    """Return the values of all parameters of a row: the given values after checks, and defaults for the others."""
    known = parameters(field, name, prefix)
    if (unknown := next((key for key in given if key not in known), None)) is not None:
        valid = ", ".join(known) or "none"
        raise ConfigurationError(f"{prefix}{unknown} is no parameter of '{name}', expected {valid}")
    values: dict[str, Value] = {}
    for name, spec in known.items():
        key = prefix + name
        values[name] = converted(given.get(name, spec["default"]), _TYPES[spec["type"]], key)
        if spec["choices"]:
            _require_choice(values[name], spec["choices"], key)
        elif spec["type"] in ("real", "integer"):
            range_of(spec).check(values[name], key, ConfigurationError)
    return values


def range_of(spec: Row) -> Range:
    """Return the range of a numeric parameter."""
    return Range.of_core(spec["limits"], spec["unit"], whole=spec["type"] == "integer")
