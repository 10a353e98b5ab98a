# SPDX-License-Identifier: Apache-2.0
"""Fields of configuration dataclasses: default, help text and range, from which the documentation is generated."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from floodtide.errors import ConfigurationError, InvalidArgumentError

REQUIRED = dataclasses.MISSING
NOWHERE, FOLDER, ANY = "nowhere", "folder", "any"

_MOST_DIGITS = 60  # of a number in a message


@dataclass(frozen=True)
class Range:
    """The numbers that a setting accepts; NaN and the infinities are in none.

    Configuration files, command lines and Python arguments are checked by `check`, with one style of message.

    Attributes:
        minimum, maximum: Bounds. With whole numbers as bounds only whole numbers are accepted.
        unit: What is counted or measured, for messages and the documentation.
        above, below: The minimum, the maximum itself is excluded.
    """

    minimum: float
    maximum: float
    unit: str = ""
    above: bool = False
    below: bool = False

    @classmethod
    def of_core(cls, limits: Mapping[str, Any], unit: str = "", *, whole: bool = False) -> Range:
        """The same range as the core's, of whole numbers or of any."""
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
        """Whether only whole numbers are meant."""
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
        """Raise `error`, one line that begins with `what`, if a number is outside; also for what is no number."""
        if value not in self:
            raise error(f"{what} is {shown(value)}, expected {self}")

    def check_all(
        self, values: Any, what: str, error: type[InvalidArgumentError] = InvalidArgumentError
    ) -> None:
        """The same for a number, or for every one in (nested) lists."""
        if isinstance(values, np.ndarray):
            values = values.tolist()
        if isinstance(values, Sequence) and not isinstance(values, str):
            for index, value in enumerate(values):
                self.check_all(value, f"{what}.{index}", error)
        else:
            self.check(values, what, error)


def shown(value: Any) -> str:
    """A value for a message, cut if it is long: Python does not print integers of thousands of digits at all."""
    try:
        text = repr(value)
    except ValueError:
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
    """A configuration field with its help text (and unit).

    Args:
        default: Immutable default, or REQUIRED.
        text: One line of help.
        choices: The only values that are accepted, if there are such.
        path: Whether `~` and `$NAME` are expanded in the value.
        kinds: Kinds of networks (`model.kind`) that it has a meaning for, if not for all.
        range: Of a number, or of each one in a list; every number has one.
        differs: In what ranks of one job may differ: NOWHERE, in the FOLDER of a file, or in ANY way.
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
    return dataclasses.field(default=default, metadata=metadata)


class Checked:
    """Base of dataclasses whose numbers are checked when they are made, in a script as in a file.

    Raises:
        ConfigurationError: If a number is outside of its field's range.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            limits: Range | None = field.metadata.get("range")
            value = getattr(self, field.name)
            if limits is not None and value is not None:
                limits.check_all(value, f"{type(self).__name__}: {field.name}", ConfigurationError)


class Arguments:
    """The ranges of a public function's numbers, by the names of its arguments."""

    def __init__(self, **ranges: Range) -> None:
        self._ranges = ranges

    def check(self, where: str, **values: Any) -> None:
        """Check numbers, or lists of them, before they go to the core; None is not looked at.

        Raises:
            InvalidArgumentError: "where: name is value, expected range".
        """
        for name, value in values.items():
            if value is not None:
                self._ranges[name].check_all(value, f"{where}: {name}")


def _figure(bound: float) -> str:
    if isinstance(bound, int) or not math.isfinite(bound):
        return str(bound)
    return f"{bound:g}" if float(f"{bound:g}") == bound else repr(bound)
