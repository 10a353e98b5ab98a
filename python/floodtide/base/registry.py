# SPDX-License-Identifier: Apache-2.0
"""Registries of the core as sections of a configuration: the section names a row and sets the parameters of this row.

A row is a dictionary with `name`, `help` and `parameters`. A parameter has `name`, `type` (real, integer, boolean,
text), `default`, `unit`, `help`, `limits` and `choices`. The registry is the only list of names and parameters.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from floodtide.base.options import Checked, Range, converted, one_of, shown
from floodtide.errors import ConfigurationError

Row = dict[str, Any]
Rows = Callable[[], list[Row]]
Value = float | bool | str

_TYPES: dict[str, Any] = {"real": float, "integer": int, "boolean": bool, "text": str}


REVERSED = "reversed"
"""Word before the name of a row in a list of rows: what the row gives is used in reverse order."""


def registered(
    rows: Rows, selector: str, elsewhere: Sequence[str] = (), *, several: bool = False
) -> Any:
    """Return a field for a configuration dataclass that holds the parameters of a row, {name: value}.

    Args:
        selector: Name of the field that names the row.
        elsewhere: Parameters that other sections set. They are not keys of this section.
        several: True: the selector may name several rows, see `listed`. The field holds the parameters of all of them.
    """
    return dataclasses.field(
        default_factory=lambda: types.MappingProxyType({}),
        metadata={
            "help": "Parameters of the row",
            "rows": rows,
            "selector": selector,
            "elsewhere": tuple(elsewhere),
            "several": several,
        },
    )


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
    elsewhere = field.metadata["elsewhere"]
    return {
        spec["name"]: spec
        for row in field.metadata["rows"]()
        if row["name"] in wanted
        for spec in row["parameters"]
        if spec["name"] not in elsewhere
    }


def resolve(
    field: dataclasses.Field[Any], name: str, given: Mapping[str, Any], prefix: str
) -> Mapping[str, Value]:
    """Return the values of all parameters of a row: the given values after checks, and defaults for the others.

    Raises:
        ConfigurationError: If the row has no such parameter, or a value has the wrong type or is out of range. The
            message begins with `prefix`.
    """
    known = parameters(field, name, prefix)
    if (unknown := next((key for key in given if key not in known), None)) is not None:
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
    value: Value = converted(given, _TYPES[spec["type"]], key)
    if spec["choices"] and value not in spec["choices"]:
        listed = ", ".join(f"'{choice}'" for choice in spec["choices"])
        raise ConfigurationError(f"{key} is {shown(value)}, expected one of {listed}")
    if spec["type"] in ("real", "integer"):
        range_of(spec).check(value, key, ConfigurationError)
    return value


def range_of(spec: Row) -> Range:
    """Return the range of a numeric parameter."""
    return Range.of_core(spec["limits"], spec["unit"], whole=spec["type"] == "integer")


class Registered(Checked):
    """Base class of sections with `registered` fields. Values are checked, and defaults added, at creation."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make this section again, for pickle and copy: the parameters are in a view of a dictionary."""
        own = dataclasses.fields(self)  # type: ignore[arg-type]
        values = {field.name: getattr(self, field.name) for field in own}
        for field in registered_fields(self):
            values[field.name] = dict(values[field.name])
        return functools.partial(type(self), **values), ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in registered_fields(self):
            name = getattr(self, field.metadata["selector"])
            values = resolve(field, name, getattr(self, field.name), self._prefix)
            object.__setattr__(self, field.name, values)
