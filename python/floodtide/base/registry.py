# SPDX-License-Identifier: Apache-2.0
"""Rows of the core's registries as sections of a configuration: a name, and the parameters that belong to it.

A row is a dictionary: `name`, `help` and `parameters`; a parameter has `name`, `type` (real, integer, boolean, text),
`default`, `unit`, `help`, `limits` and `choices`. Nothing else lists names or parameters.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from floodtide.base.options import Checked, Range, shown
from floodtide.errors import ConfigurationError

Row = dict[str, Any]
Rows = Callable[[], list[Row]]
Value = float | bool | str

_TYPES: dict[str, tuple[Any, str]] = {
    "real": (float, "a number"),
    "integer": (int, "an integer"),
    "boolean": (bool, "a boolean"),
    "text": (str, "a string"),
}


def registered(rows: Rows, selector: str, elsewhere: Sequence[str] = ()) -> Any:
    """A field of a configuration's dataclass: the parameters of the row that another field names, {name: value}.

    Args:
        rows: Of the registry.
        selector: The field that has the row's name.
        elsewhere: Parameters that come from other sections; they are no keys of this one.
    """
    return dataclasses.field(
        default_factory=lambda: types.MappingProxyType({}),
        metadata={
            "help": "Parameters of the row",
            "rows": rows,
            "selector": selector,
            "elsewhere": tuple(elsewhere),
        },
    )


def registered_field(cls: Any) -> dataclasses.Field[Any] | None:
    """The field of a dataclass that `registered` made; None if it has none."""
    return next((field for field in dataclasses.fields(cls) if "rows" in field.metadata), None)


def names(rows: list[Row]) -> tuple[str, ...]:
    """The names of a registry's rows."""
    return tuple(str(row["name"]) for row in rows)


def parameters(field: dataclasses.Field[Any], name: str) -> dict[str, Row]:
    """The parameters, by name, that a section has for the row `name`."""
    row = next(row for row in field.metadata["rows"]() if row["name"] == name)
    elsewhere = field.metadata["elsewhere"]
    return {spec["name"]: spec for spec in row["parameters"] if spec["name"] not in elsewhere}


def resolve(
    field: dataclasses.Field[Any], name: str, given: Mapping[str, Any], prefix: str
) -> Mapping[str, Value]:
    """The row's defaults with what is given in their place, checked.

    Args:
        field: Of `registered`.
        name: The row's.
        given: Values by parameter.
        prefix: Of keys in messages.

    Raises:
        ConfigurationError: For a parameter that the row has not, a wrong type, or a value out of range.
    """
    known = parameters(field, name)
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        listed = ", ".join(known) or "none"
        raise ConfigurationError(
            f"{prefix}{unknown}: '{name}' has no such parameter, expected {listed}"
        )
    return types.MappingProxyType(
        {
            key: _checked(given[key], spec, prefix + key) if key in given else spec["default"]
            for key, spec in known.items()
        }
    )


def _checked(given: Any, spec: Row, key: str) -> Value:
    kind, described = _TYPES[spec["type"]]
    value: Any = _real(given) if kind is float and type(given) is int else given
    if type(value) is not kind:
        raise ConfigurationError(f"{key} is {shown(value)}, expected {described}")
    if spec["choices"] and value not in spec["choices"]:
        listed = ", ".join(f"'{choice}'" for choice in spec["choices"])
        raise ConfigurationError(f"{key} is {shown(value)}, expected one of {listed}")
    if kind in (int, float):
        range_of(spec).check(value, key, ConfigurationError)
    checked: Value = value
    return checked


def _real(whole: int) -> float | int:
    """The number as a float; as it is if it is beyond all floats, which no range has."""
    try:
        return float(whole)
    except OverflowError:
        return float("inf") if whole > 0 else float("-inf")


def range_of(spec: Row) -> Range:
    """The range of a parameter that is a number."""
    return Range.of_core(spec["limits"], spec["unit"], whole=spec["type"] == "integer")


class Registered(Checked):
    """Base of sections with a `registered` field: its values are complete and checked when the section is made.

    Raises:
        ConfigurationError: For an unknown name or parameter, a wrong type, or a number out of range.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        field: Any = registered_field(self)
        selector = field.metadata["selector"]
        name, where = getattr(self, selector), type(self).__name__
        known = names(field.metadata["rows"]())
        if name not in known:
            raise ConfigurationError(
                f"{where}: {selector} is {shown(name)}, expected one of {', '.join(known)}"
            )
        values = resolve(field, name, getattr(self, field.name), f"{where}: ")
        object.__setattr__(self, field.name, values)
