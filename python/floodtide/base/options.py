# SPDX-License-Identifier: Apache-2.0
"""Fields of configuration dataclasses, with default, help text and range. The documentation is generated from them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from floodtide.errors import ConfigurationError, InvalidArgumentError

REQUIRED = dataclasses.MISSING
NOWHERE, FOLDER, ANY = "nowhere", "folder", "any"
FLOOD, PATCHES = "flood", "patches"
"""What tasks learn from: examples of flood filling, or patches."""

_MOST_DIGITS = 60  # characters of a value in a message


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
        kind = int if whole else float
        return cls(
            kind(limits["minimum"]),
            kind(limits["maximum"]),
            unit,
            above=limits["above"],
            below=limits["below"],
        )

    @property
    def whole(self) -> bool:
        """Return True if only integers are accepted."""
        return isinstance(self.minimum, int) and isinstance(self.maximum, int)

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        if self.whole and not isinstance(value, numbers.Integral):
            return False
        number: Any = value
        low = number > self.minimum if self.above else number >= self.minimum
        high = number < self.maximum if self.below else number <= self.maximum
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
        """Raise `error` if the value is not a number in this range. The message begins with `what`."""
        if value not in self:
            raise error(f"{what} is {shown(value)}, expected {self}")

    def check_all(
        self, values: Any, what: str, error: type[InvalidArgumentError] = InvalidArgumentError
    ) -> None:
        """Check a number, or every number in nested lists, as `check` does."""
        if isinstance(values, np.ndarray):
            values = values.tolist()
        if isinstance(values, Mapping):
            for name, value in values.items():
                self.check(value, f"{what}.{name}", error)
            return
        if isinstance(values, Sequence) and not isinstance(values, str):
            for index, value in enumerate(values):
                self.check_all(value, f"{what}.{index}", error)
        else:
            self.check(values, what, error)


def shown(value: Any) -> str:
    """Return a value as text for a message, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers with thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}..."


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
    metadata = {
        "help": text,
        "choices": tuple(choices),
        "path": path,
        "kinds": tuple(kinds),
        "range": range,
        "differs": differs,
    }
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
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
    """Base class of configuration dataclasses. Numbers and choices are checked when an instance is created.

    Raises:
        ConfigurationError: If a number is outside the range of its field, or a value is not one of its choices.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            limits: Range | None = field.metadata.get("range")
            choices = field.metadata.get("choices", ())
            value, key = _frozen(getattr(self, field.name)), f"{self._prefix}{field.name}"
            object.__setattr__(self, field.name, value)
            if choices and limits is not None and isinstance(value, str):
                if value not in choices:
                    raise ConfigurationError(
                        f"{key} is {shown(value)}, expected {one_of(choices)} or numbers"
                    )
            elif limits is not None and value is not None:
                limits.check_all(value, key, ConfigurationError)
            elif choices and value not in choices:
                raise ConfigurationError(f"{key} is {shown(value)}, expected {one_of(choices)}")

    @property
    def _prefix(self) -> str:
        """What stands before the name of a field in messages."""
        return _where.get() or f"{type(self).__name__}: "


def _frozen(value: Any) -> Any:
    """Return a value with tuples instead of lists, as TOML and scripts write them. Dictionaries are copied."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


class Arguments:
    """Ranges of the numeric arguments of a public function, by argument name."""

    def __init__(self, **ranges: Range) -> None:
        self._ranges = ranges

    def check(self, where: str, **values: Any) -> None:
        """Check numbers, or lists of numbers, before they are passed to the core. None is not checked.

        Raises:
            InvalidArgumentError: If a number is out of range: "where: name is value, expected range".
        """
        for name, value in values.items():
            if value is not None:
                self._ranges[name].check_all(value, f"{where}: {name}")


def _figure(bound: float) -> str:
    if isinstance(bound, int) or not math.isfinite(bound):
        return str(bound)
    return f"{bound:g}" if float(f"{bound:g}") == bound else repr(bound)
