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

from floodtide.base import network_files, options, reading
from floodtide.base.tasks import TASKS, FloodTask, Task
from floodtide.config.sections import Config
from floodtide.errors import ConfigurationError, InvalidFileError

T = TypeVar("T")

# (section, key, its default, another key, its value): with this value of the other key, the key has no effect.
_IDLE = (
    ("comm", "contributors", 0, "mode", "synchronous"),
    ("comm", "late", "drop", "mode", "synchronous"),
    ("training", "epochs", 1, "on_exhausted", "cycle"),
)
# Keys that checkpoints of earlier versions store, with the only value that still has a meaning.
_RETIRED = (("run", "bind", "launcher"), ("training", "smooth", 1.0))


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply `a.b=value` overrides.

    Raises:
        InvalidFileError: If the file is missing or not TOML.
        ConfigurationError: If a key is unknown, or a value has the wrong type or is out of range.
    """
    text = reading.read_text(path, "a TOML configuration; floodtide init makes one from an image")
    config = from_dict(reading.parse_toml(text, str(path)), str(path), overrides)
    for section, key, default, other, value in _IDLE:
        values = vars(getattr(config, section))
        if values[key] != default and values[other] == value:
            text = f"has no effect with {section}.{other} '{value}', expected another {other}"
            raise ConfigurationError(f"{path}: {section}.{key} {text}")
    return config


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
    for section, key, value in _RETIRED:
        if isinstance(table := changed.get(section), dict) and table.get(key) == value:
            del table[key]
    reader = _Reader(where)
    reader.task = reader.alternative(TASKS, changed.get("task"), "task")
    return reader.build(Config, changed, "")


def stored(checkpoint: str | Path) -> Config | None:
    """Return the configuration that the file of a network stores; None if it stores none."""
    text = network_files.stored_text(checkpoint, "configuration")
    where = f"{checkpoint}: configuration"
    return from_dict(reading.parse_toml(text, where), where) if text else None


def require_same_task(checkpoint: str | Path, config: Config, what: str) -> Config | None:
    """Return the configuration that a checkpoint stores; refuse one of another task, or with other outputs.

    Args:
        checkpoint: A floodtide checkpoint. One that stores no configuration is accepted.
        config: The configuration. Classes without a table may be any classes.
        what: Start of the message, such as the key that names the checkpoint.
    """
    settings, task = stored(checkpoint), config.task
    if settings is not None and not task.is_learnt_with(settings.task):
        raise ConfigurationError(
            f"{what}: {checkpoint} has learnt the task {settings.task.outputs}, expected {task.outputs}, as [task] says"
        )
    return settings


class _Reader:
    """Builds sections. Attribute `task`: the class of the section [task], which decides what other keys mean."""

    def __init__(self, where: str) -> None:
        self.task: type[Task] = FloodTask
        self._where = where

    def build(self, cls: type[T], table: Any, prefix: str) -> T:
        """Return an instance of `cls`, built from a TOML table whose keys are prefix + name."""
        if not isinstance(table, Mapping):
            raise self._error(
                f"[{prefix.rstrip('.')}] is {options.type_name(table)}, expected a table"
            )
        hints = typing.get_type_hints(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        known = [name for name, field in fields.items() if "rows" not in field.metadata]
        for field in options.registered_fields(cls):
            selector = fields[field.metadata["selector"]]
            row = table.get(selector.name, selector.default)
            keys = options.parameters(field, row, f"{self._where}: {prefix}")
            known += keys
            values[field.name] = {key: table[key] for key in keys if key in table}
        for key in table:
            if key not in known:
                raise self._error(f"unknown key '{prefix}{key}'{options.like(key, known, prefix)}")
        for name, field in fields.items():
            if name in table and name not in values:
                values[name] = self._value(table[name], hints[name], field, prefix + name)
            elif dataclasses.MISSING is field.default is field.default_factory:
                raise self._error(
                    f"{prefix}{name} is missing, expected {options.described(hints[name])}"
                )
        with options.named_as(f"{self._where}: {prefix}"):
            return cls(**values)

    def _value(self, value: Any, hint: Any, field: dataclasses.Field[Any], key: str) -> Any:
        if not self.task.has(field):
            kinds = [one.kind for one in TASKS if one.has(field)]
            raise self._error(
                f"{key} has no meaning for task.kind '{self.task.kind}', expected it only for {options.one_of(kinds)}"
            )
        if alternatives := field.metadata.get("alternatives"):
            hint = self.alternative(alternatives, value, key)
        value = options.converted(value, hint, key, self._error, self.build)
        if not field.metadata.get("path"):
            return value
        if isinstance(value, dict):
            return {name: self._expanded(one, f"{key}.{name}") for name, one in value.items()}
        return self._expanded(value, key)

    def _expanded(self, value: Any, key: str) -> str:
        """Return a path with the values of `~` and `$NAME`."""
        path: str = options.converted(value, str, key, self._error)
        if "\0" in path:
            raise self._error(f"{key} contains a null character, expected a path")
        path = os.path.expandvars(os.path.expanduser(path))
        if missing := re.search(r"\$\{?(\w+)", path):
            raise self._error(
                f"{key} is '{value}', but the environment variable {missing.group(1)} is not set"
            )
        _require_utf8(path, f"{self._where}: {key}")
        return path

    def _error(self, text: str) -> ConfigurationError:
        return ConfigurationError(f"{self._where}: {text}")

    def alternative(self, sections: Sequence[Any], table: Any, key: str) -> Any:
        """Return the section whose `kind` a table has; the first section for a table without a kind."""
        if not isinstance(table, Mapping):
            return sections[0]
        kinds = [section.kind for section in sections]
        kind = table.get("kind", kinds[0])
        if kind in kinds:
            return sections[kinds.index(kind)]
        raise self._error(f"{key}.kind is {options.shown(kind)}, expected {options.one_of(kinds)}")


def _require_utf8(text: str, key: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{key} is not valid UTF-8, expected text") from None


def _override(document: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    _require_utf8(override, f"--set {ascii(key)[1:-1]}")
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
        if isinstance(node, list) and part in map(str, range(len(node))):
            node = node[int(part)]
        elif isinstance(node, dict):
            node = node.setdefault(part, {})
        else:
            raise ConfigurationError(
                f"--set {override}: '{part}' is not a section, or the index of a table, counted from 0"
            )
    if not isinstance(node, dict):
        raise ConfigurationError(
            f"--set {override}: expected a section, or the index of a table, before the last key"
        )
    node[last] = value
