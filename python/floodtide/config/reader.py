# SPDX-License-Identifier: Apache-2.0
"""Read configurations: TOML, `--set`, and a check of every key. Errors name the wrong key."""

from __future__ import annotations

import copy
import dataclasses
import os
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from floodtide.base import reading
from floodtide.base.options import converted, described, like, named_as, one_of, shown, type_name
from floodtide.base.registry import parameters, registered_fields
from floodtide.base.tasks import TASKS, FloodTask, Task
from floodtide.config.sections import Config
from floodtide.errors import ConfigurationError, InvalidFileError

T = TypeVar("T")


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply `a.b=value` overrides.

    Raises:
        InvalidFileError: If the file is missing or not TOML.
        ConfigurationError: If a key is unknown, or a value has the wrong type or is out of range.
    """
    try:
        text = reading.read_bytes(path, "a TOML file").decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidFileError(
            f"{path}: is not a configuration in TOML; floodtide init makes one from an image"
        ) from None
    return from_dict(reading.parse_toml(text, str(path)), str(path), overrides)


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
    _require_utf8(changed, "", where)
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
                if not self.task.has(field):
                    kinds = [one.kind for one in TASKS if one.has(field)]
                    raise ConfigurationError(
                        f"{where}: {key} has no meaning for task.kind '{self.task.kind}', expected it only for "
                        f"{one_of(kinds)}"
                    )
                values[name] = self._value(table[name], hints[name], field, key)
            elif (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                raise self._error(f"{key} is missing, expected {described(hints[name])}")
        with named_as(f"{where}: {prefix}"):
            return cls(**values)

    def _value(self, value: Any, hint: Any, field: dataclasses.Field[Any], key: str) -> Any:
        if "rows" in field.metadata:
            return value
        if alternatives := field.metadata.get("alternatives"):
            hint = self.alternative(alternatives, value, key)
        value = converted(value, hint, key, self._error, self.build)
        if not field.metadata.get("path"):
            return value
        if isinstance(value, dict):
            return {name: self._path(one, f"{key}.{name}") for name, one in value.items()}
        return self._path(value, key)

    def _path(self, value: Any, key: str) -> str:
        return _expand(converted(value, str, key, self._error), key, self._where)

    def _error(self, text: str) -> ConfigurationError:
        return ConfigurationError(f"{self._where}: {text}")

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

    def alternative(self, sections: Sequence[Any], table: Any, key: str) -> Any:
        """Return the section whose `kind` a table has; the first section for a table without a kind."""
        if not isinstance(table, Mapping):
            return sections[0]
        kinds = [section.kind for section in sections]
        kind = table.get("kind", kinds[0])
        if kind in kinds:
            return sections[kinds.index(kind)]
        raise ConfigurationError(
            f"{self._where}: {key}.kind is {shown(kind)}, expected {one_of(kinds)}"
        )


def _require_utf8(value: Any, key: str, where: str) -> None:
    """Refuse text that is not UTF-8. Command-line words and environment variables may hold any bytes."""
    if isinstance(value, Mapping | list):
        for name, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            _require_utf8(one, f"{key}.{name}" if key else str(name), where)
    elif isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"{where}: {key} is not valid UTF-8, expected text") from error


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
    if missing := re.search(r"\$\{?(\w+)", expanded):
        raise ConfigurationError(
            f"{where}: {key} is '{value}', but the environment variable {missing.group(1)} is not set"
        )
    _require_utf8(expanded, key, where)
    return expanded


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
