# SPDX-License-Identifier: Apache-2.0
"""Read configurations: TOML, `--set`, and a check of every key. Errors name the wrong key."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from floodtide.base import reading
from floodtide.base.options import described, like, named_as, one_of, shown, type_name
from floodtide.base.registry import parameters, registered_fields
from floodtide.base.tasks import TASKS, FloodTask, Task
from floodtide.config.sections import Config, applies
from floodtide.errors import ConfigurationError, InvalidFileError

T = TypeVar("T")


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply `a.b=value` overrides.

    Raises:
        InvalidFileError: If the file is missing or not TOML.
        ConfigurationError: If a key is unknown, or a value has the wrong type or is out of range.
    """
    return from_dict(reading.read_toml(path), str(path), overrides)


def from_dict(
    document: Mapping[str, Any], where: str = "configuration", overrides: Sequence[str] = ()
) -> Config:
    """Return the configuration that nested dictionaries hold, as parsed from TOML, with `a.b=value` overrides.

    Raises:
        ConfigurationError: If a key is unknown, or a value has the wrong type or is out of range.
    """
    changed = copy.deepcopy(dict(document))
    for override in overrides:
        _override(changed, override)
    reader = _Reader(where)
    task = changed.get("task", {})
    if isinstance(task, Mapping):
        reader.task = reader.alternative(TASKS, task, "task")
    return reader.build(Config, changed, "")


class _Reader:
    """Builds sections. Attribute `task`: the class of the section [task], which decides what other keys mean."""

    def __init__(self, where: str) -> None:
        self.task: type[Task] = FloodTask
        self._where = where

    def build(self, cls: type[T], table: Any, prefix: str) -> T:
        """Return an instance of `cls`, built from a TOML table whose keys are prefix + name."""
        where = self._where
        if not isinstance(table, Mapping):
            raise ConfigurationError(
                f"{where}: [{prefix.rstrip('.')}] is {type_name(table)}, expected a table"
            )
        hints = typing.get_type_hints(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        table = self._split(table, fields, registered_fields(cls), prefix)
        values: dict[str, Any] = {}
        for name, field in fields.items():
            key = prefix + name
            if name in table:
                if not applies(field, self.task):
                    kinds = [one.kind for one in TASKS if applies(field, one)]
                    raise ConfigurationError(
                        f"{where}: {key} has no meaning for task.kind '{self.task.kind}', expected it only for "
                        f"{one_of(kinds)}"
                    )
                values[name] = self._value(table[name], hints[name], field, key)
            elif (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                raise ConfigurationError(
                    f"{where}: {key} is missing, expected {_describe(hints[name])}"
                )
        with named_as(f"{where}: {prefix}"):
            return cls(**values)

    def _value(self, value: Any, hint: Any, field: dataclasses.Field[Any], key: str) -> Any:
        if "rows" in field.metadata:
            return value
        if alternatives := field.metadata.get("alternatives"):
            hint = self.alternative(alternatives, value, key)
        value = self._convert(value, hint, key)
        if not field.metadata.get("path"):
            return value
        if isinstance(value, dict):
            return {name: _expand(one, f"{key}.{name}", self._where) for name, one in value.items()}
        return _expand(value, key, self._where)

    def _convert(self, value: Any, expected: Any, key: str) -> Any:
        where = self._where
        origin = typing.get_origin(expected)
        if dataclasses.is_dataclass(expected):
            return self.build(typing.cast(type, expected), value, f"{key}.")
        if origin in (typing.Union, types.UnionType):
            kinds = [one for one in typing.get_args(expected) if one is not type(None)]
            word = isinstance(value, str) and str in kinds
            return self._convert(value, str if word else kinds[0], key)
        if origin is Mapping:
            return self._mapping(value, typing.get_args(expected)[1], key)
        if origin is tuple:
            arguments = typing.get_args(expected)
            if not isinstance(value, (list, tuple)):
                raise _wrong(value, expected, key, where)
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return tuple(
                    self._convert(item, arguments[0], f"{key}.{i}") for i, item in enumerate(value)
                )
            if len(value) != len(arguments):
                axes = "(z, y, x)" if len(arguments) == 3 else "(y, x)"
                raise ConfigurationError(
                    f"{where}: {key} has {len(value)} entries, expected {len(arguments)} {axes}"
                )
            return tuple(
                self._convert(item, kind, f"{key}.{i}")
                for i, (item, kind) in enumerate(zip(value, arguments, strict=True))
            )
        return _plain(value, expected, key, where)

    def _split(
        self,
        table: Mapping[str, Any],
        fields: Mapping[str, dataclasses.Field[Any]],
        registered: Sequence[dataclasses.Field[Any]],
        prefix: str,
    ) -> Mapping[str, Any]:
        """Separate the section's own keys from the parameters of the registry rows that the section names."""
        rows: list[tuple[dataclasses.Field[Any], list[str]]] = []
        for field in registered:
            selector = fields[field.metadata["selector"]]
            name = table.get(selector.name, selector.default)
            rows.append((field, list(parameters(field, name, f"{self._where}: {prefix}"))))
        own = [key for key in fields if fields[key] not in registered]
        known = [key for _, keys in rows for key in keys]
        _refuse_unknown(table, [*own, *known], prefix, self._where)
        split = {key: table[key] for key in own if key in table}
        for field, keys in rows:
            split[field.name] = {key: table[key] for key in keys if key in table}
        return split

    def _mapping(self, value: Any, values: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ConfigurationError(
                f"{self._where}: {key} is {type_name(value)}, expected a table"
            )
        found = {}
        for name, one in value.items():
            found[name] = self._convert(one, values, f"{key}.{name}")
        return found

    def alternative(self, sections: Sequence[Any], table: Any, key: str) -> Any:
        """Return the section whose `kind` a table has; the first section for a table without a kind."""
        if not isinstance(table, Mapping):
            return sections[0]
        kind = table.get("kind", sections[0].kind)
        for section in sections:
            if section.kind == kind:
                return section
        kinds = one_of([section.kind for section in sections])
        raise ConfigurationError(f"{self._where}: {key}.kind is {shown(kind)}, expected {kinds}")


def _plain(value: Any, expected: Any, key: str, where: str) -> Any:
    if expected is float and type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:  # an integer too large for a float, so outside of every range
            return math.copysign(math.inf, value > 0 or -1)
    if type(value) is not expected:
        raise _wrong(value, expected, key, where)
    if expected is str:
        _require_utf8(value, key, where)
    return value


def _require_utf8(text: str, key: str, where: str) -> None:
    """Refuse a text that is not UTF-8. Command-line words and environment variables may hold any bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{where}: {key} is not valid UTF-8, expected text") from error


def _wrong(value: Any, expected: Any, key: str, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where}: {key} is {type_name(value)}, expected {_describe(expected)}"
    )


def _refuse_unknown(table: Mapping[str, Any], known: Any, prefix: str, where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigurationError(
                f"{where}: unknown key '{prefix}{key}'{like(key, list(known), prefix)}"
            )


def _expand(value: str, key: str, where: str) -> str:
    if "\0" in value:
        raise ConfigurationError(f"{where}: {key} contains a null character, expected a path")
    expanded = os.path.expandvars(os.path.expanduser(value))
    missing = re.search(r"\$\{?(\w+)", expanded)
    if missing:
        raise ConfigurationError(
            f"{where}: {key} is '{value}', but the environment variable {missing.group(1)} is not set"
        )
    _require_utf8(expanded, key, where)
    return expanded


def _describe(expected: Any) -> str:
    return "a table" if dataclasses.is_dataclass(expected) else described(expected)


def _override(document: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigurationError(f"--set {override}: expected section.key=value")
    try:
        values = reading.parse_toml(f"value = {text}", f"--set {key}")
    except InvalidFileError:
        values = {}
    value = values["value"] if list(values) == ["value"] else text  # a bare word is a string
    *parents, last = key.strip().split(".")
    node: Any = document
    for part in parents:
        if isinstance(node, list):
            if part not in map(str, range(len(node))):
                raise ConfigurationError(
                    f"--set {override}: '{part}' is not the index of one of the {len(node)} tables, counted from 0"
                )
            node = node[int(part)]
        else:
            node = node.setdefault(part, {})
        if not isinstance(node, (dict, list)):
            raise ConfigurationError(f"--set {override}: '{part}' is a value, not a section")
    if isinstance(node, list):
        raise ConfigurationError(f"--set {override}: expected the index of a table before the key")
    node[last] = value
